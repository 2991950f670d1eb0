package replication

import (
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Limits of a replicator.
const (
	// WindowBytes is how much may be sent to a follower and not answered.
	WindowBytes = 8 << 20
	// ChunkBytes is the most that one put carries, if a batch is not larger.
	ChunkBytes = 1 << 20
	// retryAfter is how long a follower that is not ready is left alone.
	retryAfter = 20 * time.Millisecond
)

// Caller sends requests to the follower's node. Go never waits; done is called
// exactly once, and not before Go has returned. Requests of one session arrive
// in the order of the calls.
type Caller interface {
	Go(kind uint8, payload [][]byte, done func(reply []byte, err error))
}

// Events are what a replicator tells the term that it belongs to. The calls
// come from any goroutine, without a lock, and must not block.
type Events struct {
	// Acked: the follower holds everything below end, on disk if the policy
	// asks for it, in this epoch and session.
	Acked func(end seq.Offset)
	// Forget: what the follower was believed to hold is not to be relied on.
	Forget func()
	// Superseded: the follower has adopted a newer epoch. The term is over.
	Superseded func(seq.Epoch)
}

// state is what a leader is doing about a follower.
type state uint8

const (
	// disconnected: there is no session. Nothing is sent.
	disconnected state = iota
	// reconciling: it is being found out where the logs agree. One request is
	// under way at a time.
	reconciling
	// replicating: batches are sent from next on, several at a time.
	replicating
)

// Replicator brings one follower to where its leader is and keeps it there, for
// one term.
type Replicator struct {
	log       *commitlog.Log
	partition Partition
	epoch     seq.Epoch
	sync      bool
	caller    Caller
	events    Events
	after     func(time.Duration, func()) // time.AfterFunc, but for tests

	mu       sync.Mutex // guards what follows
	state    state
	session  uint64     // what belongs to an earlier one is ignored
	next     seq.Offset // first to send
	prev     Point      // behind what was sent
	acked    seq.Offset
	told     seq.Offset // committed end that the follower was last sent
	inFlight int        // bytes sent and not answered
	waiting  int        // puts sent and not answered
	pumping  bool
	again    bool // something changed while pumping
	stopped  bool
	telling  bool // a put without batches is under way
}

// NewReplicator returns the replicator of a follower; it does nothing before
// Connected. sync has the follower answer what is on its disk.
func NewReplicator(log *commitlog.Log, p Partition, epoch seq.Epoch, sync bool, c Caller, e Events) *Replicator {
	return &Replicator{
		log: log, partition: p, epoch: epoch, sync: sync, caller: c, events: e,
		after: func(d time.Duration, f func()) { time.AfterFunc(d, f) },
	}
}

func (r *Replicator) header() header { return header{r.partition, r.epoch} }

// Connected begins a session with the follower's node.
func (r *Replicator) Connected() {
	r.mu.Lock()
	r.session++
	r.state, r.inFlight, r.waiting, r.acked, r.told, r.telling = reconciling, 0, 0, 0, 0, false
	session := r.session
	r.mu.Unlock()
	r.events.Forget()
	r.reconcile(session)
}

// Disconnected ends the session: nothing is known of the follower any more.
func (r *Replicator) Disconnected() {
	r.mu.Lock()
	r.session++
	r.state = disconnected
	r.mu.Unlock()
	r.events.Forget()
}

// Stop ends the replicator.
func (r *Replicator) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session++
	r.state, r.stopped = disconnected, true
}

// Acked returns what the follower is known to hold in this session.
func (r *Replicator) Acked() (end seq.Offset, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acked, r.state == replicating
}

// Wake says that the log has grown or that its committed end has moved.
func (r *Replicator) Wake() { r.pump() }

// reconcile asks the follower where its log stands.
func (r *Replicator) reconcile(session uint64) {
	r.call(session, KindReconcile, [][]byte{reconcile{r.header()}.append(nil)}, func(a answer) {
		mine := history{r.log.Epochs(), r.log.Start(), r.log.End()}
		its := history{a.epochs, a.start, a.end}
		empty := a.start == a.end
		at := common(mine, its)
		switch {
		case empty && a.end == mine.start:
			r.begin(session, Point{End: mine.start})
		case at <= mine.start || at < its.start:
			r.reset(session)
		default:
			r.align(session, at)
		}
	})
}

// align has the follower cut its log back to at, and goes back batch by batch
// until the logs agree there.
func (r *Replicator) align(session uint64, at seq.Offset) {
	if at <= r.log.Start() {
		r.reset(session)
		return
	}
	b, err := batchAt(r.log, at-1)
	if err != nil {
		r.retry(session)
		return
	}
	if b.End() != at {
		r.align(session, b.First()) // it ends in the middle of one of ours
		return
	}
	to := PointOf(b)
	payload := truncate{header: r.header(), to: to}.append(nil)
	r.callAny(session, KindTruncate, [][]byte{payload}, func(a answer) {
		switch a.outcome {
		case outcomeOK:
			r.begin(session, to)
		case outcomeMismatch:
			r.align(session, b.First())
		case outcomeStale, outcomeNotReady, outcomeFailed:
			r.refused(session, a)
		}
	})
}

// reset has the follower start its log anew at the start of ours.
func (r *Replicator) reset(session uint64) {
	origin := commitlog.OriginOf(r.log)
	to := Point{End: origin.Start}
	payload := truncate{header: r.header(), to: to, reset: true, position: origin.Position, before: origin.Before}.append(nil)
	r.call(session, KindTruncate, [][]byte{payload}, func(answer) { r.begin(session, to) })
}

