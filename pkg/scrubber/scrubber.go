// Package scrubber slowly re-reads all stored data of a node, to find unreadable data while
// other replicas still hold it intact. Findings are reported to the replica, whose owner treats them
// like any other damage.
//
// Invariants:
//
//   - The least recently checked replica is checked next.
//   - Progress survives a restart; a crash costs at most ten minutes of reading.
//   - All bytes are read once per interval, unless the disk is slow or busy.
//
// Start at Scrubber.Run.
package scrubber

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	// noteEvery is how often the scrubber stores its progress.
	noteEvery = 10 * time.Minute
	// least is the minimum that a step counts for, because opening a file is
	// also work.
	least = 4 << 10
	// maxNotes bounds the size of the notes file.
	maxNotes = 64 << 20
)

// note is the progress of checking a replica. Times are in ns since 1970.
type note struct {
	Since   int64      `json:"since"`             // when it was first seen
	Checked int64      `json:"checked,omitempty"` // when a complete check ended; 0: never
	Turn    uint64     `json:"turn,omitempty"`    // grows with each check that ends on this node: its order does not depend on the wall clock
	Next    seq.Offset `json:"next,omitempty"`    // where the running check continues; 0: at the start
}

// part returns the fraction of a log from start to end that the running check has
// read, from 0 to 1.
func (n note) part(start, end seq.Offset) float64 {
	if n.Next <= start || end <= start {
		return 0
	}
	return min(1, float64(n.Next-start)/float64(end-start))
}

// Stats is the progress of a node's scrubber.
type Stats struct {
	Bytes  int64         // read since the node started
	Oldest time.Duration // since the last complete check, or first sight, of the least recently checked replica
}

func (s *Scrubber) of(name string) (note, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.notes[name]
	return n, ok
}

func (s *Scrubber) set(name string, n note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes[name] = n
}

// nextTurn returns a number larger than those of all checks that have ended.
func (s *Scrubber) nextTurn() (turn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.notes {
		turn = max(turn, n.Turn)
	}
	return turn + 1
}

// Replica is a copy of a partition's log.
type Replica interface {
	Log() *commitlog.Log
	// MarkDamaged is called with the error of a read that failed.
	MarkDamaged(error)
}

// Options configure a Scrubber.
type Options struct {
	FS        vfs.FS
	Notes     string        // path of the notes file
	Interval  time.Duration // in which every stored byte is read once
	WallClock func(now time.Time) int64
	Logger    *slog.Logger
	// Stored calls f with each replica whose log is on disk, and its name.
	Stored func(f func(name string, r Replica))
}

// Scrubber checks the replicas of a node. One goroutine calls Run; the other methods are
// safe for concurrent use.
type Scrubber struct {
	o Options

	mu    sync.Mutex      // guards what follows
	notes map[string]note // by the name of the replica
	bytes int64           // read since the start

	// Used by Run's goroutine only.
	pace    pace
	noted   time.Time // when the notes were stored
	name    string    // of the replica being checked; "": none
	replica Replica
	checker *commitlog.Checker
}

// New returns a Scrubber that has checked nothing yet.
func New(o Options) *Scrubber {
	return &Scrubber{o: o, pace: pace{interval: o.Interval}}
}

// Stats returns the current progress.
func (s *Scrubber) Stats() Stats {
	wall := s.o.WallClock(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Stats{Bytes: s.bytes}
	for _, n := range s.notes {
		out.Oldest = max(out.Oldest, time.Duration(wall-max(n.Since, n.Checked)))
	}
	return out
}

// Checked returns when a replica's log was last read from disk completely, in ns since
// 1970, or 0, and the fraction that has been read since.
func (s *Scrubber) Checked(name string, l *commitlog.Log) (at int64, part float64) {
	n, ok := s.of(name)
	if !ok {
		return 0, 0
	}
	return n.Checked, n.part(l.Start(), l.End())
}

// Run checks until ctx ends.
func (s *Scrubber) Run(ctx context.Context) {
	s.load()
	s.noted = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		s.look()
		n, wait := s.pace.next(time.Now(), s.stored())
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			s.leave()
			s.store()
			return
		case <-timer.C:
		}
		if n > 0 {
			began := time.Now()
			read := s.step(int(n))
			s.pace.read(int64(max(read, least)), time.Since(began), time.Now())
		}
		if time.Since(s.noted) >= noteEvery {
			s.store()
		}
	}
}

