package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/lease"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// QueueBytes is how many bytes a relay buffers for the client before it stops fetching.
const QueueBytes = 1 << 20

const (
	// fetchesAhead is how many Fetch calls of a relay are open: while one answer is in transit, the
	// leader can answer the next.
	fetchesAhead = 2
	// fetchBytes is the approximate maximum size of one answer.
	fetchBytes = 256 << 10
	// stallLogEvery is the shortest time between two log lines of one relay about a client that
	// does not read.
	stallLogEvery = time.Minute
)

// ErrPaused ends a relay after this process was paused: messages that the relay holds or receives
// may have been delivered to others meanwhile.
var ErrPaused = errors.New("this node was paused: its messages may have been delivered to other consumers")

// errClosed refuses answers after the relay was closed.
var errClosed = errors.New("relay closed")

// Events are a relay's callbacks to its subscription. They are called from any goroutine,
// without a lock, and must not block.
type Events struct {
	Wake       func()                      // there may be messages to take
	Starved    func()                      // with more credit there would be messages
	Freed      func()                      // a message was answered
	Stalled    func(r *Relay, dropped int) // that many messages timed out before the client took them
	Unfinished func(seq.MessageID, error)  // a forwarded Finish was refused
	Ended      func(error)                 // the leader ended the relay, or cannot be reached; called once
	Departed   func(partitions []int)      // the relay was closed, and the next leaders of its partitions may not know it
}

// Options describe a relay. All except Extra and Memory are required.
type Options struct {
	Remote     forward.Remote
	Node       meta.NodeID // the leader
	Handle     uint64      // the relay's name at the leader, unique in this process
	Partitions []int
	Epochs     map[int]seq.Epoch // of the partitions, as this node knew them when the relay was created
	Timeout    time.Duration     // of a delivery
	MaxTimeout time.Duration     // maximum by touching
	Extra      bool              // the relay retires when a closer consumer appears
	Running    lease.Stretch     // of the process, since before the relay was created
	Memory     *limit.Memory     // for fetched messages; nil: no limit
	Events     Events
	FromRemote func(error) error // converts an error of the leader
}

// Relay is a consumer of partitions that another node leads. That node counts every sent
// message as in flight; this side delivers them to the client, counts what the client has, and
// forwards the answers. Take is for one goroutine; the other methods are safe for concurrent
// use.
type Relay struct {
	Options // not changed

	partitions atomic.Pointer[[]int] // immutable; replaced by a shorter list

	taken []message // used by Take's goroutine

	mu       sync.Mutex // guards what follows
	over     error      // why it ended
	here     transit
	logged   time.Time // when the stalled client was last logged
	fetching int       // open Fetch calls
	answers  []byte    // to be sent, after the head
	sent     []byte    // answers of the open KindAnswer call, with the head; nil: none is open
	call     *call     // that one
	rest     Rest      // of partitions that it no longer serves
	resting  bool      // the client wants nothing: return what arrives
	retiring bool      // it ends when the client has answered what it has
	credit   int       // that the leader should know
	told     int       // that the leader knows
	telling  bool      // a Ready call is open
	starved  bool
	filled   bool // messages arrived since credit was assigned
}

// New returns a relay that has not joined yet: see Open.
func New(o Options) *Relay {
	r := &Relay{Options: o}
	r.here.timeout, r.here.maxTimeout, r.here.expired = o.Timeout, o.MaxTimeout, r.expireQueue
	r.here.inFlight.all = map[seq.MessageID]flight{}
	r.here.room.share = o.Memory.Share(limit.Relays)
	r.partitions.Store(&o.Partitions)
	return r
}

// Steady reports whether the process has run without a pause since the relay was created.
func (r *Relay) Steady(now time.Time) bool { return r.Running.Steady(now) }

// Open joins the channel at the leader, and waits for its answer: the messages that stay in flight, of those
// that the client has from an earlier leader.
func (r *Relay) Open(ctx context.Context, m *forward.Subscribe) (kept []seq.MessageID, err error) {
	m.Handle = r.Handle
	reply, err := r.Remote.Call(ctx, r.Node, forward.KindSubscribe, [][]byte{m.Append(nil)})
	if err != nil {
		r.leave(nil, true, func() {}) // it may have joined
		return nil, fmt.Errorf("at node %q: %w", r.Node, r.FromRemote(err))
	}
	if kept, err = forward.DecodeIDs(reply); err != nil {
		r.leave(nil, true, func() {})
		return nil, fmt.Errorf("at node %q: %w", r.Node, err)
	}
	return kept, nil
}

