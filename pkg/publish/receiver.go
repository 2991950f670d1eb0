package publish

import (
	"fmt"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

const (
	// receiverBytes bounds what waits for one partition's term, per other node.
	receiverBytes = 32 << 20
	// receiverIdle is the time without a publish after which a receiver is dropped if there are
	// many.
	receiverIdle = 10 * time.Second
	// fewReceivers are kept without checking which of them are idle.
	fewReceivers = 64
)

// errOvertaken refuses a publish that was sent after a refused one: it would be appended before it.
var errOvertaken = fate.Mark(fmt.Errorf("%w: an earlier publish of this round was refused", failure.NotLeading), fate.Refused)

// receivers accept publishes of other nodes. The publishes of one node to one partition are
// appended in the order of sending; a term that makes one partition wait delays no other.
type receivers struct {
	host  *host.Host
	start func(func()) bool // runs a goroutine that Close waits for

	mu    sync.Mutex // guards what follows
	all   map[receiverKey]*receiver
	bound int // this many are kept before idle ones are searched for
}

type receiverKey struct {
	from      meta.NodeID
	session   uint64
	topic     meta.Incarnation
	partition int
}

// receiver accepts one node's publishes to one partition, in one session. It may be dropped at any
// time: its replacement accepts only publishes that begin a round.
type receiver struct {
	all  *receivers
	used time.Time // time of the last publish; guarded by set.mu

	mu    sync.Mutex // guards what follows
	queue []arrival
	bytes int
	busy  bool   // a goroutine serves what arrived
	round uint64 // the newest round of which something arrived
	next  uint64 // next expected number of that round
	shut  bool   // nothing more of that round is accepted
}

// arrival is a received publish.
type arrival struct {
	payload []byte // its own copy
	reply   func([][]byte, error)
}

// receive accepts a publish, whose payload is copied. It does not wait.
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

// sweepLocked drops idle receivers, each time that there are twice as many as the last sweep left:
// topics are deleted, and leaderships move.
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

// down drops the receivers of an ended session.
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
		return failure.QueueFull
	}
	if !in.busy && !in.all.start(in.work) {
		return failure.ShuttingDown
	}
	in.busy = true
	in.bytes += len(payload)
	in.queue = append(in.queue, arrival{append([]byte(nil), payload...), reply})
	return nil
}

// work serves received publishes until none is left.
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

// serve passes a publish to the term. It may wait for room there.
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

// turn reports whether a publish is the next one. If it is not, an earlier one is missing or was
// refused, and nothing more of its round is accepted.
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

// answer sends the outcome of a publish to the other node.
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

// offer passes messages to the term of this node. They are never forwarded: another node's metadata
// may be as old as this one's.
func (s *receivers) offer(m *forward.Publish, done func(topic.Receipt)) error {
	h := s.host.Lookup(m.Topic)
	if h == nil || h.Incarnation != m.Incarnation {
		return failure.NotLeading
	}
	lp := h.Led(m.Partition)
	if lp == nil {
		return failure.NotLeading
	}
	if err := h.Fits(m.Messages); err != nil {
		return err
	}
	if !s.host.Disk.Reserve(topic.StoredSize(m.Messages)) {
		return failure.DiskFull
	}
	return offer(h, lp, topic.Offered{Messages: m.Messages, Done: done})
}
