package replication

import (
	"fmt"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Limits of a replicator.
const (
	// maxAdvances is how many requests with changes of positions may be in progress.
	// Further changes go into the next one.
	maxAdvances = 4
	// retryAfter is the first pause before a follower that is not ready is asked
	// again. The pause doubles up to notReadyLimit, or up to failedLimit if the
	// follower cannot do what it is asked.
	retryAfter    = 20 * time.Millisecond
	notReadyLimit = 160 * time.Millisecond
	failedLimit   = 2 * time.Second
)

// Caller sends requests to the follower's node. Go never waits; done is called
// exactly once, and not before Go has returned. Requests of one session arrive
// in the order of the calls.
type Caller interface {
	Go(kind uint8, payload [][]byte, done func(reply []byte, err error))
}

// Standing is the state of a follower's log.
type Standing struct {
	Epoch     seq.Epoch  // of its last batch; 0: it has none
	End       seq.Offset // of its log
	Committed seq.Offset // of what it knows as committed
}

// State is the state of replication to a follower.
type State uint8

const (
	// disconnected: there is no session; nothing is sent.
	disconnected State = iota
	// reconciling: the leader determines where the logs agree. One request is in
	// progress at a time.
	reconciling
	// replicating: batches are sent as they are appended, several at a time.
	replicating
	// failed: the follower or the leader cannot execute a request, which is retried
	// periodically.
	failed
)

// String returns the state as a word.
func (s State) String() string {
	return [...]string{"disconnected", "reconciling", "replicating", "failed"}[s]
}

// ReplicatorOptions describe a replicator.
type ReplicatorOptions struct {
	Log       *commitlog.Log
	Partition Partition
	Epoch     seq.Epoch
	Sizes     limit.Sizes // of puts, and how much of them is in flight; zero: limit.Default
	Shares    *Shares     // what is sent to the follower besides batches; nil: nothing
	Credit    *Credit     // shared by all replicators whose followers are on the same node; nil: one of its own
	CatchUp   *CatchUp    // shared by all replicators of this node; nil: no limit
	Caller    Caller
	Events    Events
	// Stored, if set, is called with the time that the follower took to store batches that it
	// was sent. It is called with a lock held and must not block.
	Stored func(time.Duration)
	Now    func() time.Time // nil: time.Now
}

// Pace is how a follower is served.
type Pace struct {
	Sync    bool // it answers once the batches are on its disk
	Window  int  // bytes that may be in flight; 0: Sizes.Window
	CatchUp bool // it is not in sync: what it lacks is sent as fast as ReplicatorOptions.CatchUp allows
}

func (p Pace) window(s limit.Sizes) int {
	if p.Window > 0 {
		return p.Window
	}
	return s.Window
}

// Replicator brings one follower up to date with its leader and keeps it there,
// for one term. It has a goroutine only while it reads the log.
type Replicator struct {
	o    ReplicatorOptions
	head header // of every request
	out  *sender
	copy *copier

	running sync.WaitGroup // goroutines that read the log

	mu       sync.Mutex // guards what follows
	pace     Pace
	state    State
	session  uint64     // answers of earlier ones are ignored
	next     seq.Offset // first to send
	prev     point      // the end of what was sent
	holds    Progress   // of the follower, in this session
	position int64      // in the virtual log, of the end of what it holds
	told     seq.Offset // committed end that it was last sent
	putAt    time.Time  // when it was last sent a put
	shared   sent       // what it was sent of the shares
	advances int        // messages with changes that are in progress
	inFlight int        // bytes sent and not answered
	large    int        // bytes of the next put, where the credit had no room for it
	waiting  int        // puts sent and not answered
	ask      bool       // an empty put is to be sent when the credit allows it
	pumping  bool
	again    bool // something changed while pumping
	stopped  bool
	failures int    // since the last successful put
	broken   bool   // the last failure was a fault of the follower or the leader, not of timing
	trouble  string // the last failure as text; "": none
	timer    *time.Timer
}

// NewReplicator returns the replicator of a follower; it does nothing before
// Connected.
func NewReplicator(o ReplicatorOptions, p Pace) *Replicator {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Shares == nil {
		o.Shares = &Shares{}
	}
	o.Sizes = o.Sizes.OrDefault()
	if o.Credit == nil {
		o.Credit = NewCredit(o.Sizes)
	}
	r := &Replicator{o: o, head: header{o.Partition, o.Epoch}, pace: p}
	kick := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.kickLocked()
	}
	r.out, r.copy = o.Credit.sender(kick), &copier{catchUp: o.CatchUp, wake: kick}
	return r
}

// Connected begins a session with the follower's node.
func (r *Replicator) Connected() {
	session, ok := r.enter(reconciling)
	if !ok {
		return
	}
	r.o.Events.Forget(session)
	r.background(func() { r.reconcile(session) })
}

