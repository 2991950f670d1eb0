// Package diskspace decides whether the disk has space for publishes, for replicated data, and
// for metadata commands.
//
// Invariants:
//
//   - A low disk stays low until more than the reserve is free, which avoids flapping.
//   - Space reserved for appends counts until a measurement of the disk includes it: between
//     two measurements no more is reserved than was free.
//   - If the disk cannot be measured, the last measurement stays in effect.
//   - A disk that has refused a write for lack of space is low, whatever is measured, until a
//     trial shows that it has room.
//
// Start at Space.
package diskspace

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	// Margin is the fraction of the reserve, as a divisor, that must be free
	// beyond it before a disk that was low accepts publishes again.
	Margin = 8
	// FollowerShare is the fraction of the reserve, as a divisor, below which followers
	// accept nothing. The rest is for replication, also of publishes that were in
	// progress when the leader's disk became full.
	FollowerShare = 2
	// calm is how long a disk must have had room before the metadata says so. A disk
	// at the limit therefore moves leaderships at most that often.
	calm = 10 * time.Second
	// rest is how long a disk must have had room before the log says so. A disk at the limit, where retention frees
	// what publishers fill, has one line when that begins, and one when it is over.
	rest = time.Minute
	// minLead is how long a node must have led the metadata before it transfers that
	// leadership for lack of space for commands: if no disk has space, the leadership
	// does not move faster than that.
	minLead = 10 * time.Second
	// ampleBytes beyond the reserve are more than is written between two checks of
	// a disk with ample room.
	ampleBytes = 8 << 30
	// smallDisk is the maximum fraction of a disk, as a divisor, that is kept
	// free.
	smallDisk = 20
)

// Room classifies the free space of the disk.
type Room int

// The levels of free space, from the least to the most.
const (
	Brimful Room = iota // followers accept nothing either
	Low                 // publishes are refused
	Enough              // it may be low soon
	Ample               // it will not be low before several checks
)

// headroom is how many bytes may be appended before the disk is down to its reserve,
// according to the last measurement and what was reserved for appends since. Its
// methods are safe for concurrent use.
type headroom struct {
	left  atomic.Int64
	taken atomic.Int64 // reserved since the last measurement, or shortly before: the disk need not show it yet
	short atomic.Bool  // a request was refused since the last measurement
}

// observe records a measurement of the disk.
func (h *headroom) observe(free, reserve uint64) {
	h.left.Store(clampSigned(free) - clampSigned(reserve) - h.taken.Swap(0))
}

// unknown records that the free space is unknown.
func (h *headroom) unknown() { h.left.Store(math.MaxInt64 / 2) }

// reserve reserves n bytes if they are available. Otherwise the next measurement counts as low.
func (h *headroom) reserve(n int64) bool {
	if h.left.Add(-n) < 0 {
		h.left.Add(n)
		h.short.Store(true)
		return false
	}
	h.taken.Add(n)
	return true
}

// spare reserves n bytes if they are available. It never makes a concurrent reserve fail.
func (h *headroom) spare(n int64) bool {
	for {
		left := h.left.Load()
		if left < n {
			return false
		}
		if h.left.CompareAndSwap(left, left-n) {
			h.taken.Add(n)
			return true
		}
	}
}

// shows returns the free space that a measurement counts as: less than the reserve if a
// request was refused since the last one. Then the disk is low, although a measurement
// may never show that, because what was refused is not written.
func (h *headroom) shows(free, reserve uint64) uint64 {
	if h.short.Swap(false) && reserve > 0 {
		return min(free, reserve-1)
	}
	return free
}

func clampSigned(n uint64) int64 { return int64(min(n, math.MaxInt64/2)) }

// level is a node's decision about the free space on its disk.
type level struct {
	low     bool
	brimful bool
	lowLast time.Time // when it was last low; zero: never
	leads   time.Time // since when the node leads the metadata; zero: it does not
}

// observe records how much is free, and returns the level. A low disk stays low until
// more than the reserve is free, and a brimful one stays so until it is no longer
// low.
func (d *level) observe(now time.Time, free, reserve uint64) Room {
	need := reserve
	if d.low {
		need += reserve / Margin
	}
	if d.low = free < need; d.low {
		d.lowLast = now
		if d.brimful = d.brimful || free < reserve/FollowerShare; d.brimful {
			return Brimful
		}
		return Low
	}
	d.brimful = false
	if free < reserve+ampleBytes {
		return Enough
	}
	return Ample
}

// full reports what the metadata should say: whether the disk was low recently.
func (d *level) full(now time.Time) bool {
	return !d.lowLast.IsZero() && now.Sub(d.lowLast) < calm
}

// yields reports whether a node without space for the metadata's commands should transfer
// the metadata leadership, if it has it. It is called at every check, and returns true at
// most every minLead.
func (d *level) yields(now time.Time, leads, space bool) bool {
	switch {
	case !leads:
		d.leads = time.Time{}
		return false
	case d.leads.IsZero():
		d.leads = now
	}
	if space || now.Sub(d.leads) < minLead {
		return false
	}
	d.leads = now // again only after minLead
	return true
}

// Space is the disk of a node. One goroutine calls Look, Full and Yields; the other methods
// are safe for concurrent use.
type Space struct {
	fs      vfs.FS
	dir     string
	reserve uint64
	log     *slog.Logger

	tidy     sync.Once
	denials  denials
	low      atomic.Bool // publishes are refused
	brimful  atomic.Bool // there is too little room for replicated data
	fewFiles atomic.Bool // inodes are lacking, according to the last measurement
	headroom headroom    // until the disk is low

	mu    sync.Mutex // guards level
	level level

	told shortages // of Look
}