// Start begins to fetch messages, once the messages that the client has from an earlier leader are kept.
func (r *Relay) Start() { r.fetch() }

// leave reports to the leader that the relay has ended, and which of the messages in flight the
// client has seen: the others were never delivered. company means that they may not have failed alone: the
// client has others, or it was not its connection that ended. failed is called if that leader has ended the
// subscription before, or transfers its leadership.
func (r *Relay) leave(seen []seq.MessageID, company bool, failed func()) {
	m := forward.Leave{Handle: r.Handle, Company: company, Seen: seen}
	r.Remote.Go(r.Node, forward.KindLeave, [][]byte{m.Append(nil)}, func(_ []byte, err error) {
		if err != nil {
			failed()
		}
	})
}

// fetch keeps Fetch calls open unless the relay holds too much, the client does not take it, or there
// is no memory. It must be called after everything that takes from the queue or ends a stall: nothing else restarts
// a relay that had stopped fetching.
func (r *Relay) fetch() {
	for {
		r.mu.Lock()
		r.here.room.settle(&r.here.queue)
		if r.over != nil || r.fetching >= fetchesAhead || r.here.queue.bytes > QueueBytes || r.here.stalled {
			r.mu.Unlock()
			return
		}
		wait, bytes := short(r)
		if wait {
			r.mu.Unlock()
			return
		}
		r.fetching++
		r.mu.Unlock()
		m := forward.Fetch{Handle: r.Handle, MaxBytes: bytes}
		r.Remote.Go(r.Node, forward.KindFetch, [][]byte{m.Append(nil)}, r.fetched)
	}
}

// fetched handles the answer to a Fetch. A message that timed out at the leader while the client's
// Finish for it was in transit is dropped: the leader accepts that Finish for the new delivery and
// continues with the next message. If the leader does not, the message times out again.
func (r *Relay) fetched(reply []byte, err error) {
	var got []topic.Delivery
	var starved, admitted bool
	charged := 0
	if err == nil {
		if charged, admitted = admit(r, len(reply)); admitted {
			reply = append([]byte(nil), reply...)
		}
		got, starved, err = forward.DecodeDeliveries(reply, nil)
	}
	if err != nil {
		r.End(fmt.Errorf("at node %q: %w", r.Node, r.FromRemote(err)))
		return
	}
	now := time.Now()
	if !r.Steady(now) {
		r.End(ErrPaused)
		return
	}
	r.mu.Lock()
	r.fetching--
	if r.over != nil {
		r.mu.Unlock()
		return
	}
	if admitted {
		keep(r, got, charged, now)
	} else {
		refuse(r, got)
		got = nil
	}
	r.starved = r.starved || starved
	r.filled = r.filled || len(got) > 0
	r.here.watch(now)
	unwanted := r.resting || r.retiring
	r.mu.Unlock()
	if unwanted {
		r.ReturnQueued()
	}
	if !admitted {
		r.flush()
	}
	r.fetch()
	if len(got) > 0 && !unwanted {
		r.Events.Wake()
	}
	if starved {
		r.Events.Starved()
	}
}

// End ends the relay for a reason of either side and reports it. The leader, which may not know
// yet, requeues messages in flight.
func (r *Relay) End(why error) {
	answers, seen, ok := r.stop(why)
	if !ok {
		return
	}
	for _, a := range decoded(answers) {
		if a.Verb != forward.Unseen {
			seen = append(seen, a.ID)
		}
	}
	r.leave(seen, true, func() {})
	r.Events.Ended(why)
}

// Close leaves the channel. The leader requeues messages in flight, after processing the answers
// already given. company reports whether the client has messages of other sources.
func (r *Relay) Close(company bool) {
	answers, seen, ok := r.stop(errClosed)
	if !ok {
		return
	}
	if len(answers) > 0 {
		r.Remote.Go(r.Node, forward.KindAnswer, [][]byte{answers}, func([]byte, error) {})
	}
	r.leave(seen, company, func() { r.Events.Departed(*r.partitions.Load()) })
}

// stop ends the relay unless it has already ended. It returns the unsent answers, and the messages
// that the client has.
func (r *Relay) stop(why error) (answers []byte, seen []seq.MessageID, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return nil, nil, false
	}
	r.over = why
	r.here.unwatch()
	r.here.room.close()
	seen = slices.Collect(maps.Keys(r.here.inFlight.all))
	answers = r.answers
	r.setAside(func(int) bool { return true })
	return answers, seen, true
}