// Disconnected ends the session: the state of the follower is unknown from then
// on.
func (r *Replicator) Disconnected() {
	if session, ok := r.enter(disconnected); ok {
		r.o.Events.Forget(session)
	}
}

// enter begins a session of the replicator.
func (r *Replicator) enter(s State) (session uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return 0, false
	}
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	r.state = s
	r.beginLocked()
	r.failures, r.broken, r.trouble = 0, false, ""
	return r.session, true
}

// beginLocked forgets the previous session. Its requests keep their credit until
// their calls end: they may still wait in the connection's queue.
func (r *Replicator) beginLocked() {
	r.session++
	r.holds = Progress{}
	r.inFlight, r.waiting, r.advances, r.large, r.ask = 0, 0, 0, 0, false
	r.told, r.shared = 0, sent{}
	r.copy.cancel()
	r.out.cancel()
}

// Stop ends the replicator and returns when it no longer reads the log. It must
// not be called from an event.
func (r *Replicator) Stop() {
	r.enter(disconnected)
	r.mu.Lock()
	r.stopped, r.state = true, disconnected
	r.beginLocked()
	r.mu.Unlock()
	r.running.Wait()
}

// State returns the state of replication to the follower, what it is known to have, and the
// last failure in text form: "" if nothing has failed since its last success.
func (r *Replicator) State() (s State, p Progress, trouble string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s = r.state
	if s == reconciling && r.broken {
		s = failed
	}
	return s, r.progressLocked(), r.trouble
}

// SetPace changes how the follower is served, from the next put on.
func (r *Replicator) SetPace(p Pace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p != r.pace {
		r.pace = p
		r.kickLocked()
	}
}

// Push reports that b was appended. It is sent immediately if the follower has been sent
// everything before it.
func (r *Replicator) Push(b commitlog.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != replicating {
		return
	}
	shared := r.sendSharesLocked()
	if !shared || r.pumping || r.next != b.First() || r.inFlight >= r.pace.window(r.o.Sizes) || !r.out.spend(putHeadBytes+b.Size()) {
		r.kickLocked()
		return
	}
	r.putLocked(b.Raw(), b.Size(), r.o.Log.CommittedEnd())
	r.next, r.prev = b.End(), pointOf(b)
}

// Share reports new entries in Shares.
func (r *Replicator) Share() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == replicating {
		r.sendSharesLocked()
	}
}

// Tell sends the committed end to the follower if it does not know it, nothing is in progress, and
// no put has been sent for a time: the next one would tell it without a message of its own. With
// always it is sent in any case.
func (r *Replicator) Tell(always bool, rest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	committed := r.o.Log.CommittedEnd()
	due := r.told < committed && (rest == 0 || r.o.Now().Sub(r.putAt) >= rest)
	if r.state == replicating && r.waiting == 0 && (always || due) {
		if r.ask = !r.out.claim(putHeadBytes); !r.ask {
			r.putLocked(nil, 0, committed)
		}
	}
}

// background runs f, which may read the log, unless the replicator is stopped.
func (r *Replicator) background(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.running.Go(f)
	}
}

// reconcile asks the follower for the state of its log.
func (r *Replicator) reconcile(session uint64) {
	r.call(session, kindReconcile, [][]byte{reconcile{r.head}.encode()}, nil, func(a answer) {
		log := r.o.Log
		mine := history{log.Epochs(), log.Start(), log.End()}
		its := history{a.epochs, a.start, a.end}
		s := Standing{End: a.end, Committed: a.committed}
		if n := len(a.epochs); n > 0 {
			s.Epoch = a.epochs[n-1].Epoch
		}
		if compare := r.o.Events.Compare; compare != nil && !compare(s) {
			r.retry(session, true, "follower holds messages that this leader lacks; stepping down in its favour")
			return
		}
		r.align(session, common(mine, its), a.start)
	})
}

// align makes the follower truncate its log to at, and walks back batch by
// batch until the logs agree there. At the follower's start they agree without
// a comparison: what was below was committed before it was dropped.
func (r *Replicator) align(session uint64, at, start seq.Offset) {
	if at <= start && r.o.Log.Start() <= start && start <= r.o.Log.End() {
		to := point{End: start}
		r.cut(session, truncate{to: to}, func() { r.retry(session, true, "logs diverge at the follower's log start") })
		return
	}
	var b commitlog.Batch
	for {
		if at <= r.o.Log.Start() {
			origin := commitlog.OriginOf(r.o.Log)
			to := point{End: origin.Start}
			r.cut(session, truncate{to: to, reset: true, position: origin.Position, before: origin.Before}, nil)
			return
		}
		var err error
		if b, err = batchAt(r.o.Log, at-1); err != nil {
			r.o.Events.unreadable(err)
			r.retry(session, true, fmt.Sprintf("cannot read the leader's log to reconcile: %v", err))
			return
		}
		if b.End() == at {
			break
		}
		at = b.First() // it ends within a batch of the leader
	}
	r.cut(session, truncate{to: pointOf(b)}, func() { r.align(session, b.First(), start) })
}

