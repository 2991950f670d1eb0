package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	// defaultBytes is the default maximum size of the stored events.
	defaultBytes = 64 << 20
	// MinBytes is the minimum of Options.Bytes.
	MinBytes = 1 << 20
	// segmentShare is the inverse of a segment's part of the maximum size.
	segmentShare = 16
	// maxSegments limits the number of files: each process starts a new one.
	maxSegments = 64
	// maxWaiting is how many frames may wait for a slow disk; then the oldest are dropped.
	maxWaiting = 64
	// flushInterval is how long events may be in memory only.
	flushInterval = 200 * time.Millisecond

	segmentPrefix, segmentSuffix = "trace-", ".events"
)

// Options configure a store.
type Options struct {
	FS    vfs.FS
	Dir   string
	Bytes int64 // maximum on disk; 0: defaultBytes
	// Failed is called, by Run and Find, if a file cannot be written or read, which only loses
	// events. Optional.
	Failed func(error)
	// Exporter receives each event at once. Optional.
	Exporter Exporter
	// Slow defines which publishes and deliveries are reported as slow.
	Slow Slow
}

// Exporter receives trace events.
type Exporter interface {
	// Export is called with locks held, by many goroutines: it must not block.
	Export(e Exported)
}

// Exported is an event with the data that is not stored.
type Exported struct {
	Event
	// Context is the publisher's context, only for events of a publish or a delivery.
	Context Context
	// Origin is the original of a copy, if known; otherwise the message itself.
	Origin seq.MessageID
	// Noted is when the event was recorded; for a publish, when it was appended.
	Noted time.Time
}

// Slow defines which publishes and deliveries are reported.
type Slow struct {
	Publish  time.Duration // minimum duration to report; 0: never
	Delivery time.Duration // likewise, from the publish to the delivery
	// Report is called for each of them. It must not block.
	Report func(kind string, m Message, d time.Duration)
}

// Stats are the counters of a store.
type Stats struct {
	Events   uint64 // recorded, each message's counted
	Lost     uint64 // frames that could not be stored
	Bytes    int64  // on disk
	Segments int
}

// segment is a file.
type segment struct {
	number uint64
	bytes  int64 // completely written
}

// Store stores the events of a node. Its methods are safe for concurrent use.
type Store struct {
	o      Options
	wake   chan struct{} // signals that data must be written at once
	lost   atomic.Uint64
	asking sync.Mutex // held during a query

	mu       sync.Mutex // guards the fields below
	events   uint64     // recorded
	active   frame
	waiting  [][]byte  // frames to be written, oldest first
	writing  int       // how many of them are being written
	segments []segment // on disk, oldest first
	noted    bool      // some events are not on disk yet

	// used by Run
	file vfs.File // of the last segment; nil: the next write starts one
}

// Open opens the store in a directory, which is created when something is stored. If existing
// files cannot be listed, that is reported, and their events are not found.
func Open(o Options) *Store {
	o.Bytes = max(cmp.Or(o.Bytes, defaultBytes), MinBytes)
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	s := &Store{o: o, wake: make(chan struct{}, 1)}
	names, err := o.FS.ReadDir(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.Failed(fmt.Errorf("list stored trace events: %w", err))
	}
	for _, name := range names {
		n, ok := numberOf(name)
		if !ok {
			continue
		}
		at, err := o.FS.Stat(filepath.Join(o.Dir, name))
		if err != nil || at.IsDir() {
			continue
		}
		s.segments = append(s.segments, segment{n, at.Size()})
	}
	slices.SortFunc(s.segments, func(a, b segment) int { return cmp.Compare(a.number, b.number) })
	return s
}

func nameOf(n uint64) string { return fmt.Sprintf("%s%016x%s", segmentPrefix, n, segmentSuffix) }

func numberOf(name string) (uint64, bool) {
	text, ok := strings.CutPrefix(name, segmentPrefix)
	text, ok2 := strings.CutSuffix(text, segmentSuffix)
	n, err := strconv.ParseUint(text, 16, 64)
	return n, ok && ok2 && err == nil && name == nameOf(n)
}

// add adds an event. of is the original of a copy; nil if there is none or it is not available.
func (s *Store) add(e *Event, of *record.Address, c Context) {
	s.mu.Lock()
	s.events += e.count()
	s.active.add(e)
	full := s.active.full()
	if full {
		s.sealLocked()
	}
	first := !s.noted
	s.noted = true
	s.mu.Unlock()
	if full || first {
		s.poke()
	}
	if s.o.Exporter == nil {
		return
	}
	x := Exported{Event: *e, Context: c, Origin: e.Message.ID, Noted: time.Now()}
	if of != nil {
		x.Origin = seq.NewMessageID(of.Partition, of.Offset)
	}
	s.o.Exporter.Export(x)
}

// context returns the trace context of a header, if it is needed.
func (s *Store) context(header []byte) Context {
	if s.o.Exporter == nil {
		return Context{}
	}
	return contextOf(header)
}

func (s *Store) poke() { signal.Poke(s.wake) }

// sealLocked queues the active frame for writing. If too many wait, the oldest that is not being
// written is dropped.
func (s *Store) sealLocked() {
	s.waiting = append(s.waiting, s.active.seal())
	if len(s.waiting) > maxWaiting && s.writing < len(s.waiting)-1 {
		s.waiting = slices.Delete(s.waiting, s.writing, s.writing+1)
		s.lost.Add(1)
	}
}

