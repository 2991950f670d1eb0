package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/lease"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

const (
	// fetchesAhead is how many Fetch calls of a relay are open: while the answer
	// to one is on its way, the leader can answer the next.
	fetchesAhead = 2
	// fetchBytes is about how much one answer may carry.
	fetchBytes = 256 << 10
	// relayBytes is how much a relay holds before it stops to fetch.
	relayBytes = 1 << 20
	// stallLogEvery is the least time between two log lines about a client that does
	// not read, for one relay.
	stallLogEvery = time.Minute
)

// errPaused is why a relay ends that this process has stood still for: what it
// gets or has may have been given to others since.
var errPaused = errors.New("node was paused")

// errRelayClosed is why a relay that was closed takes no more answers.
var errRelayClosed = errors.New("relay closed")

// relayEvents are what a relay tells its subscription. They are called by any
// goroutine, without a lock, and must not block.
type relayEvents struct {
	wake       func()                      // there may be something to take
	starved    func()                      // there would be, with more credit
	freed      func()                      // a message was answered
	stalled    func(r *relay, dropped int) // so many messages timed out before the client took them
	unfinished func(seq.MessageID, error)  // a Finish that was passed on was not taken
	ended      func(error)                 // the leader has ended it, or cannot be reached; called once
}

// missed tells which messages are not finished, of answers that the leader never
// took.
func (e *relayEvents) missed(answers []byte, why error) {
	_, all, _ := forward.DecodeAnswers(answers, nil) // of the relay's making, or none
	for _, a := range all {
		if a.Verb == forward.Finish {
			e.unfinished(a.ID, why)
		}
	}
}

// refused tells which messages the leader says are not finished.
func (e *relayEvents) refused(reply []byte) {
	all, _ := forward.DecodeRefusals(reply) // what cannot be read tells of nothing
	for _, f := range all {
		e.unfinished(f.ID, fromRemote(f.Reason))
	}
}

// relay is a consumer of partitions that another node leads. That node counts
// as in flight whatever it has sent; this side hands it over to the client,
// counts what the client has, and passes on the answers. Take is for one
// goroutine; the other methods may be called by others.
type relay struct {
	remote     Remote
	node       meta.NodeID
	handle     uint64
	partitions atomic.Pointer[[]int] // not changed; fewer are stored
	timeout    time.Duration         // of a delivery
	maxTimeout time.Duration         // that touching extends it to
	events     relayEvents
	extra      bool          // adopted: others may come who are nearer
	running    lease.Stretch // of the process, since it was made

	taken []relayed // of Take's goroutine

	mu        sync.Mutex // guards what follows
	over      error      // why it ended
	queue     relayQueue
	inFlight  flights
	overdue   *time.Timer
	watched   bool      // overdue is set: for the head of the queue, or one before it
	stalled   bool      // the queue timed out: nothing is fetched before the next take
	logged    time.Time // that the client is stalled
	fetching  int       // Fetch calls that are open
	answers   []byte    // to be sent, behind the head
	answering bool      // a KindAnswer call is open
	resting   bool      // the client wants nothing: what comes is given back
	retiring  bool      // it ends when the client has answered what it has
	credit    int       // that the leader should know of
	told      int       // that it knows of
	telling   bool      // a Ready call is open
	starved   bool
	filled    bool // something came since credit was assigned
}

// open joins the channel at the leader, which it waits for.
func (r *relay) open(ctx context.Context, m *forward.Subscribe) error {
	m.Handle = r.handle
	_, err := r.remote.Call(ctx, r.node, forward.KindSubscribe, [][]byte{forward.AppendSubscribe(nil, m)})
	if err != nil {
		r.leave(nil) // it may have joined
		return fmt.Errorf("at node %q: %w", r.node, fromRemote(err))
	}
	r.fetch()
	return nil
}

