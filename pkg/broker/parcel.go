package broker

import (
	"errors"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/peer"
)

// parcel is a publish on its way.
type parcel struct {
	home     *sync.Pool
	o        *outlet
	seq      uint64
	since    time.Time
	messages []byte // encoded
	head     []byte
	done     func(Receipt)
	givenUp  bool                // its publisher has been told; guarded by the outlet
	landed   bool                // its answer is here; likewise
	refusal  error               // the last; nil: none yet
	answered func([]byte, error) // answer, bound
	payload  [2][]byte           // head and messages
	share    limit.Share         // of the node's memory, for messages
}

// keptParcel is the largest buffer that is kept for another parcel.
const keptParcel = 64 << 10

// dispatch has a parcel appended by who leads the partition. It does not wait
// for the network.
func (x *parcel) dispatch(target meta.NodeID, round uint64) {
	s, k := x.o.set, x.o.key
	switch {
	case target == "":
		x.settle(Receipt{Err: s.absent(k)})
	case target == s.d.o.Self:
		x.append()
	case s.d.o.Remote == nil:
		x.settle(Receipt{Err: coord.ErrNotLeading})
	default:
		x.post(target, round)
	}
}

// post sends a parcel to another node, in the order of the numbers: one that
// could not be sent leaves a gap, behind which nothing is taken.
func (x *parcel) post(target meta.NodeID, round uint64) {
	o, k := x.o, x.o.key
	o.posting.Lock()
	defer o.posting.Unlock()
	m := forward.Publish{Topic: k.topic, Incarnation: k.incarnation, Partition: k.partition, Round: round, Number: o.numbers.give(round)}
	x.head = forward.AppendPublishHead(x.head[:0], &m)
	x.payload = [2][]byte{x.head, x.messages}
	o.set.d.o.Remote.Go(target, forward.KindPublish, x.payload[:], x.answered)
}

// append hands a parcel to the term of this node. Once taken there, it is behind
// all that was taken before, and on its way no more.
func (x *parcel) append() {
	s, k := x.o.set, x.o.key
	var lp *ledPartition
	h := s.d.lookup(k.topic)
	if h != nil && h.incarnation == k.incarnation {
		lp = h.leds(k.partition)
	}
	if lp == nil {
		x.settle(Receipt{Err: coord.ErrNotLeading})
		return
	}
	messages, err := forward.DecodeMessages(x.messages)
	if err == nil {
		if err = ErrDiskFull; s.hasRoom(messages) {
			err = h.offer(lp, messages, x.done)
		}
	}
	if err != nil {
		x.settle(Receipt{Err: err})
		return
	}
	x.leave()
}

// answer takes a leader's answer, or why there is none.
func (x *parcel) answer(reply []byte, err error) {
	x.o.mu.Lock()
	givenUp := x.givenUp
	x.landed = true
	if !givenUp {
		x.o.answered = time.Now()
	}
	x.o.mu.Unlock()
	if givenUp {
		x.free()
		return
	}
	if err == nil {
		r, err := forward.DecodeReceipt(reply)
		r.Err = fate.Mark(err, fate.Uncertain) // it was taken, wherever
		x.settle(r)
		return
	}
	_, arrived := errors.AsType[*peer.RemoteError](err)
	if !arrived && fate.Of(err) == fate.Refused && !errors.Is(err, peer.ErrTooBig) {
		x.comeBack(err) // the leader could not be asked
		return
	}
	x.settle(Receipt{Err: fromRemote(err)})
}

// settle ends an attempt: the parcel is kept for another one if there is reason
// to hope, and its publisher is told otherwise.
func (x *parcel) settle(r Receipt) {
	if r.Err != nil && x.o.set.passing(x.o.key, r.Err) {
		x.comeBack(r.Err)
		return
	}
	x.tell(r)
}

// comeBack keeps a parcel that was not taken.
func (x *parcel) comeBack(refusal error) {
	o := x.o
	seen := o.set.d.o.Meta.Topic(o.key.topic)
	x.refusal = refusal
	o.mu.Lock()
	x.landed = false
	if closed := o.closed; closed != nil {
		o.mu.Unlock()
		x.tell(Receipt{Err: closed})
		return
	}
	delete(o.flying, x)
	o.returned = append(o.returned, x)
	o.delayLocked(seen)
	o.left.Broadcast()
	o.mu.Unlock()
	o.set.poke()
}

// tell ends a parcel that is under way.
func (x *parcel) tell(r Receipt) {
	done, since, o := x.done, x.since, x.o
	r.Partition = o.key.partition
	x.leave()
	if fate.Of(r.Err) == fate.Refused && r.Err != nil {
		o.set.d.o.Observer.ObservePublish(time.Since(since), r.Err) // the leader did not see it
	}
	done(r)
}

// leave takes a parcel that is under way out of the outlet.
func (x *parcel) leave() {
	o := x.o
	o.mu.Lock()
	delete(o.flying, x)
	o.forgetLocked(x)
	o.pause = 0
	more := len(o.returned)+len(o.waiting) > 0
	o.endLocked()
	o.mu.Unlock()
	x.free()
	if more {
		o.set.poke()
	}
}

func (x *parcel) free() {
	x.share.Close()
	home, messages, head, answered := x.home, x.messages[:0], x.head[:0], x.answered
	if cap(messages) > keptParcel {
		messages = nil
	}
	*x = parcel{home: home, messages: messages, head: head, answered: answered}
	home.Put(x)
}

// expire tells the publisher of a parcel that was taken out why it was refused.
func (x *parcel) expire() {
	err := x.refusal
	if err == nil {
		err = x.o.set.absent(x.o.key)
	}
	done, since, o := x.done, x.since, x.o
	x.free()
	o.set.d.o.Observer.ObservePublish(time.Since(since), err)
	done(Receipt{Partition: o.key.partition, Err: err})
}
