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
	// defaultBytes is how much a node keeps.
	defaultBytes = 64 << 20
	// MinBytes is the least that it may be told to keep.
	MinBytes = 1 << 20
	// segmentShare is which part of what is kept one segment has.
	segmentShare = 16
	// maxSegments bounds the files: a process that begins has a new one.
	maxSegments = 64
	// maxWaiting is how many frames wait for a disk that is slow; then the oldest are lost.
	maxWaiting = 64
	// FlushInterval is how long what is noted is in memory alone.
	FlushInterval = 200 * time.Millisecond

	segmentPrefix, segmentSuffix = "trace-", ".events"
)

// Options configure a store.
type Options struct {
	FS    vfs.FS
	Dir   string
	Bytes int64 // kept on disk; 0: defaultBytes
	// Failed is told of a file that cannot be written or read; events are lost by it, and
	// nothing else. It is called by Run and Find. nil: nobody is told.
	Failed func(error)
	// Exporter is told of each event at once. nil: nobody is told.
	Exporter Exporter
	// Slow says what is reported as slow.
	Slow Slow
}

// Exporter is told what is traced.
type Exporter interface {
	// Export is called with locks held, by many goroutines: it must not block.
	Export(e Exported)
}

// Exported is an event with what is not stored of it.
type Exported struct {
	Event
	// Context is the publisher's, of an event that tells of a publish or a delivery; the
	// others do not know it.
	Context Context
	// Origin is the message that this one is a copy of, where that is known; else it is the
	// message itself.
	Origin seq.MessageID
	// Noted is when the event was noted. Of a publish that is when it was appended.
	Noted time.Time
}

// Slow says which publishes and deliveries are reported.
type Slow struct {
	Publish  time.Duration // reported from here on; 0: never
	Delivery time.Duration // from the publish to the delivery, likewise
	// Report is told of one. It must not block.
	Report func(kind string, m Message, d time.Duration)
}

// Stats are the figures of a store.
type Stats struct {
	Events   uint64 // noted
	Lost     uint64 // frames that could not be stored
	Bytes    int64  // on disk
	Segments int
	Damaged  uint64 // bytes that were found unreadable, by questions
}

// segment is a file.
type segment struct {
	number uint64
	bytes  int64 // that were written in full
}

// Store keeps the events of a node. Its methods are safe for concurrent use.
type Store struct {
	o       Options
	wake    chan struct{} // something waits to be written at once
	events  atomic.Uint64
	lost    atomic.Uint64
	damaged atomic.Uint64
	asking  sync.Mutex // held by a question

	mu       sync.Mutex // guards what follows
	active   frame
	waiting  [][]byte  // frames to be written; oldest first
	writing  int       // so many of them are being written
	segments []segment // on disk; oldest first
	noted    bool      // there is something that is not on disk

	// of Run
	file vfs.File // of the last segment; nil: the next write begins one
}

// Open opens the store in a directory, which is made when something is stored. What is
// there and cannot be listed is reported, and stays out of the answers.
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

// add adds an event. of is what its message is a copy of; nil: nothing, or it is not at hand.
func (s *Store) add(e *Event, of *record.Address, c Context) {
	s.events.Add(1)
	s.mu.Lock()
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

// context returns the trace context of a header, if somebody wants to know it.
func (s *Store) context(header []byte) Context {
	if s.o.Exporter == nil {
		return Context{}
	}
	return contextOf(header)
}

func (s *Store) poke() { signal.Poke(s.wake) }

// sealLocked has the active frame wait to be written. Where too many wait, the oldest that
// is not being written is lost.
func (s *Store) sealLocked() {
	s.waiting = append(s.waiting, s.active.seal())
	if len(s.waiting) > maxWaiting && s.writing < len(s.waiting)-1 {
		s.waiting = slices.Delete(s.waiting, s.writing, s.writing+1)
		s.lost.Add(1)
	}
}

// Run writes what is noted until ctx ends, and then what is left.
func (s *Store) Run(ctx context.Context) {
	defer func() {
		s.flush(true)
		s.closeFile()
	}()
	timer := time.NewTimer(FlushInterval)
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			s.flush(true)
		case <-s.wake:
			s.flush(false)
			timer.Reset(FlushInterval)
		}
	}
}

// flush writes the frames that wait; all: the active one, too.
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
			s.abandon() // the next frame goes to another file
			s.o.Failed(fmt.Errorf("store trace events, events lost: %w", err))
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

// begin makes a new segment.
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
		_ = s.file.Close() // nothing of it is promised
		s.file = nil
	}
}

// abandon ends the last segment after a write that failed. One that holds nothing is taken back:
// while a disk takes no writes, empty ones must not push out those that hold something.
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
		_ = s.o.FS.Remove(filepath.Join(s.o.Dir, nameOf(number))) // or the next segment takes its name
	}
}

// trim deletes the oldest segments that are too many, but not the last.
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

// Stats returns the figures.
func (s *Store) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	out := Stats{Events: s.events.Load(), Lost: s.lost.Load(), Damaged: s.damaged.Load()}
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Segments = len(s.segments)
	for _, x := range s.segments {
		out.Bytes += x.bytes
	}
	return out
}

// each calls f with every event that is kept, oldest first.
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
			if !errors.Is(err, fs.ErrNotExist) { // it was old, and went meanwhile
				s.o.Failed(fmt.Errorf("read trace events: %w", err))
			}
			continue
		}
		if n := scan(data, f); n > 0 {
			s.damaged.Add(uint64(n)) //nolint:gosec // not negative
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