// leave tells the leader that the relay has ended, and what the client has seen of
// that which the leader has in flight: the rest was never delivered.
func (r *relay) leave(seen []seq.MessageID) {
	m := forward.Leave{Handle: r.handle, Seen: seen}
	r.remote.Go(r.node, forward.KindLeave, [][]byte{forward.AppendLeave(nil, m)}, func([]byte, error) {})
}

// fetch keeps Fetch calls open unless too much is here already, or the client does
// not take it. It must be called behind everything that takes from the queue or ends
// a stall: nothing else has a relay go on that had stopped to fetch.
func (r *relay) fetch() {
	for {
		r.mu.Lock()
		if r.over != nil || r.fetching >= fetchesAhead || r.queue.bytes > relayBytes || r.stalled {
			r.mu.Unlock()
			return
		}
		r.fetching++
		r.mu.Unlock()
		m := forward.Fetch{Handle: r.handle, MaxBytes: fetchBytes}
		r.remote.Go(r.node, forward.KindFetch, [][]byte{forward.AppendFetch(nil, m)}, r.fetched)
	}
}

// fetched takes the answer to a Fetch.
func (r *relay) fetched(reply []byte, err error) {
	var got []topic.Delivery
	var starved bool
	if err == nil {
		got, starved, err = forward.DecodeDeliveries(append([]byte(nil), reply...), nil)
	}
	if err != nil {
		r.end(fmt.Errorf("at node %q: %w", r.node, fromRemote(err)))
		return
	}
	now := time.Now()
	if !r.running.Steady(now) {
		r.end(errPaused)
		return
	}
	r.mu.Lock()
	r.fetching--
	if r.over != nil {
		r.mu.Unlock()
		return
	}
	for _, d := range got {
		r.queue.push(relayed{d, now})
	}
	r.starved = r.starved || starved
	r.filled = r.filled || len(got) > 0
	r.watchLocked(now)
	unwanted := r.resting || r.retiring
	r.mu.Unlock()
	if unwanted {
		r.dropQueue()
	}
	r.fetch()
	if len(got) > 0 && !unwanted {
		r.events.wake()
	}
	if starved {
		r.events.starved()
	}
}

// end ends the relay for a reason that this side or the leader has, and tells it
// on. The leader, who may not know, hands back what is in flight.
func (r *relay) end(why error) {
	answers, seen, ok := r.stop(why)
	if !ok {
		return
	}
	_, all, _ := forward.DecodeAnswers(answers, nil) // of the relay's making, or none
	for _, a := range all {
		if a.Verb != forward.Unseen {
			seen = append(seen, a.ID)
		}
	}
	r.leave(seen)
	r.events.missed(answers, why)
	r.events.ended(why)
}

// close leaves the channel. What is in flight is handed back by the leader,
// behind the answers that were given.
func (r *relay) close() {
	answers, seen, ok := r.stop(errRelayClosed)
	if !ok {
		return
	}
	if len(answers) > 0 {
		r.remote.Go(r.node, forward.KindAnswer, [][]byte{answers}, func([]byte, error) {})
	}
	r.leave(seen)
}

// stop ends the relay unless it has ended before. It returns the answers that were not
// sent, and what the client has.
func (r *relay) stop(why error) (answers []byte, seen []seq.MessageID, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return nil, nil, false
	}
	r.over = why
	if r.overdue != nil {
		r.overdue.Stop()
	}
	answers, r.answers = r.answers, nil
	return answers, slices.Collect(maps.Keys(r.inFlight.all)), true
}

// gone says whether the relay has ended.
func (r *relay) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over != nil
}

// take hands over up to max of what came: see topic.Consumer.Take.
func (r *relay) take(now time.Time, max int, emit func(*topic.Delivery) error) (int, error) {
	if !r.running.Steady(now) {
		r.end(errPaused)
		return 0, nil
	}
	r.reserve(now, max)
	defer r.fetch()
	for i := range r.taken {
		if err := emit(&r.taken[i].Delivery); err != nil {
			r.giveBack(now, r.taken[i:])
			return i, err
		}
	}
	n := len(r.taken)
	clear(r.taken)
	r.taken = r.taken[:0]
	return n, nil
}