// Gone reports whether the relay has ended.
func (r *Relay) Gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over != nil
}

// Take delivers up to max of the fetched messages: see topic.Consumer.Take.
func (r *Relay) Take(now time.Time, max int, emit func(*topic.Delivery) error) (int, error) {
	if !r.Steady(now) {
		r.End(ErrPaused)
		return 0, nil
	}
	r.mu.Lock()
	r.taken = r.taken[:0]
	if r.over == nil {
		r.taken = r.here.reserve(now, max, r.taken)
	}
	r.mu.Unlock()
	defer r.fetch()
	n, err := 0, error(nil)
	for n < len(r.taken) && err == nil {
		if err = emit(&r.taken[n].Delivery); err == nil {
			n++
		}
	}
	r.mu.Lock()
	r.here.delivered(now, slices.DeleteFunc(r.taken[n:], func(d message) bool {
		delete(r.rest.Flights, d.ID) // the client has not got it
		return !r.Serves(d.ID.Partition())
	}))
	r.mu.Unlock()
	clear(r.taken)
	r.taken = r.taken[:0]
	return n, err
}

// expireQueue drops messages that timed out here before the client took them.
func (r *Relay) expireQueue() {
	now := time.Now()
	r.mu.Lock()
	if r.over != nil {
		r.mu.Unlock()
		return
	}
	dropped := r.here.dropExpired(now)
	r.here.room.settle(&r.here.queue)
	tell := dropped > 0 && (r.logged.IsZero() || now.Sub(r.logged) >= stallLogEvery)
	if tell {
		r.logged = now
	}
	r.mu.Unlock()
	if dropped > 0 {
		r.Events.Wake() // there may be capacity now
	}
	if tell {
		r.Events.Stalled(r, dropped)
	}
}

// decoded returns the answers in a payload that the relay encoded, or that is empty.
func decoded(payload []byte) []forward.Answer {
	var m forward.Answers
	_ = m.Decode(payload)
	return m.All
}

// finishes reports whether a message is finished by encoded answers.
func finishes(answers []byte, id seq.MessageID) bool {
	return slices.Contains(decoded(answers), forward.Answer{Verb: forward.Finish, ID: id})
}

// Count returns how many messages the client has not answered at now.
func (r *Relay) Count(now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.here.inFlight.expire(now)
	return len(r.here.inFlight.all)
}

// Has returns how many messages the client has not answered, some of which may have timed out. It takes no lock.
func (r *Relay) Has() int64 { return r.here.inFlight.count.Load() }

// Reserved reports whether the client gets no other message before it has answered what it has: the next one of the
// relay is isolated, or it has one that is.
func (r *Relay) Reserved() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return false
	}
	return len(r.here.queue.all) > 0 && r.here.queue.all[0].Alone || r.here.inFlight.alone()
}

// Waiting reports whether the relay has, or would fetch, messages for which the client has no
// capacity, and when the first message of the client times out (zero time: it has none).
func (r *Relay) Waiting() (waits bool, expiry time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return false, time.Time{}
	}
	return len(r.here.queue.all) > 0 || r.here.stalled, r.here.inFlight.next()
}

// Serves reports whether the relay covers a partition.
func (r *Relay) Serves(partition int) bool {
	return slices.Contains(*r.partitions.Load(), partition)
}

// Loses drops the partitions that the node no longer leads: see Collect.
// It reports whether others remain.
func (r *Relay) Loses(lost func(partition int) bool) (others bool) {
	if !slices.ContainsFunc(*r.partitions.Load(), lost) {
		return true
	}
	r.mu.Lock()
	if r.over == nil {
		r.setAside(lost)
	}
	kept := slices.DeleteFunc(slices.Clone(*r.partitions.Load()), lost)
	r.partitions.Store(&kept)
	r.here.queue.lose(lost)
	r.mu.Unlock()
	r.fetch() // the lost messages may have prevented it
	return len(kept) > 0
}