func batchAt(l *commitlog.Log, o seq.Offset) (commitlog.Batch, error) {
	raw, err := l.ReadRaw(o, 1, nil)
	if err != nil {
		return commitlog.Batch{}, err
	}
	return commitlog.Decode(raw)
}

// begin starts to replicate from a point at which the logs agree.
func (r *Replicator) begin(session uint64, from Point) {
	r.mu.Lock()
	if session != r.session {
		r.mu.Unlock()
		return
	}
	r.state, r.next, r.prev = replicating, from.End, from
	r.mu.Unlock()
	r.pump()
}

// call sends a request and hands the answer on if it is good.
func (r *Replicator) call(session uint64, kind uint8, payload [][]byte, then func(answer)) {
	r.callAny(session, kind, payload, func(a answer) {
		if a.outcome != outcomeOK {
			r.refused(session, a)
			return
		}
		then(a)
	})
}

// callAny sends a request and hands the answer on, if the session is still the
// same.
func (r *Replicator) callAny(session uint64, kind uint8, payload [][]byte, then func(answer)) {
	r.caller.Go(kind, payload, func(reply []byte, err error) {
		if !r.current(session) {
			return
		}
		if err != nil {
			r.retry(session)
			return
		}
		a, err := decodeAnswer(reply)
		if err != nil {
			r.retry(session)
			return
		}
		then(a)
	})
}

func (r *Replicator) current(session uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return session == r.session && !r.stopped
}

// refused decides what to do about an answer that is not a success.
func (r *Replicator) refused(session uint64, a answer) {
	if a.outcome == outcomeStale && a.epoch > r.epoch {
		r.events.Superseded(a.epoch)
		return
	}
	r.retry(session)
}

// retry reconciles anew after a moment.
func (r *Replicator) retry(session uint64) {
	r.mu.Lock()
	if session != r.session || r.stopped || r.state == disconnected {
		r.mu.Unlock()
		return
	}
	r.session++
	next := r.session
	r.state, r.inFlight, r.waiting, r.acked, r.telling = reconciling, 0, 0, 0, false
	r.mu.Unlock()
	r.events.Forget()
	r.after(retryAfter, func() {
		if r.current(next) {
			r.reconcile(next)
		}
	})
}

// pump sends what the follower lacks, as far as the window allows. One
// goroutine pumps at a time; others leave a note.
func (r *Replicator) pump() {
	r.mu.Lock()
	if r.pumping {
		r.again = true
		r.mu.Unlock()
		return
	}
	r.pumping = true
	for more := true; more; {
		r.again = false
		for r.sendLocked() {
		}
		more = r.again
	}
	r.pumping = false
	r.mu.Unlock()
}

// sendLocked sends one put, and returns whether to try another. It lets go of
// the lock while it reads.
func (r *Replicator) sendLocked() bool {
	if r.state != replicating || r.inFlight >= WindowBytes {
		return false
	}
	end, committed := r.log.End(), r.log.CommittedEnd()
	if r.next >= end {
		if r.told >= committed || r.telling || r.waiting > 0 {
			return false
		}
		r.telling = true
		r.putLocked(nil, committed)
		return false
	}
	session, next := r.session, r.next
	r.mu.Unlock()
	raw, err := r.log.ReadRaw(next, ChunkBytes, nil)
	last, whole := lastOf(raw)
	r.mu.Lock()
	if session != r.session {
		return r.state == replicating
	}
	if err != nil || !whole {
		r.mu.Unlock()
		r.retry(session) // retention has passed it by, or the log is damaged there
		r.mu.Lock()
		return false
	}
	r.putLocked(raw, committed)
	r.next, r.prev = last.End(), PointOf(last)
	return true
}

// lastOf returns the last of some batches, if there is one and all are whole.
func lastOf(raw []byte) (last commitlog.Batch, ok bool) {
	for len(raw) > 0 {
		b, err := commitlog.Decode(raw)
		if err != nil {
			return commitlog.Batch{}, false
		}
		last, ok, raw = b, true, raw[b.Size():]
	}
	return last, ok
}

// putLocked sends batches behind what was sent before.
func (r *Replicator) putLocked(raw []byte, committed seq.Offset) {
	session, size := r.session, len(raw)
	head := put{header: r.header(), prev: r.prev, committed: committed, sync: r.sync}.appendHead(nil)
	r.inFlight += size
	r.waiting++
	r.told = committed
	payload := [][]byte{head}
	if size > 0 {
		payload = append(payload, raw)
	}
	// Go only queues, so the lock may be held: it keeps the puts in order.
	r.caller.Go(KindPut, payload, func(reply []byte, err error) { r.putDone(session, size, reply, err) })
}

func (r *Replicator) putDone(session uint64, size int, reply []byte, err error) {
	a, decodeErr := decodeAnswer(reply)
	r.mu.Lock()
	if session != r.session || r.stopped {
		r.mu.Unlock()
		return
	}
	r.inFlight -= size
	r.waiting--
	r.telling = false
	if err != nil || decodeErr != nil || a.outcome != outcomeOK {
		r.mu.Unlock()
		if err != nil || decodeErr != nil {
			r.retry(session)
			return
		}
		r.refused(session, a)
		return
	}
	r.acked = max(r.acked, a.end)
	acked := r.acked
	r.mu.Unlock()
	r.events.Acked(acked)
	r.pump()
}
