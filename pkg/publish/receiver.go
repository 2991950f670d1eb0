package publish

import (
	"fmt"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

const (
	// receiverBytes bounds what waits for one partition's term, of one other node.
	receiverBytes = 32 << 20
	// receiverIdle is how long nothing has come through a receiver that is forgotten
	// when there are many.
	receiverIdle = 10 * time.Second
	// fewInlets are kept without looking which of them are idle.
	fewReceivers = 64
)

// errOvertaken refuses what was sent behind something that was refused: it
// would be appended before it.
var errOvertaken = fate.Mark(fmt.Errorf("%w: an earlier publish of this round was refused", coord.ErrNotLeading), fate.Refused)

// receivers are where publishes of other nodes come in. What one node publishes to
// one partition is appended in the order in which it was sent; a term that makes
// one partition wait holds up no other.
type receivers struct {
	host  *host.Host
	start func(func()) bool // runs a goroutine that is waited for

	mu    sync.Mutex // guards what follows
	all   map[receiverKey]*receiver
	bound int // so many are kept before idle ones are looked for
}

type receiverKey struct {
	from      meta.NodeID
	session   uint64
	topic     meta.Incarnation
	partition int
}

// receiver is the way in of one node's publishes to one partition, in one session.
// It may be forgotten at any time: another in its place takes nothing that does
// not begin a round.
type receiver struct {
	all  *receivers
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

// receive takes a publish, whose payload is copied. It does not wait.
func (s *receivers) receive(from meta.NodeID, session uint64, payload []byte, reply func([][]byte, error)) {
	var m forward.Publish
	if err := m.DecodeHead(payload); err != nil {
		reply(nil, err)
		return
	}
	if err := s.receiver(receiverKey{from, session, m.Incarnation, m.Partition}).put(payload, reply); err != nil {
		reply(nil, err)
	}
}

func (s *receivers) receiver(key receiverKey) *receiver {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.all[key]
	now := time.Now()
	if in == nil {
		s.sweepLocked(now)
		in = &receiver{all: s}
		s.all[key] = in
	}
	in.used = now
	return in
}

// sweepLocked forgets the receivers that are idle, each time that there are twice as
// many as were left the last time: topics go, and leaderships move.
func (s *receivers) sweepLocked(now time.Time) {
	if len(s.all) < max(s.bound, fewReceivers) {
		return
	}
	for key, in := range s.all {
		if now.Sub(in.used) > receiverIdle {
			delete(s.all, key)
		}
	}
	s.bound = 2 * len(s.all)
}

// down forgets a session: nothing comes of it any more.
func (s *receivers) down(from meta.NodeID, session uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.all {
		if key.from == from && key.session == session {
			delete(s.all, key)
		}
	}
}

func (in *receiver) put(payload []byte, reply func([][]byte, error)) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.bytes > 0 && in.bytes+len(payload) > receiverBytes {
		return host.ErrBusy
	}
	if !in.busy && !in.all.start(in.work) {
		return host.ErrExiting
	}
	in.busy = true
	in.bytes += len(payload)
	in.queue = append(in.queue, arrival{append([]byte(nil), payload...), reply})
	return nil
}

// work hands over what came until nothing is left.
func (in *receiver) work() {
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
func (in *receiver) serve(a arrival) {
	var m forward.Publish
	err := m.Decode(a.payload)
	if err == nil && !in.turn(m.Round, m.Number) {
		err = errOvertaken
	}
	if err == nil {
		err = in.all.offer(&m, func(r topic.Receipt) { in.answer(m.Round, r, a.reply) })
	}
	if err != nil {
		in.answer(m.Round, topic.Receipt{Err: err}, a.reply)
	}
}

// turn reports whether a publish is at turn. If it is not, something that was sent
// before it is missing or was refused, and nothing more of its round is taken.
func (in *receiver) turn(round, number uint64) bool {
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
func (in *receiver) answer(round uint64, r topic.Receipt, reply func([][]byte, error)) {
	if r.Err == nil {
		reply([][]byte{forward.AppendReceipt(make([]byte, 0, 24), r)}, nil)
		return
	}
	if host.Moving(r.Err) {
		in.mu.Lock()
		in.shut = in.shut || round == in.round
		in.mu.Unlock()
	}
	reply(nil, r.Err)
}

// offer hands messages to the term of this node. They are never sent on: another
// node's metadata may be as old as this one's.
func (s *receivers) offer(m *forward.Publish, done func(topic.Receipt)) error {
	h := s.host.Lookup(m.Topic)
	if h == nil || h.Incarnation != m.Incarnation {
		return coord.ErrNotLeading
	}
	lp := h.Led(m.Partition)
	if lp == nil {
		return coord.ErrNotLeading
	}
	if err := h.Fits(m.Messages); err != nil {
		return err
	}
	if !s.host.Disk.Reserve(topic.StoredSize(m.Messages)) {
		return host.ErrDiskFull
	}
	return h.Offer(lp, topic.Offered{Messages: m.Messages, Done: done})
}