// Answer forwards the client's answer for a message in flight, according to what is known here.
// The leader may refuse it: then the message is redelivered, and the client is notified of a
// failed Finish. A relay that no longer serves the partition refuses with failure.Moving: see
// Collect.
func (r *Relay) Answer(a forward.Answer) error {
	now := time.Now()
	r.mu.Lock()
	r.here.inFlight.expire(now)
	f, ok := r.here.inFlight.all[a.ID]
	if r.over != nil || !r.Serves(a.ID.Partition()) {
		r.mu.Unlock()
		return failure.Moving
	}
	if !ok {
		r.mu.Unlock()
		return failure.NotInFlight
	}
	if a.Verb == forward.Touch {
		if f.expires = now.Add(r.Timeout); f.expires.After(f.until) {
			f.expires = f.until
		}
		r.here.inFlight.all[a.ID] = f
	} else {
		r.here.inFlight.drop(a.ID)
	}
	note(r, a)
	r.mu.Unlock()
	r.flush()
	if a.Verb != forward.Touch {
		r.Events.Freed()
	}
	return nil
}

// note adds an answer to those that flush sends. The relay's lock is held.
func note(r *Relay, a forward.Answer) {
	if len(r.answers) == 0 {
		r.answers = forward.Answers{Handle: r.Handle}.Append(nil)
	}
	r.answers = a.Append(r.answers)
}

// flush sends the given answers. While some are in transit, further ones are collected.
func (r *Relay) flush() {
	r.mu.Lock()
	if r.sent != nil || len(r.answers) == 0 || r.over != nil {
		r.mu.Unlock()
		return
	}
	answers := r.answers
	sending := new(call)
	r.answers, r.sent, r.call = nil, answers, sending
	r.mu.Unlock()
	r.Remote.Go(r.Node, forward.KindAnswer, [][]byte{answers}, func(reply []byte, err error) {
		if err != nil {
			err = r.FromRemote(err)
			sending.refused.Store(fate.Of(err) == fate.Refused)
			r.End(fmt.Errorf("at node %q: %w", r.Node, err))
			return
		}
		r.refused(reply)
		r.mu.Lock()
		r.sent = nil
		r.mu.Unlock()
		r.flush()
	})
}

// Claim returns the relay's use of and demand for credit.
func (r *Relay) Claim() Claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Claim{
		Credit: r.credit, InFlight: len(r.here.inFlight.all) + len(r.here.queue.all),
		Starved: r.starved, Filled: r.filled, Retiring: r.retiring,
	}
}

// Retire makes the relay end when the client has answered what it has: it gets no more credit.
func (r *Relay) Retire() {
	r.mu.Lock()
	r.retiring = true
	r.mu.Unlock()
	r.ReturnQueued()
}

// Retired reports whether a retired relay can end.
func (r *Relay) Retired() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.here.inFlight.expire(time.Now())
	return r.retiring && r.told == 0 && !r.telling && len(r.here.inFlight.all)+len(r.here.queue.all) == 0 && r.over == nil
}

// Assign sets the relay's credit. The leader learns of it through Tell. A leader that knows of
// credit has what it asked for; a starved state is kept if the credit is withdrawn before the
// leader learns of it, because it would not report starvation again. For an idle client,
// arriving messages are returned.
func (r *Relay) Assign(credit int, rests bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if credit > 0 && r.told > 0 {
		r.starved = false
	}
	r.credit, r.filled, r.resting = credit, false, rests
}

// Tell sends the credit to the leader if necessary.
func (r *Relay) Tell() {
	r.mu.Lock()
	if r.telling || r.told == r.credit || r.over != nil {
		r.mu.Unlock()
		return
	}
	r.telling, r.told = true, r.credit
	if r.told > 0 {
		r.starved = false
	}
	m := forward.Ready{Handle: r.Handle, Credit: r.credit}
	r.mu.Unlock()
	r.Remote.Go(r.Node, forward.KindReady, [][]byte{m.Append(nil)}, func(_ []byte, err error) {
		if err != nil {
			r.End(fmt.Errorf("at node %q: %w", r.Node, r.FromRemote(err)))
			return
		}
		r.mu.Lock()
		r.telling = false
		r.mu.Unlock()
		r.Tell()
	})
}

// ReturnQueued returns buffered messages that will not be delivered soon. The client has not
// seen them, so the deliveries do not count as attempts.
func (r *Relay) ReturnQueued() {
	r.mu.Lock()
	if r.over != nil || len(r.here.queue.all) == 0 {
		r.mu.Unlock()
		return
	}
	for _, d := range r.here.queue.all {
		note(r, forward.Answer{Verb: forward.Unseen, ID: d.ID})
	}
	r.here.queue = queue{}
	r.mu.Unlock()
	r.flush()
	r.fetch()
}