// cut makes the follower truncate its log to a point, or start an empty log at that
// point, and continues from there. differs, if not nil, is called if the logs differ
// there.
func (r *Replicator) cut(session uint64, m truncate, differs func()) {
	m.header = r.head
	r.call(session, KindTruncate, [][]byte{m.encode()}, differs, func(answer) { r.begin(session, m.to) })
}

// begin starts to replicate from a point at which the logs agree, and up to
// which the follower's log is on disk.
func (r *Replicator) begin(session uint64, from point) {
	position := positionAt(r.o.Log, from.End)
	r.mu.Lock()
	if session != r.session || r.stopped {
		r.mu.Unlock()
		return
	}
	r.state, r.next, r.prev, r.position = replicating, from.End, from, position
	r.holds = Progress{End: from.End, At: r.holds.At, Trip: r.holds.Trip}
	p := r.progressLocked()
	r.ask = true
	r.kickLocked()
	r.mu.Unlock()
	r.o.Events.Acked(p)
}

func (r *Replicator) progressLocked() Progress {
	p := r.holds
	p.Session, p.Bytes = r.session, max(0, r.o.Log.EndPosition()-r.position)
	return p
}

// call sends a request. It passes a successful answer to then, and calls
// differs, if set, when the answer says that the logs differ. Both run on their
// own goroutine, because they read the log, and only while the session is the
// same.
func (r *Replicator) call(session uint64, kind uint8, payload [][]byte, differs func(), then func(answer)) {
	at := r.o.Now()
	r.o.Caller.Go(kind, payload, func(reply []byte, err error) {
		a, decodeErr := decodeAnswer(reply)
		r.mu.Lock()
		if session != r.session || r.stopped {
			r.mu.Unlock()
			return
		}
		if err == nil {
			err = decodeErr
		}
		good := err == nil
		switch {
		case good && a.outcome == outcomeOK:
			r.holds.answered(at, r.o.Now())
			r.running.Go(func() { then(a) })
		case good && a.outcome == outcomeMismatch && differs != nil:
			r.running.Go(differs)
		}
		r.mu.Unlock()
		switch {
		case !good:
			r.retry(session, false, err.Error())
		case a.outcome != outcomeOK && (a.outcome != outcomeMismatch || differs == nil):
			r.refused(session, a)
		}
	})
}

// refused handles an answer that is not a success.
func (r *Replicator) refused(session uint64, a answer) {
	if a.outcome == outcomeStale && a.epoch > r.o.Epoch {
		r.o.Events.Superseded(a.epoch)
		return
	}
	if a.outcome == outcomeLonger && r.o.Events.Longer != nil {
		r.o.Events.Longer()
	}
	failed := a.outcome == outcomeFailed || a.outcome == outcomeLonger || a.outcome == outcomeFull
	r.retry(session, failed, a.outcome.trouble())
}

// retry reconciles again after a pause. why is the reason as text.
func (r *Replicator) retry(session uint64, failed bool, why string) {
	r.mu.Lock()
	if session != r.session || r.stopped || r.state == disconnected {
		r.mu.Unlock()
		return
	}
	limit := notReadyLimit
	if failed {
		limit = failedLimit
	}
	wait := min(retryAfter<<min(r.failures, 16), limit)
	r.failures++
	r.broken, r.trouble = failed, why
	r.state = reconciling
	r.beginLocked()
	next := r.session
	r.timer = time.AfterFunc(wait, func() {
		r.background(func() {
			r.mu.Lock()
			current := next == r.session
			r.mu.Unlock()
			if current {
				r.reconcile(next)
			}
		})
	})
	r.mu.Unlock()
	r.o.Events.Forget(next)
}

// kickLocked makes a goroutine send what the follower lacks, because that is
// read from the log. One goroutine pumps at a time.
func (r *Replicator) kickLocked() {
	if r.pumping || r.stopped {
		r.again = true
		return
	}
	if r.state != replicating {
		return
	}
	r.pumping = true
	r.running.Go(r.pump)
}

func (r *Replicator) pump() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for more := true; more; {
		r.again = false
		for r.sendLocked() {
		}
		more = r.again && !r.stopped
	}
	r.pumping = false
}

