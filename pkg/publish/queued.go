package publish

import (
	"errors"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/topic"
)

// queuedPublish is a publish in a forward queue.
type queuedPublish struct {
	home     *sync.Pool
	queue    *queue
	seq      uint64
	since    time.Time
	messages []byte // encoded
	head     []byte
	done     func(topic.Receipt)
	givenUp  bool                // its publisher has been answered; guarded by the queue
	landed   bool                // its answer has arrived; likewise
	refusal  error               // the last one; nil: none yet
	answered func([]byte, error) // answer as a value
	payload  [2][]byte           // header and messages
	share    limit.Share         // of the node's memory budget, for messages
}

// keptQueued is the largest buffer that is kept for another queued publish.
const keptQueued = 64 << 10

// dispatch sends a queued publish to the partition's leader. It does not wait for the network.
func (x *queuedPublish) dispatch(target meta.NodeID, round uint64) {
	s, k := x.queue.all, x.queue.key
	switch {
	case target == "":
		x.finishAttempt(topic.Receipt{Err: s.absent(k)})
	case target == s.Self:
		x.append()
	case s.Calls.Remote == nil:
		x.finishAttempt(topic.Receipt{Err: failure.NotLeading})
	default:
		x.post(target, round)
	}
}

// post sends a queued publish to another node, in the order of the numbers. One that could not be
// sent leaves a gap, after which the receiver accepts nothing.
func (x *queuedPublish) post(target meta.NodeID, round uint64) {
	o, k := x.queue, x.queue.key
	o.posting.Lock()
	defer o.posting.Unlock()
	m := forward.Publish{Topic: k.Topic, Incarnation: k.Incarnation, Partition: k.Partition, Round: round, Number: o.numbers.give(round)}
	x.head = m.AppendHead(x.head[:0])
	x.payload = [2][]byte{x.head, x.messages}
	o.all.Calls.Remote.Go(target, forward.KindPublish, x.payload[:], x.answered)
}

// append passes a queued publish to the term of this node. Once accepted there, it comes after all
// accepted before, and is no longer in flight.
func (x *queuedPublish) append() {
	s, k := x.queue.all, x.queue.key
	var lp *host.Led
	h := s.host.Lookup(k.Topic)
	if h != nil && h.Incarnation == k.Incarnation {
		lp = h.Led(k.Partition)
	}
	if lp == nil {
		x.finishAttempt(topic.Receipt{Err: failure.NotLeading})
		return
	}
	var messages forward.Messages
	err := messages.Decode(x.messages)
	if err == nil {
		if err = failure.DiskFull; s.host.Disk.Reserve(topic.StoredSize(messages)) {
			err = offer(h, lp, topic.Offered{Messages: messages, Done: x.done})
		}
	}
	if err != nil {
		x.finishAttempt(topic.Receipt{Err: err})
		return
	}
	x.leave()
}

// answer handles a leader's answer, or the error instead of one.
func (x *queuedPublish) answer(reply []byte, err error) {
	x.queue.mu.Lock()
	givenUp := x.givenUp
	x.landed = true
	if !givenUp {
		x.queue.answered = time.Now()
	}
	x.queue.mu.Unlock()
	if givenUp {
		x.free()
		return
	}
	if err == nil {
		r, err := forward.DecodeReceipt(reply)
		r.Err = fate.Mark(err, fate.Uncertain) // it was accepted by some node
		x.finishAttempt(r)
		return
	}
	_, arrived := errors.AsType[*peer.RemoteError](err)
	if !arrived && fate.Of(err) == fate.Refused && !errors.Is(err, peer.ErrTooBig) {
		x.comeBack(err) // the leader could not be reached
		return
	}
	x.finishAttempt(topic.Receipt{Err: forward.FromRemote(err)})
}

// finishAttempt ends an attempt: the queued publish is kept for another one if that may succeed;
// otherwise its publisher is answered.
func (x *queuedPublish) finishAttempt(r topic.Receipt) {
	if r.Err != nil && x.queue.all.passing(x.queue.key, r.Err) {
		x.comeBack(r.Err)
		return
	}
	x.tell(r)
}

// comeBack keeps a queued publish that was not accepted.
func (x *queuedPublish) comeBack(refusal error) {
	o := x.queue
	seen := o.all.Meta.Topic(o.key.Topic)
	x.refusal = refusal
	o.mu.Lock()
	x.landed = false
	if closed := o.closed; closed != nil {
		o.mu.Unlock()
		x.tell(topic.Receipt{Err: closed})
		return
	}
	delete(o.flying, x)
	o.returned = append(o.returned, x)
	o.delayLocked(seen)
	o.left.Broadcast()
	o.mu.Unlock()
	o.all.poke()
}

// tell completes a queued publish in flight.
func (x *queuedPublish) tell(r topic.Receipt) {
	done, since, o := x.done, x.since, x.queue
	r.Partition = o.key.Partition
	x.leave()
	if fate.Of(r.Err) == fate.Refused && r.Err != nil {
		o.all.Observer.ObservePublish(time.Since(since), r.Err) // the leader did not observe it
	}
	done(r)
}

// leave removes a queued publish in flight from the queue.
func (x *queuedPublish) leave() {
	o := x.queue
	o.mu.Lock()
	delete(o.flying, x)
	o.forgetLocked(x)
	o.pause = 0
	more := len(o.returned)+len(o.waiting) > 0
	o.endLocked()
	o.mu.Unlock()
	x.free()
	if more {
		o.all.poke()
	}
}

func (x *queuedPublish) free() {
	x.share.Close()
	home, messages, head, answered := x.home, x.messages[:0], x.head[:0], x.answered
	if cap(messages) > keptQueued {
		messages = nil
	}
	*x = queuedPublish{home: home, messages: messages, head: head, answered: answered}
	home.Put(x)
}

// expire answers the publisher of a removed queued publish with the refusal.
func (x *queuedPublish) expire() {
	err := x.refusal
	if err == nil {
		err = x.queue.all.absent(x.queue.key)
	}
	done, since, o := x.done, x.since, x.queue
	x.free()
	o.all.Observer.ObservePublish(time.Since(since), err)
	done(topic.Receipt{Partition: o.key.Partition, Err: err})
}
