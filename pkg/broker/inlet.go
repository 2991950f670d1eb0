package broker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

const (
	// inletBytes bounds what waits for one partition's term, of one other node.
	inletBytes = 32 << 20
	// inletIdle is how long nothing has come through an inlet that is forgotten
	// when there are many.
	inletIdle = 10 * time.Second
	// fewInlets are kept without looking which of them are idle.
	fewInlets = 64
)

// errOvertaken refuses what was sent behind something that was refused: it
// would be appended before it.
var errOvertaken = fate.Mark(fmt.Errorf("%w: an earlier publish of this round was refused", coord.ErrNotLeading), fate.Refused)

// inlets are where publishes of other nodes come in. What one node publishes to
// one partition is appended in the order in which it was sent; a term that makes
// one partition wait holds up no other.
type inlets struct {
	d       *directory
	hasRoom func(messages []topic.Message) bool // the disk of this node takes them
	start   func(func()) bool                   // runs a goroutine that is waited for

	mu    sync.Mutex // guards what follows
	all   map[inletKey]*inlet
	bound int // so many are kept before idle ones are looked for
}

type inletKey struct {
	from      meta.NodeID
	session   uint64
	topic     meta.Incarnation
	partition int
}

// inlet is the way in of one node's publishes to one partition, in one session.
// It may be forgotten at any time: another in its place takes nothing that does
// not begin a round.
type inlet struct {
	set  *inlets
	used time.Time // when something came last; guarded by set.mu

	mu    sync.Mutex // guards what follows
	queue []arrival
	bytes int
	busy  bool   // a goroutine works on what came
	round uint64 // the newest that something came of
	next  uint64 // number that is at turn of that round
	shut  bool   // nothing more of that round is taken
}

// arrival is a publish that came.
type arrival struct {
	payload []byte // of its own
	reply   func([][]byte, error)
}

// take takes a publish, whose payload is copied. It does not wait.
func (s *inlets) take(from meta.NodeID, session uint64, payload []byte, reply func([][]byte, error)) {
	m, err := forward.DecodePublishHead(payload)
	if err != nil {
		reply(nil, err)
		return
	}
	if err := s.inlet(inletKey{from, session, m.Incarnation, m.Partition}).put(payload, reply); err != nil {
		reply(nil, err)
	}
}

func (s *inlets) inlet(key inletKey) *inlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.all[key]
	now := time.Now()
	if in == nil {
		s.sweepLocked(now)
		in = &inlet{set: s}
		s.all[key] = in
	}
	in.used = now
	return in
}

// sweepLocked forgets the inlets that are idle, each time that there are twice as
// many as were left the last time: topics go, and leaderships move.
func (s *inlets) sweepLocked(now time.Time) {
	if len(s.all) < max(s.bound, fewInlets) {
		return
	}
	for key, in := range s.all {
		if now.Sub(in.used) > inletIdle {
			delete(s.all, key)
		}
	}
	s.bound = 2 * len(s.all)
}

// down forgets a session: nothing comes of it any more.
func (s *inlets) down(from meta.NodeID, session uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.all {
		if key.from == from && key.session == session {
			delete(s.all, key)
		}
	}
}

func (in *inlet) put(payload []byte, reply func([][]byte, error)) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.bytes > 0 && in.bytes+len(payload) > inletBytes {
		return ErrBusy
	}
	if !in.busy && !in.set.start(in.work) {
		return ErrExiting
	}
	in.busy = true
	in.bytes += len(payload)
	in.queue = append(in.queue, arrival{append([]byte(nil), payload...), reply})
	return nil
}

// work hands over what came until nothing is left.
func (in *inlet) work() {
	var spare []arrival
	for {
		in.mu.Lock()
		queue := in.queue
		if in.queue = spare; len(queue) == 0 {
			in.queue, in.busy = nil, false
			in.mu.Unlock()
			return
		}
		in.mu.Unlock()
		bytes := 0
		for i, a := range queue {
			bytes += len(a.payload)
			in.serve(a)
			queue[i] = arrival{}
		}
		spare = queue[:0]
		in.mu.Lock()
		in.bytes -= bytes
		in.mu.Unlock()
	}
}

// serve hands a publish to the term. It may wait for room there.
func (in *inlet) serve(a arrival) {
	m, err := forward.DecodePublish(a.payload)
	if err == nil && !in.turn(m.Round, m.Number) {
		err = errOvertaken
	}
	if err == nil {
		err = in.set.offer(&m, func(r Receipt) { in.answer(m.Round, r, a.reply) })
	}
	if err != nil {
		in.answer(m.Round, Receipt{Err: err}, a.reply)
	}
}

// turn says whether a publish is at turn. If it is not, something that was sent
// before it is missing or was refused, and nothing more of its round is taken.
func (in *inlet) turn(round, number uint64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if round < in.round {
		return false
	}
	if round > in.round {
		in.round, in.next, in.shut = round, 0, false
	}
	in.shut = in.shut || number != in.next
	in.next++
	return !in.shut
}

// answer tells the other node what became of its publish.
func (in *inlet) answer(round uint64, r Receipt, reply func([][]byte, error)) {
	if r.Err == nil {
		reply([][]byte{forward.AppendReceipt(make([]byte, 0, 24), r)}, nil)
		return
	}
	if moving(r.Err) {
		in.mu.Lock()
		in.shut = in.shut || round == in.round
		in.mu.Unlock()
	}
	reply(nil, r.Err)
}

// offer hands messages to the term of this node. They are never sent on: another
// node's metadata may be as old as this one's.
func (s *inlets) offer(m *forward.Publish, done func(Receipt)) error {
	h := s.d.lookup(m.Topic)
	if h == nil || h.incarnation != m.Incarnation {
		return coord.ErrNotLeading
	}
	lp := h.leds(m.Partition)
	if lp == nil {
		return coord.ErrNotLeading
	}
	if err := h.fits(m.Messages, s.d.o.Sizes); err != nil {
		return err
	}
	if !s.hasRoom(m.Messages) {
		return ErrDiskFull
	}
	return h.offer(lp, m.Messages, done)
}

// moving says whether a publish was refused because the leadership is elsewhere
// or on its way.
func moving(err error) bool {
	return fate.Of(err) == fate.Refused &&
		(errors.Is(err, coord.ErrNotLeading) || errors.Is(err, coord.ErrMoving) ||
			errors.Is(err, coord.ErrNotWritable) || errors.Is(err, ErrNoWindow) || errors.Is(err, ErrDiskFull))
}