// shortages is what the log has said of a disk that is low.
type shortages struct {
	low     bool // it is
	brimful bool // likewise
	times   int  // how often the disk has become low since it last had room for long
}

// New returns the disk of a directory. At most reserve bytes of it are kept free.
func New(fs vfs.FS, dir string, reserve uint64, log *slog.Logger) *Space {
	return &Space{fs: fs, dir: dir, reserve: reserve, log: log, denials: denials{wakeup: make(chan struct{}, 1)}}
}

// Look measures the disk and returns the level. Publishes are refused while less
// than the reserve is free, and followers refuse messages once half of the reserve
// is used, so that positions and metadata can still be stored and consuming
// continues.
func (s *Space) Look() Room {
	s.tidy.Do(func() { _ = s.fs.Remove(trialPath(s.dir)) }) // of a process that was killed
	u, err := s.fs.Usage(s.dir)
	if err != nil {
		s.log.Warn("cannot measure the free disk space; the node continues with the last known level, and writes fail if the disk is full", "path", s.dir, "error", err)
		s.headroom.unknown()
		switch {
		case s.brimful.Load():
			return Brimful
		case s.low.Load():
			return Low
		}
		return Enough
	}
	reserve := s.reserveOf(u)
	s.headroom.observe(u.Free, reserve)
	shown := s.headroom.shows(u.Free, reserve)
	s.fewFiles.Store(u.FewFiles)
	if u.FewFiles && reserve > 0 { // as if bytes were lacking
		shown = min(shown, reserve-1)
	}
	denied := s.denied(u.Free, reserve)
	if denied != nil {
		reserve = max(reserve, 1)
		shown = min(shown, reserve-1)
	}
	s.mu.Lock()
	r := s.level.observe(time.Now(), shown, reserve)
	s.mu.Unlock()
	if was := s.low.Swap(r <= Low); !was && r <= Low {
		s.told.times++
	}
	s.brimful.Store(r == Brimful)
	s.tell(r, u, reserve, denied)
	return r
}

// tell logs that the disk has become low or brimful, or has had room for a while. denied is why the system refused a
// write.
func (s *Space) tell(r Room, u vfs.Usage, reserve uint64, denied error) {
	switch {
	case s.told.low && !s.fullWithin(rest):
		s.log.Info("disk has had space for a while; publishes are accepted", "free_bytes", u.Free, "times_low", s.told.times)
		s.told = shortages{}
	case s.told.low || r > Low:
	case u.FewFiles:
		s.log.Error("file system nearly out of inodes: publishes are refused until files are removed from it (df -i), and leadership moves to in-sync replicas with free space",
			"path", s.dir, "free_bytes", u.Free)
	case denied != nil && u.Free >= reserve:
		s.log.Error("system refuses writes for lack of space although the disk has free space, as a quota does: publishes are refused until it accepts them, and leadership moves to in-sync replicas with free space",
			"path", s.dir, "free_bytes", u.Free, "error", denied)
	default:
		s.log.Error("disk nearly full: publishes are refused until space is freed, and leadership moves to in-sync replicas with free space",
			"free_bytes", u.Free, "reserve_bytes", reserve)
	}
	s.told.low = s.told.low || r <= Low
	if r == Brimful && !s.told.brimful {
		s.told.brimful = true
		s.log.Error("half of the disk reserve is used: followers on this node stop replicating until space is freed, and leave the in-sync sets",
			"free_bytes", u.Free, "reserve_bytes", reserve)
	}
}

// fullWithin reports whether the disk was low in the last time.
func (s *Space) fullWithin(last time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.level.lowLast) < last
}

// reserveOf returns how much of a disk is kept free: less on a small disk.
func (s *Space) reserveOf(u vfs.Usage) uint64 { return min(s.reserve, u.Total/smallDisk) }

// Reserve reports whether the disk accepts n bytes, and reserves them.
func (s *Space) Reserve(n int) bool { return !s.low.Load() && s.headroom.reserve(int64(n)) }

// Spare is Reserve for data that can wait: a refusal does not make the disk count as low.
func (s *Space) Spare(n int) bool { return !s.low.Load() && s.headroom.spare(int64(n)) }

// Low reports whether publishes are refused for lack of free space.
func (s *Space) Low() bool { return s.low.Load() }

// Brimful reports whether followers on this node accept no messages for lack of
// free space.
func (s *Space) Brimful() bool { return s.brimful.Load() }

// Full reports what the metadata should say: whether the disk was low recently.
func (s *Space) Full(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level.full(now)
}

// Yields reports whether a node that leads the metadata should transfer that leadership,
// because it has no space for commands. It is called at every check.
func (s *Space) Yields(now time.Time, leads, space bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level.yields(now, leads, space)
}

// State is the state of a disk, in bytes.
type State struct {
	Free, Total, Reserve uint64
	Low                  bool // publishes are refused
}

// State returns the state of the disk, or zeros if it cannot be measured.
func (s *Space) State() State {
	u, err := s.fs.Usage(s.dir)
	if err != nil {
		return State{}
	}
	return State{Free: u.Free, Total: u.Total, Reserve: s.reserveOf(u), Low: s.low.Load()}
}