// sendLocked sends one put, and returns whether to try another. It releases
// the lock while it reads.
func (r *Replicator) sendLocked() bool {
	if r.state != replicating || !r.sendSharesLocked() {
		return false
	}
	if r.inFlight >= r.pace.window(r.o.Sizes) || r.next >= r.o.Log.End() {
		if r.ask && r.waiting == 0 {
			if !r.out.claim(putHeadBytes) {
				return false
			}
			r.putLocked(nil, 0, r.o.Log.CommittedEnd())
		}
		r.out.cancel() // there is nothing else to send
		return false
	}
	if r.pace.CatchUp && r.copy.waits(r.o.Now(), r.progressLocked().Bytes, r.o.Sizes.Chunk) {
		r.out.cancel() // others may use what is reserved meanwhile
		return false
	}
	committed := r.o.Log.CommittedEnd()
	session, next, chunk := r.session, r.next, min(r.o.Sizes.Chunk, r.pace.window(r.o.Sizes))
	if !r.out.reserve(putHeadBytes + max(chunk, r.large)) {
		return false
	}
	r.mu.Unlock()
	raw, err := r.o.Log.ReadRaw(next, chunk, nil)
	last, whole := lastOf(raw)
	r.mu.Lock()
	if session != r.session {
		return r.state == replicating
	}
	if err != nil || !whole {
		r.mu.Unlock()
		// retention has passed it by, or the log is damaged there
		r.o.Events.unreadable(err)
		r.retry(session, true, fmt.Sprintf("cannot read offset %d of the leader's log: %v", next, err))
		r.mu.Lock()
		return false
	}
	r.large = len(raw)
	if !r.out.claim(putHeadBytes + len(raw)) {
		return false // a batch larger than the chunk; it is read again when the credit allows it
	}
	r.large = 0
	r.putLocked(raw, len(raw), committed)
	r.next, r.prev = last.End(), pointOf(last)
	return true
}

// putLocked sends the batches that follow those sent before.
func (r *Replicator) putLocked(raw []byte, size int, committed seq.Offset) {
	head := put{header: r.head, prev: r.prev, committed: committed, sync: r.pace.Sync}.appendHead(make([]byte, 0, putHeadBytes))
	payload := [][]byte{head}
	if size > 0 {
		payload = append(payload, raw)
	}
	sent, at := len(head)+size, r.o.Now()
	r.inFlight += sent
	r.waiting++
	r.ask = false
	r.told, r.putAt = committed, at
	r.sendLockedTo(KindPut, payload, func(a answer, now time.Time) {
		r.waiting--
		r.inFlight -= sent
		r.position += int64(size)
		if size > 0 && r.o.Stored != nil {
			r.o.Stored(now.Sub(at))
		}
		r.holds.End = max(r.holds.End, a.end)
		r.failures, r.broken, r.trouble = 0, false, ""
	})
}

// sendSharesLocked sends what was shared since the last call. It returns false if it
// waits for credit; the pump continues later.
func (r *Replicator) sendSharesLocked() bool {
	for r.advances < maxAdvances { // the rest is sent after an answer
		kind, payload, next := r.o.Shares.after(r.head, r.shared)
		if next == r.shared {
			break
		}
		if !r.out.claim(sizeOf(payload)) {
			return false
		}
		r.shared = next
		r.advances++
		r.sendLockedTo(kind, payload, func(answer, time.Time) {
			r.advances--
			r.holds.Shares = max(r.holds.Shares, next.number)
		})
	}
	return true
}

// sendLockedTo sends a request of the session, for which the credit was spent. It
// calls took under the lock when the request has succeeded.
func (r *Replicator) sendLockedTo(kind uint8, payload [][]byte, took func(a answer, now time.Time)) {
	session, at, size := r.session, r.o.Now(), sizeOf(payload)
	copied := r.copy.sent(r.pace, kind, size)
	// Go only queues, so the lock may be held: it keeps requests in order.
	r.o.Caller.Go(kind, payload, func(reply []byte, err error) {
		r.out.giveBack(size)
		r.copy.answered(r.o.Now, copied)
		a, decodeErr := decodeAnswer(reply)
		r.mu.Lock()
		if session != r.session || r.stopped {
			r.mu.Unlock()
			return
		}
		if err == nil {
			err = decodeErr
		}
		if err != nil {
			r.mu.Unlock()
			r.retry(session, false, err.Error())
			return
		}
		if a.outcome != outcomeOK {
			r.mu.Unlock()
			r.refused(session, a)
			return
		}
		now := r.o.Now()
		took(a, now)
		r.holds.answered(at, now)
		r.holds.Committed = max(r.holds.Committed, min(a.committed, r.holds.End))
		p := r.progressLocked()
		r.sendSharesLocked()
		if r.next < r.o.Log.End() && r.inFlight < r.pace.window(r.o.Sizes) {
			r.kickLocked()
		}
		r.mu.Unlock()
		r.o.Events.Acked(p)
	})
}
