// Package diskspace decides whether the disk has space for publishes, for replicated data, and
// for metadata commands.
//
// Invariants:
//
//   - A low disk stays low until more than the reserve is free, which avoids flapping.
//   - Space reserved for appends counts until a measurement of the disk includes it: between
//     two measurements no more is reserved than was free.
//   - If the disk cannot be measured, the last measurement stays in effect.
//
// Start at Space.
package diskspace

import (
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	// Margin is which part of the reserve must be free beyond it before a disk
	// that was low takes publishes again.
	Margin = 8
	// FollowerShare is which part of the reserve is left to followers, for what was under
	// way when the leaders' disks were full, too: they take nothing while less is free.
	FollowerShare = 2
	// calm is how long a disk must have had room before the other nodes are told
	// that it has. So a disk at the brink moves leaderships no more often than that.
	calm = 10 * time.Second
	// minLead is how long a node must have led the metadata before it hands that over
	// because there is no space for commands: where no disk has space, the lead does not
	// go round faster.
	minLead = 10 * time.Second
	// ampleBytes beyond the reserve are more than is written between two looks at a
	// disk with ample room.
	ampleBytes = 8 << 30
	// smallDisk is the part of a disk that is kept free at most.
	smallDisk = 20
)

// Room classifies the free space of the disk.
type Room int

// The rooms, from none to much.
const (
	Brimful Room = iota // followers take nothing either
	Low                 // publishes are refused
	Enough              // it may be low before long
	Ample               // it will not be low before several looks
)

// headroom is how many bytes may be appended before the disk is down to its reserve,
// as far as is known from the last look at it and what was taken for appends since. Its
// methods is safe for concurrent use.
type headroom struct {
	left  atomic.Int64
	taken atomic.Int64 // since the last look, or shortly before: the disk need not show it yet
	short atomic.Bool  // someone was refused since the last look
}

// observe notes what a look at the disk has shown.
func (h *headroom) observe(free, reserve uint64) {
	h.left.Store(clampSigned(free) - clampSigned(reserve) - h.taken.Swap(0))
}

// unknown notes that nothing is known of the disk.
func (h *headroom) unknown() { h.left.Store(math.MaxInt64 / 2) }

// reserve takes n bytes, if there are so many. Otherwise the next look says that there are none.
func (h *headroom) reserve(n int64) bool {
	if h.left.Add(-n) < 0 {
		h.left.Add(n)
		h.short.Store(true)
		return false
	}
	h.taken.Add(n)
	return true
}

// spare takes n bytes, if there are so many. No other is refused for it, not even for a moment.
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

// shows returns how much a look counts as free: less than the reserve where someone was
// refused. Then the disk is low, though it need never show it: what would make it so
// is not written.
func (h *headroom) shows(free, reserve uint64) uint64 {
	if h.short.Swap(false) && reserve > 0 {
		return min(free, reserve-1)
	}
	return free
}

func clampSigned(n uint64) int64 { return int64(min(n, math.MaxInt64/2)) }

// level is what a node makes of the free space on its disk. It is for one
// goroutine.
type level struct {
	low     bool
	brimful bool
	lowLast time.Time // when it was low last; zero: never
	leads   time.Time // since when the node leads the metadata; zero: it does not
}

// observe notes how much is free, and returns how much room that is. What is low
// stays low until there is more than the reserve, and what is brimful until it is not
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

// full says what the other nodes are to be told: it was low not long ago.
func (d *level) full(now time.Time) bool {
	return !d.lowLast.IsZero() && now.Sub(d.lowLast) < calm
}

// yields reports whether a node that has no space for the metadata's commands is to hand
// over the lead of the metadata, if it has it: once in a while. It is asked at every look.
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
	d.leads = now // again only after a while
	return true
}

// Space is the disk of a node. Look, Full and Yields are for one goroutine; the other methods
// may be called by many.
type Space struct {
	fs      vfs.FS
	dir     string
	reserve uint64
	log     *slog.Logger

	low      atomic.Bool // publishes are refused
	brimful  atomic.Bool // there is too little room for what is replicated to here
	headroom headroom    // until that is so
	level    level
}

// New returns the disk that a directory is on. At most reserve bytes of it are kept free.
func New(fs vfs.FS, dir string, reserve uint64, log *slog.Logger) *Space {
	return &Space{fs: fs, dir: dir, reserve: reserve, log: log}
}

// Look has publishes refused while the disk has less than the reserve free, and has
// followers refuse messages once half of it is used, so that positions and metadata
// can still be stored and consuming continues. It returns how much room there is.
func (s *Space) Look() Room {
	u, err := s.fs.Usage(s.dir)
	if err != nil {
		s.log.Warn("cannot read free disk space", "path", s.dir, "error", err)
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
	r := s.level.observe(time.Now(), s.headroom.shows(u.Free, reserve), reserve)
	if full := r <= Low; s.low.Swap(full) != full {
		if full {
			s.log.Error("disk nearly full: publishes are refused until space is freed, and leadership moves to in-sync replicas with free space",
				"free_bytes", u.Free, "reserve_bytes", reserve)
		} else {
			s.log.Info("disk space available again; publishes accepted", "free_bytes", u.Free)
		}
	}
	if brimful := r == Brimful; s.brimful.Swap(brimful) != brimful && brimful {
		s.log.Error("half of the disk reserve is used: followers on this node stop replicating until space is freed, and leave the in-sync sets",
			"free_bytes", u.Free, "reserve_bytes", reserve)
	}
	return r
}

// reserveOf returns how much of a disk is kept free: less of a small one.
func (s *Space) reserveOf(u vfs.Usage) uint64 { return min(s.reserve, u.Total/smallDisk) }

// Reserve reports whether the disk takes n bytes, and takes the room for them.
func (s *Space) Reserve(n int) bool { return !s.low.Load() && s.headroom.reserve(int64(n)) }

// Spare is Reserve for what can wait: where the room is lacking the disk does not count as low for it.
func (s *Space) Spare(n int) bool { return !s.low.Load() && s.headroom.spare(int64(n)) }

// Low reports whether publishes are refused for lack of free space.
func (s *Space) Low() bool { return s.low.Load() }

// Brimful reports whether followers here take no messages for lack of free space.
func (s *Space) Brimful() bool { return s.brimful.Load() }

// Full says what the other nodes are to be told: it was low not long ago.
func (s *Space) Full(now time.Time) bool { return s.level.full(now) }

// Yields reports whether a node that leads the metadata is to hand that over, because it has
// no space for commands. It is asked at every look.
func (s *Space) Yields(now time.Time, leads, space bool) bool {
	return s.level.yields(now, leads, space)
}

// State is the state of a disk, in bytes.
type State struct {
	Free, Total, Reserve uint64
	Low                  bool // publishes are refused
}

// State returns the state of the disk, or zeros if it cannot be told.
func (s *Space) State() State {
	u, err := s.fs.Usage(s.dir)
	if err != nil {
		return State{}
	}
	return State{Free: u.Free, Total: u.Total, Reserve: s.reserveOf(u), Low: s.low.Load()}
}