// look updates the notes to the replicas that the node holds, and ends the check of a
// replica that was copied again or is no longer held.
func (s *Scrubber) look() {
	held, current := map[string]bool{}, false
	s.o.Stored(func(name string, r Replica) {
		held[name] = true
		current = current || r == s.replica
	})
	if s.checker != nil && !current {
		s.leave()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.notes, func(name string, _ note) bool { return !held[name] })
	for name := range held {
		if _, known := s.notes[name]; !known {
			s.notes[name] = note{Since: s.o.WallClock(time.Now())}
		}
	}
}

// stored returns the number of bytes to check, as the steps count them.
func (s *Scrubber) stored() (bytes int64) {
	s.o.Stored(func(_ string, r Replica) {
		bytes += max(r.Log().Bytes(), least)
	})
	return bytes
}

// step checks about most bytes, and returns how many it has checked.
func (s *Scrubber) step(most int) (read int) {
	if s.checker == nil && !s.choose() {
		return 0
	}
	read, done, err := s.check(most)
	n, known := s.of(s.name)
	n.Next = s.checker.Next()
	switch {
	case errors.Is(err, commitlog.ErrClosed):
		s.leave()
	case err != nil:
		s.o.Logger.Warn("cannot scrub replica; continuing with the next one", "replica", s.name, "error", err)
		done = true
	}
	if done {
		n = note{Since: n.Since, Checked: s.o.WallClock(time.Now()), Turn: s.nextTurn()}
	}
	if known && s.name != "" {
		s.set(s.name, n)
	}
	s.mu.Lock()
	s.bytes += int64(read)
	s.mu.Unlock()
	if done {
		s.leave()
	}
	return read
}

// check checks about n bytes of the current replica. It reports damage, and
// continues after it.
func (s *Scrubber) check(n int) (read int, done bool, err error) {
	for read < n && !done && err == nil {
		var step int
		step, done, err = s.checker.Step(n-read, nil)
		read += max(step, 1)
		if fate.Of(err) == fate.Corrupt {
			s.replica.MarkDamaged(err)
			err = nil
		}
	}
	return read, done, err
}

// choose chooses the least recently checked replica.
func (s *Scrubber) choose() bool {
	var best note
	s.name = ""
	s.o.Stored(func(name string, r Replica) {
		n, known := s.of(name)
		if known && (s.name == "" || n.Turn < best.Turn || n.Turn == best.Turn && n.Next > best.Next) {
			best, s.name, s.replica = n, name, r
		}
	})
	if s.name == "" {
		return false
	}
	s.checker = commitlog.NewChecker(s.replica.Log(), best.Next)
	return true
}

// leave ends the check of a replica; its note says where the next one
// continues.
func (s *Scrubber) leave() {
	if s.checker != nil {
		s.checker.Close()
	}
	s.checker, s.replica, s.name = nil, nil, ""
}

// load reads the progress from when the node stopped. If it cannot be read, nothing
// is lost: the checks begin again.
func (s *Scrubber) load() {
	notes := map[string]note{}
	raw, err := vfs.ReadFile(s.o.FS, s.o.Notes, maxNotes)
	if err == nil && json.Unmarshal(raw, &notes) != nil {
		notes = map[string]note{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = notes
}

// store stores the scrubber's progress.
func (s *Scrubber) store() {
	s.noted = time.Now()
	s.mu.Lock()
	raw, err := json.Marshal(s.notes)
	s.mu.Unlock()
	if err == nil {
		err = vfs.WriteFileSynced(s.o.FS, s.o.Notes, raw)
	}
	if err != nil {
		s.o.Logger.Info("cannot store scrub progress; scrubbing starts over after a restart", "error", err)
	}
}
