package relay

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Flight is a message that a client has: when it times out, and until when touching can extend that.
type Flight struct {
	Expires, Until time.Time
	Alone          bool // it is isolated: see channel.Isolation
}

// Answer is an answer that a client has given and of which it is not known that a leader has
// accepted it.
type Answer struct {
	forward.Answer
	call *call // in which it was sent; nil: it was not
}

// call is a call with answers.
type call struct{ refused atomic.Bool }

// Doubtful reports whether the leader may have accepted the answer.
func (a *Answer) Doubtful() bool { return a.call != nil && !a.call.refused.Load() }

// Rest is what remains of partitions that a relay no longer serves: if their leadership was
// transferred, the next leader knows what is in flight, and accepts the answers.
type Rest struct {
	Partitions []int
	Flights    map[seq.MessageID]Flight // that the client has
	Answers    map[seq.MessageID]Answer // that it has given; the last one for each message
}

// setAside moves what the relay knows of partitions to its rest. Its lock is held.
func (r *Relay) setAside(lost func(partition int) bool) {
	rest := &r.rest
	if rest.Flights == nil {
		rest.Flights = map[seq.MessageID]Flight{}
	}
	for _, i := range *r.partitions.Load() {
		if lost(i) {
			rest.Partitions = append(rest.Partitions, i)
		}
	}
	for id, f := range r.here.inFlight.all {
		if lost(id.Partition()) {
			rest.Flights[id] = Flight{f.expires, f.until, f.alone}
			r.here.inFlight.drop(id)
		}
	}
	add := func(payload []byte, in *call) {
		for _, a := range decoded(payload) {
			if lost(a.ID.Partition()) && a.Verb != forward.Unseen {
				rest.add(a, in)
			}
		}
	}
	add(r.sent, r.call)
	add(r.answers, nil)
	others := decoded(r.answers)
	r.answers = nil
	for _, a := range others {
		if !lost(a.ID.Partition()) {
			note(r, a)
		}
	}
}

// refused handles answers that the leader has not accepted. Those that it leaves to the next leader are set aside.
func (r *Relay) refused(reply []byte) {
	all, _ := forward.DecodeRefusals(reply) // ignore what cannot be decoded
	for _, f := range all {
		if err := r.FromRemote(f.Reason); errors.Is(err, failure.Moving) {
			r.returnAnswer(f.ID)
		} else {
			r.Events.Unfinished(f.ID, err)
		}
	}
}

// returnAnswer sets aside an answer that was sent, unless it was set aside with its partition.
func (r *Relay) returnAnswer(id seq.MessageID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil || !r.Serves(id.Partition()) {
		return
	}
	for _, a := range decoded(r.sent) {
		if a.ID == id && a.Verb != forward.Unseen {
			r.rest.add(a, nil)
		}
	}
}

func (x *Rest) add(a forward.Answer, in *call) {
	if x.Answers == nil {
		x.Answers = map[seq.MessageID]Answer{}
	}
	x.Answers[a.ID] = Answer{a, in}
}

// Collect returns, once, what remains of partitions that the relay no longer serves.
func (r *Relay) Collect() Rest {
	r.mu.Lock()
	defer r.mu.Unlock()
	rest := r.rest
	r.rest = Rest{}
	return rest
}

// Keep puts a message in flight that the client has from an earlier leader: the leader of the relay knows of it.
func (r *Relay) Keep(id seq.MessageID, f Flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.here.inFlight.add(id, flight{f.Expires, f.Until, f.Alone})
}
