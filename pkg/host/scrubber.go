package host

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/scrub"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	// scrubNoteEvery is how often the scrubber stores how far it is.
	scrubNoteEvery = 10 * time.Minute
	// scrubLeast is what a step counts for at least: opening a file is work, too.
	scrubLeast = 4 << 10
	// maxScrubNotes bounds the file with the notes.
	maxScrubNotes = 64 << 20
)

// scrubNote is how far a replica was checked. Times are in ns since 1970.
type scrubNote struct {
	Since   int64      `json:"since"`             // when it was first seen
	Checked int64      `json:"checked,omitempty"` // when a check of all of it ended; 0: never
	Turn    uint64     `json:"turn,omitempty"`    // grows with each check that ends on this node: its order does not depend on the wall clock
	Next    seq.Offset `json:"next,omitempty"`    // where the running check goes on; 0: at the start
}

// part returns how much of a log from start to end has been checked in the running
// check, from 0 to 1.
func (n scrubNote) part(start, end seq.Offset) float64 {
	if n.Next <= start || end <= start {
		return 0
	}
	return min(1, float64(n.Next-start)/float64(end-start))
}

// scrubbed tells how far the scrubber is, to those who ask.
type scrubbed struct {
	mu    sync.Mutex           // guards what follows
	notes map[string]scrubNote // by datadir.ReplicaName
	bytes int64                // read since the start
}

// ScrubStats tells how far the scrubber of this node is.
type ScrubStats struct {
	Bytes  int64         // read since the node started
	Oldest time.Duration // since the replica was checked in full that was checked least recently, or was first seen
}

func (s *scrubbed) of(name string) (scrubNote, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.notes[name]
	return n, ok
}

func (s *scrubbed) set(name string, n scrubNote) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes[name] = n
}

// nextTurn returns a number above those of all checks that ended.
func (s *scrubbed) nextTurn() (turn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.notes {
		turn = max(turn, n.Turn)
	}
	return turn + 1
}

// stats returns the figures at a reading of the wall clock.
func (s *scrubbed) stats(wall int64) ScrubStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := ScrubStats{Bytes: s.bytes}
	for _, n := range s.notes {
		out.Oldest = max(out.Oldest, time.Duration(wall-max(n.Since, n.Checked)))
	}
	return out
}

// scrubber reads what is stored on this node again and again, slowly, to find what
// cannot be read while other replicas hold it intact. What it finds is treated as
// any other damage.
type scrubber struct {
	n     *Host
	pace  scrub.Pace
	noted time.Time // when the notes were stored

	name    string // of the replica that is being checked; "": none is
	topic   *Topic
	replica *Held
	checker *commitlog.Checker
}

// run checks until ctx ends.
func (s *scrubber) run(ctx context.Context) {
	s.load()
	s.noted = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		s.look()
		n, wait := s.pace.Next(time.Now(), s.stored())
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
			s.pace.Read(int64(max(read, scrubLeast)), time.Since(began), time.Now())
		}
		if time.Since(s.noted) >= scrubNoteEvery {
			s.store()
		}
	}
}

// eachStored calls f with each replica whose log is on the disk.
func (s *scrubber) eachStored(f func(h *Topic, hp *Held, name string)) {
	s.n.EachHeld(func(h *Topic, hp *Held) {
		if h.fs == s.n.o.FS {
			f(h, hp, hp.name)
		}
	})
}

// look adjusts the notes to what the node holds.
func (s *scrubber) look() {
	held := map[string]bool{}
	s.eachStored(func(_ *Topic, _ *Held, name string) { held[name] = true })
	s.n.scrubbed.mu.Lock()
	defer s.n.scrubbed.mu.Unlock()
	maps.DeleteFunc(s.n.scrubbed.notes, func(name string, _ scrubNote) bool { return !held[name] })
	for name := range held {
		if _, known := s.n.scrubbed.notes[name]; !known {
			s.n.scrubbed.notes[name] = scrubNote{Since: s.n.o.WallClock(time.Now())}
		}
	}
}