// reserve moves what is to be handed over from the queue to r.taken. What has
// timed out is left out.
func (r *relay) reserve(now time.Time, max int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = r.taken[:0]
	if r.over != nil {
		return
	}
	r.stalled = false
	r.queue.dropBefore(now.Add(-r.timeout))
	r.taken = r.queue.shift(max, r.taken)
	for _, d := range r.taken {
		r.inFlight.add(d.ID, flight{d.since.Add(r.timeout), d.since.Add(r.maxTimeout)})
	}
}

// watchLocked sees to it that the head of the queue is dropped when it has timed out,
// though the client takes nothing.
func (r *relay) watchLocked(now time.Time) {
	if r.watched || r.over != nil || len(r.queue.all) == 0 {
		return
	}
	r.watched = true
	wait := max(r.queue.all[0].since.Add(r.timeout).Sub(now), 0)
	if r.overdue == nil {
		r.overdue = time.AfterFunc(wait, r.expireQueue)
	} else {
		r.overdue.Reset(wait)
	}
}

// expireQueue drops what timed out here. The client does not read, or has no room:
// what would be fetched for it now would time out as well, and is kept from other
// consumers meanwhile. The next take goes on.
func (r *relay) expireQueue() {
	now := time.Now()
	r.mu.Lock()
	r.watched = false
	dropped := r.queue.dropBefore(now.Add(-r.timeout))
	r.watchLocked(now)
	if dropped > 0 {
		r.stalled = true
	}
	tell := dropped > 0 && r.over == nil && (r.logged.IsZero() || now.Sub(r.logged) >= stallLogEvery)
	if tell {
		r.logged = now
	}
	r.mu.Unlock()
	if dropped > 0 {
		r.events.wake() // there may be room by now
	}
	if tell {
		r.events.stalled(r, dropped)
	}
}

// giveBack returns what was not handed over.
func (r *relay) giveBack(now time.Time, rest []relayed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range rest {
		delete(r.inFlight.all, d.ID)
	}
	r.queue.unshift(rest)
	r.watchLocked(now)
}

// count returns how many messages the client has not answered at now.
func (r *relay) count(now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight.expire(now)
	return len(r.inFlight.all)
}

// waiting says whether the relay has, or would fetch, messages for which the client
// has no room; and when the first of those that the client has times out, the zero
// time if it has none.
func (r *relay) waiting() (waits bool, expiry time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return false, time.Time{}
	}
	return len(r.queue.all) > 0 || r.stalled, r.inFlight.next()
}

// serves says whether the relay is for a partition.
func (r *relay) serves(partition int) bool {
	return slices.Contains(*r.partitions.Load(), partition)
}

// loses forgets the partitions that the node leads no longer, and what the client
// has of them. It returns whether there are others.
func (r *relay) loses(lost func(partition int) bool) (others bool) {
	was := *r.partitions.Load()
	if !slices.ContainsFunc(was, lost) {
		return true
	}
	kept := slices.DeleteFunc(slices.Clone(was), lost)
	r.partitions.Store(&kept)
	r.mu.Lock()
	for id := range r.inFlight.all {
		if lost(id.Partition()) {
			delete(r.inFlight.all, id)
		}
	}
	r.queue.lose(lost)
	r.mu.Unlock()
	r.fetch() // what was lost may have kept it from that
	return len(kept) > 0
}