// Run writes recorded events until ctx ends, and then the remaining ones.
func (s *Store) Run(ctx context.Context) {
	defer func() {
		s.flush(true)
		s.closeFile()
	}()
	timer := time.NewTimer(flushInterval)
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			s.flush(true)
		case <-s.wake:
			s.flush(false)
			timer.Reset(flushInterval)
		}
	}
}

// flush writes the waiting frames; with all, the active one as well.
func (s *Store) flush(all bool) {
	s.mu.Lock()
	if all && s.active.count > 0 {
		s.sealLocked()
	}
	if all {
		s.noted = false
	}
	batch := slices.Clone(s.waiting)
	s.writing = len(batch)
	s.mu.Unlock()
	for _, data := range batch {
		err := s.write(data)
		s.mu.Lock()
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.writing--
		if err == nil {
			s.segments[len(s.segments)-1].bytes += int64(len(data))
		}
		s.mu.Unlock()
		if err != nil {
			s.lost.Add(1)
			s.abandon() // the next frame is written to another file
			s.o.Failed(fmt.Errorf("store trace events, which are lost: %w", err))
		}
	}
	s.trim()
}

// write appends a frame to the last segment, or to a new one.
func (s *Store) write(data []byte) error {
	s.mu.Lock()
	at := int64(0)
	if s.file != nil {
		at = s.segments[len(s.segments)-1].bytes
	}
	s.mu.Unlock()
	if s.file != nil && at+int64(len(data)) > s.o.Bytes/segmentShare {
		s.closeFile()
		at = 0
	}
	if s.file == nil {
		if err := s.begin(); err != nil {
			return err
		}
	}
	_, err := s.file.WriteAt(data, at)
	return err
}

// begin creates a new segment.
func (s *Store) begin() error {
	if err := s.o.FS.MkdirAll(s.o.Dir); err != nil {
		return err
	}
	next := uint64(1)
	s.mu.Lock()
	if n := len(s.segments); n > 0 {
		next = s.segments[n-1].number + 1
	}
	s.mu.Unlock()
	f, err := s.o.FS.Create(filepath.Join(s.o.Dir, nameOf(next)))
	if err != nil {
		return err
	}
	s.file = f
	s.mu.Lock()
	s.segments = append(s.segments, segment{number: next})
	s.mu.Unlock()
	return nil
}

func (s *Store) closeFile() {
	if s.file != nil {
		_ = s.file.Close() // durability is not guaranteed
		s.file = nil
	}
}

// abandon ends the last segment after a failed write. An empty segment is removed: while a disk
// accepts no writes, empty segments must not displace others.
func (s *Store) abandon() {
	if s.file == nil {
		return
	}
	s.closeFile()
	s.mu.Lock()
	last := len(s.segments) - 1
	empty, number := s.segments[last].bytes == 0, s.segments[last].number
	if empty {
		s.segments = s.segments[:last]
	}
	s.mu.Unlock()
	if empty {
		_ = s.o.FS.Remove(filepath.Join(s.o.Dir, nameOf(number))) // otherwise the next segment uses the name
	}
}

// trim deletes the oldest excess segments, but never the last one.
func (s *Store) trim() {
	for {
		s.mu.Lock()
		total := int64(0)
		for _, x := range s.segments {
			total += x.bytes
		}
		if len(s.segments) < 2 || total <= s.o.Bytes && len(s.segments) <= maxSegments {
			s.mu.Unlock()
			return
		}
		oldest := s.segments[0]
		s.segments = slices.Delete(s.segments, 0, 1)
		s.mu.Unlock()
		if err := s.o.FS.Remove(filepath.Join(s.o.Dir, nameOf(oldest.number))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.o.Failed(fmt.Errorf("delete old trace events: %w", err))
		}
	}
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Stats{Events: s.events, Lost: s.lost.Load(), Segments: len(s.segments)}
	for _, x := range s.segments {
		out.Bytes += x.bytes
	}
	return out
}

// each calls f with every stored event, oldest first.
func (s *Store) each(f func(*Event)) {
	s.mu.Lock()
	files := slices.Clone(s.segments)
	memory := slices.Clone(s.waiting)
	if active := s.active.snapshot(); active != nil {
		memory = append(memory, active)
	}
	s.mu.Unlock()
	for _, x := range files {
		if x.bytes == 0 {
			continue
		}
		data, err := s.read(x)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) { // it was old, and deleted meanwhile
				s.o.Failed(fmt.Errorf("read trace events: %w", err))
			}
			continue
		}
		if n := scan(data, f); n > 0 {
			s.o.Failed(fmt.Errorf("%s: %d bytes of trace events lost: %w", nameOf(x.number), n, errDamaged))
		}
	}
	for _, data := range memory {
		scan(data, f)
	}
}

func (s *Store) read(x segment) ([]byte, error) {
	f, err := s.o.FS.Open(filepath.Join(s.o.Dir, nameOf(x.number)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(x.bytes, size, s.o.Bytes))
	if err := vfs.ReadFull(f, data, 0); err != nil {
		return nil, err
	}
	return data, nil
}