// stored returns how many bytes there are to check, as the steps count them.
func (s *scrubber) stored() (bytes int64) {
	s.eachStored(func(_ *Topic, hp *Held, _ string) {
		bytes += max(hp.Replica.Log().Bytes(), scrubLeast)
	})
	return bytes
}

// step checks about so many bytes, and returns how many.
func (s *scrubber) step(n int) (read int) {
	if s.checker != nil && s.topic.Held(s.replica.index) != s.replica {
		s.leave() // it was copied anew, or is held no longer
	}
	if s.checker == nil && !s.choose() {
		return 0
	}
	read, done, err := s.check(n)
	note, known := s.n.scrubbed.of(s.name)
	note.Next = s.checker.Next()
	switch {
	case errors.Is(err, commitlog.ErrClosed):
		s.leave()
	case err != nil:
		s.n.log.Warn("cannot scrub replica; continuing with the next one", "replica", s.name, "error", err)
		done = true
	}
	if done {
		note = scrubNote{Since: note.Since, Checked: s.n.o.WallClock(time.Now()), Turn: s.n.scrubbed.nextTurn()}
	}
	if known && s.name != "" {
		s.n.scrubbed.set(s.name, note)
	}
	s.n.scrubbed.mu.Lock()
	s.n.scrubbed.bytes += int64(read)
	s.n.scrubbed.mu.Unlock()
	if done {
		s.leave()
	}
	return read
}

// check checks about so many bytes of the replica at hand. Damage is passed on, and
// the check goes on behind it.
func (s *scrubber) check(n int) (read int, done bool, err error) {
	for read < n && !done && err == nil {
		var step int
		step, done, err = s.checker.Step(n-read, nil)
		read += max(step, 1)
		if fate.Of(err) == fate.Corrupt {
			s.replica.Replica.Spoil(err)
			err = nil
		}
	}
	return read, done, err
}

// choose begins with the replica that was checked least recently.
func (s *scrubber) choose() bool {
	var best scrubNote
	s.name = ""
	s.eachStored(func(h *Topic, hp *Held, name string) {
		n, known := s.n.scrubbed.of(name)
		if known && (s.name == "" || n.Turn < best.Turn || n.Turn == best.Turn && n.Next > best.Next) {
			best, s.name, s.topic, s.replica = n, name, h, hp
		}
	})
	if s.name == "" {
		return false
	}
	s.checker = commitlog.NewChecker(s.replica.Replica.Log(), best.Next)
	return true
}

// leave ends the check of a replica; its note says where it goes on.
func (s *scrubber) leave() {
	if s.checker != nil {
		s.checker.Close()
	}
	s.checker, s.topic, s.replica, s.name = nil, nil, nil, ""
}

// load reads how far the scrubber was when the node stopped. What cannot be read is
// no loss: the checks begin again.
func (s *scrubber) load() {
	notes := map[string]scrubNote{}
	raw, err := vfs.ReadFile(s.n.o.FS, s.n.dirs.Scrubbed(), maxScrubNotes)
	if err == nil && json.Unmarshal(raw, &notes) != nil {
		notes = map[string]scrubNote{}
	}
	s.n.scrubbed.mu.Lock()
	defer s.n.scrubbed.mu.Unlock()
	s.n.scrubbed.notes = notes
}

// store notes how far the scrubber is.
func (s *scrubber) store() {
	s.noted = time.Now()
	s.n.scrubbed.mu.Lock()
	raw, err := json.Marshal(s.n.scrubbed.notes)
	s.n.scrubbed.mu.Unlock()
	if err == nil {
		err = vfs.WriteFileSynced(s.n.o.FS, s.n.dirs.Scrubbed(), raw)
	}
	if err != nil {
		s.n.log.Info("cannot store scrub progress; scrubbing starts over after a restart", "error", err)
	}
}

// Checked returns when all of a replica's log was last read from disk, in ns since 1970,
// or 0, and the part that has been read since.
func (n *Host) Checked(hp *Held) (at int64, part float64) {
	note, ok := n.scrubbed.of(hp.name)
	if !ok {
		return 0, 0
	}
	l := hp.Replica.Log()
	return note.Checked, note.part(l.Start(), l.End())
}