// answer passes on what the client says of a message in flight, as far as that
// is known here. The leader may know better: then it is delivered again, and the
// client is told of a Finish.
func (r *relay) answer(a forward.Answer) error {
	now := time.Now()
	r.mu.Lock()
	r.inFlight.expire(now)
	f, ok := r.inFlight.all[a.ID]
	if !ok || r.over != nil {
		r.mu.Unlock()
		return ErrNotInFlight
	}
	if a.Verb == forward.Touch {
		if f.expires = now.Add(r.timeout); f.expires.After(f.until) {
			f.expires = f.until
		}
		r.inFlight.all[a.ID] = f
	} else {
		delete(r.inFlight.all, a.ID)
	}
	if len(r.answers) == 0 {
		r.answers = forward.AppendAnswersHead(nil, r.handle)
	}
	r.answers = forward.AppendAnswer(r.answers, a)
	r.mu.Unlock()
	r.flush()
	if a.Verb != forward.Touch {
		r.events.freed()
	}
	return nil
}

// flush sends the answers that were given. While some are on their way, others
// gather.
func (r *relay) flush() {
	r.mu.Lock()
	if r.answering || len(r.answers) == 0 || r.over != nil {
		r.mu.Unlock()
		return
	}
	answers := r.answers
	r.answers, r.answering = nil, true
	r.mu.Unlock()
	r.remote.Go(r.node, forward.KindAnswer, [][]byte{answers}, func(reply []byte, err error) {
		if err != nil {
			if err = fromRemote(err); fate.Of(err) == fate.Refused {
				r.events.missed(answers, err)
			}
			r.end(fmt.Errorf("at node %q: %w", r.node, err))
			return
		}
		r.events.refused(reply)
		r.mu.Lock()
		r.answering = false
		r.mu.Unlock()
		r.flush()
	})
}

// claim returns what the relay has and wants.
func (r *relay) claim() claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	return claim{
		credit: r.credit, inFlight: len(r.inFlight.all) + len(r.queue.all),
		starved: r.starved, filled: r.filled, retiring: r.retiring,
	}
}

// retire has the relay end when the client has answered what it has: it gets no
// credit any more.
func (r *relay) retire() {
	r.mu.Lock()
	r.retiring = true
	r.mu.Unlock()
	r.dropQueue()
}

// retired says whether a relay that is to end can.
func (r *relay) retired() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight.expire(time.Now())
	return r.retiring && r.told == 0 && !r.telling && len(r.inFlight.all)+len(r.queue.all) == 0 && r.over == nil
}

// assign sets how many messages the leader may have in flight for this relay.
// It will know after tell. A leader that knows of credit has what it asked for; that it
// starves is not forgotten for credit that is taken away again before it is told of it,
// as it would not say so again. For a client that rests, what comes is given back.
func (r *relay) assign(credit int, rests bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if credit > 0 && r.told > 0 {
		r.starved = false
	}
	r.credit, r.filled, r.resting = credit, false, rests
}

// tell sees to it that the leader knows the credit.
func (r *relay) tell() {
	r.mu.Lock()
	if r.telling || r.told == r.credit || r.over != nil {
		r.mu.Unlock()
		return
	}
	r.telling, r.told = true, r.credit
	if r.told > 0 {
		r.starved = false
	}
	m := forward.Ready{Handle: r.handle, Credit: r.credit}
	r.mu.Unlock()
	r.remote.Go(r.node, forward.KindReady, [][]byte{forward.AppendReady(nil, m)}, func(_ []byte, err error) {
		if err != nil {
			r.end(fmt.Errorf("at node %q: %w", r.node, fromRemote(err)))
			return
		}
		r.mu.Lock()
		r.telling = false
		r.mu.Unlock()
		r.tell()
	})
}

// dropQueue gives back what is here and was not handed over: it will not be soon. The
// client has not seen it, so that the delivery does not count.
func (r *relay) dropQueue() {
	r.mu.Lock()
	if r.over != nil || len(r.queue.all) == 0 {
		r.mu.Unlock()
		return
	}
	if len(r.answers) == 0 {
		r.answers = forward.AppendAnswersHead(nil, r.handle)
	}
	for _, d := range r.queue.all {
		r.answers = forward.AppendAnswer(r.answers, forward.Answer{Verb: forward.Unseen, ID: d.ID})
	}
	r.queue = relayQueue{}
	r.mu.Unlock()
	r.flush()
	r.fetch()
}
