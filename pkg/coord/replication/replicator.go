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
	// maxAdvances is how many messages with changes of positions may be under way.
	// What comes meanwhile goes into the next.
	maxAdvances = 4
	// retryAfter is how long a follower that is not ready is left alone first. The
	// time doubles up to notReadyLimit, or failedLimit where it cannot do what it
	// is asked.
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

// Progress is what a follower is known to have, by an answer of its.
type Progress struct {
	Session   uint64     // of the replicator, which the answer belongs to
	End       seq.Offset // it holds everything below, on disk if the policy asks for it
	Committed seq.Offset // it knows everything below as committed
	Shares    uint64     // it has stored what was shared up to this number
	Bytes     int64      // size of what it lacks
	At        time.Time  // when the request was made that it answered in this epoch
}

// Events are what a replicator tells the term that it belongs to. The calls
// come from any goroutine, without a lock, and must not block.
type Events struct {
	// Acked: the follower said what it has. Progress of a session other than the
	// newest that Forget named is to be ignored.
	Acked func(Progress)
	// Forget: a session begins. What was believed of the follower is not to be
	// relied on.
	Forget func(session uint64)
	// Superseded: the follower has adopted a newer epoch. The term is over.
	Superseded func(seq.Epoch)
}

// State is what a leader is doing about a follower.
type State uint8

const (
	// Disconnected says that there is no session. Nothing is sent.
	Disconnected State = iota
	// Reconciling is finding out where the logs agree. One request is under way at a
	// time.
	Reconciling
	// Replicating is sending batches as they come, several at a time.
	Replicating
	// Failed says that the follower, or the leader, cannot do what it is asked, and
	// is asked again now and then.
	Failed
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
	Shares    *Shares // what goes to the follower beside batches; nil: nothing
	Caller    Caller
	Events    Events
	Now       func() time.Time // nil: time.Now
}

// Pace is how a follower is served.
type Pace struct {
	Sync   bool // it answers what is on its disk
	Window int  // bytes that may be sent and not answered; 0: WindowBytes
}

func (p Pace) window() int {
	if p.Window > 0 {
		return p.Window
	}
	return WindowBytes
}

// Replicator brings one follower to where its leader is and keeps it there, for
// one term. It has no goroutine while there is nothing to be read from the log.
type Replicator struct {
	o    ReplicatorOptions
	head header // of every request

	running sync.WaitGroup // goroutines that read the log

	mu       sync.Mutex // guards what follows
	pace     Pace
	state    State
	session  uint64     // what belongs to an earlier one is ignored
	next     seq.Offset // first to send
	prev     Point      // behind what was sent
	holds    Progress   // of the follower, in this session
	position int64      // in the virtual log, of the end of what it holds
	told     seq.Offset // committed end that it was last sent
	shared   uint64     // number of the last share that it was sent
	advances int        // messages with changes that are under way
	inFlight int        // bytes sent and not answered
	waiting  int        // puts sent and not answered
	pumping  bool
	again    bool // something changed while pumping
	stopped  bool
	failures int  // since the last put that went well
	broken   bool // the last of them was the follower's or ours, not a matter of time
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
	return &Replicator{o: o, head: header{o.Partition, o.Epoch}, pace: p}
}

// Connected begins a session with the follower's node.
func (r *Replicator) Connected() {
	session, ok := r.enter(Reconciling)
	if !ok {
		return
	}
	r.o.Events.Forget(session)
	r.background(func() { r.reconcile(session) })
}

// Disconnected ends the session: nothing is known of the follower any more.
func (r *Replicator) Disconnected() {
	if session, ok := r.enter(Disconnected); ok {
		r.o.Events.Forget(session)
	}
}

// enter begins a session of the replicator's.
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
	r.session++
	r.state, r.holds = s, Progress{}
	r.inFlight, r.waiting, r.advances = 0, 0, 0
	r.told, r.shared = 0, 0
	r.failures, r.broken = 0, false
	return r.session, true
}

// Stop ends the replicator and returns when it reads the log no more. It must
// not be called from an event.
func (r *Replicator) Stop() {
	r.enter(Disconnected)
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.running.Wait()
}

// State returns what is being done about the follower, and what it is known to
// have.
func (r *Replicator) State() (State, Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	if s == Reconciling && r.broken {
		s = Failed
	}
	return s, r.progressLocked()
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

// Push says that b was appended. It is sent as it is if the follower has been
// sent all before it.
func (r *Replicator) Push(b commitlog.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != Replicating {
		return
	}
	r.sendSharesLocked()
	if r.pumping || r.next != b.First() || r.inFlight >= r.pace.window() {
		r.kickLocked()
		return
	}
	r.putLocked(b.Raw(), b.Size(), r.o.Log.CommittedEnd())
	r.next, r.prev = b.End(), PointOf(b)
}

// Share says that there is something new in Shares.
func (r *Replicator) Share() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == Replicating {
		r.sendSharesLocked()
	}
}

// Tell lets the follower know how far the log is committed, if it was not told
// and nothing is under way. With always it is asked in any case.
func (r *Replicator) Tell(always bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	committed := r.o.Log.CommittedEnd()
	if r.state == Replicating && r.waiting == 0 && (always || r.told < committed) {
		r.putLocked(nil, 0, committed)
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

// reconcile asks the follower where its log stands.
func (r *Replicator) reconcile(session uint64) {
	r.call(session, KindReconcile, [][]byte{reconcile{r.head}.encode()}, nil, func(a answer) {
		log := r.o.Log
		mine := history{log.Epochs(), log.Start(), log.End()}
		its := history{a.epochs, a.start, a.end}
		r.align(session, common(mine, its), a.start)
	})
}

// align has the follower cut its log back to at, and goes back batch by batch
// until the logs agree there. At the follower's start they agree without a
// comparison: what was below is gone because it was committed.
func (r *Replicator) align(session uint64, at, start seq.Offset) {
	if at <= start && r.o.Log.Start() <= start && start <= r.o.Log.End() {
		to := Point{End: start}
		r.cut(session, to, func() { r.retry(session, true) })
		return
	}
	var b commitlog.Batch
	for {
		if at <= r.o.Log.Start() {
			r.reset(session)
			return
		}
		var err error
		if b, err = batchAt(r.o.Log, at-1); err != nil {
			r.retry(session, true)
			return
		}
		if b.End() == at {
			break
		}
		at = b.First() // it ends in the middle of one of ours
	}
	r.cut(session, PointOf(b), func() { r.align(session, b.First(), start) })
}

// cut has the follower cut its log back to a point and goes on from there.
// differs is called if what is there is not the same.
func (r *Replicator) cut(session uint64, to Point, differs func()) {
	payload := truncate{header: r.head, to: to}.encode()
	r.call(session, KindTruncate, [][]byte{payload}, differs, func(answer) { r.begin(session, to) })
}

// reset has the follower start its log anew at the start of ours.
func (r *Replicator) reset(session uint64) {
	origin := commitlog.OriginOf(r.o.Log)
	to := Point{End: origin.Start}
	payload := truncate{header: r.head, to: to, reset: true, position: origin.Position, before: origin.Before}.encode()
	r.call(session, KindTruncate, [][]byte{payload}, nil, func(answer) { r.begin(session, to) })
}

// begin starts to replicate from a point at which the logs agree, and up to
// which the follower's is on disk.
func (r *Replicator) begin(session uint64, from Point) {
	position := positionAt(r.o.Log, from.End)
	r.mu.Lock()
	if session != r.session || r.stopped {
		r.mu.Unlock()
		return
	}
	r.state, r.next, r.prev, r.position = Replicating, from.End, from, position
	r.holds = Progress{End: from.End, At: r.holds.At}
	p := r.progressLocked()
	r.sendSharesLocked()
	if r.next < r.o.Log.End() {
		r.kickLocked()
	} else {
		r.putLocked(nil, 0, r.o.Log.CommittedEnd())
	}
	r.mu.Unlock()
	r.o.Events.Acked(p)
}

// positionAt returns where in the virtual log an offset lies at which a batch
// begins, or the log's end where that cannot be told cheaply.
func positionAt(l *commitlog.Log, at seq.Offset) int64 {
	if at == l.Start() {
		return commitlog.OriginOf(l).Position
	}
	reader := l.NewReader()
	defer reader.Release()
	if b, err := reader.Batch(at); err == nil {
		return b.Position()
	}
	return l.EndPosition()
}

func (r *Replicator) progressLocked() Progress {
	p := r.holds
	p.Session, p.Bytes = r.session, max(0, r.o.Log.EndPosition()-r.position)
	return p
}

// call sends a request and hands the answer on if it is good, or calls differs, if
// there is one, where it says that the logs differ: on a goroutine of its own,
// since who takes it reads the log, and only while the session is the same.
func (r *Replicator) call(session uint64, kind uint8, payload [][]byte, differs func(), then func(answer)) {
	at := r.o.Now()
	r.o.Caller.Go(kind, payload, func(reply []byte, err error) {
		a, decodeErr := decodeAnswer(reply)
		r.mu.Lock()
		if session != r.session || r.stopped {
			r.mu.Unlock()
			return
		}
		good := err == nil && decodeErr == nil
		switch {
		case good && a.outcome == outcomeOK:
			r.holds.At = at
			r.running.Go(func() { then(a) })
		case good && a.outcome == outcomeMismatch && differs != nil:
			r.running.Go(differs)
		}
		r.mu.Unlock()
		switch {
		case !good:
			r.retry(session, false)
		case a.outcome != outcomeOK && (a.outcome != outcomeMismatch || differs == nil):
			r.refused(session, a)
		}
	})
}

// refused decides what to do about an answer that is not a success.
func (r *Replicator) refused(session uint64, a answer) {
	if a.outcome == outcomeStale && a.epoch > r.o.Epoch {
		r.o.Events.Superseded(a.epoch)
		return
	}
	r.retry(session, a.outcome == outcomeFailed)
}

// retry reconciles anew after a moment.
func (r *Replicator) retry(session uint64, failed bool) {
	r.mu.Lock()
	if session != r.session || r.stopped || r.state == Disconnected {
		r.mu.Unlock()
		return
	}
	limit := notReadyLimit
	if failed {
		limit = failedLimit
	}
	wait := min(retryAfter<<min(r.failures, 16), limit)
	r.failures++
	r.broken = failed
	r.session++
	next := r.session
	r.state, r.holds = Reconciling, Progress{}
	r.inFlight, r.waiting, r.advances, r.told, r.shared = 0, 0, 0, 0, 0
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

// kickLocked sees to it that somebody sends what the follower lacks, on a
// goroutine of its own, since it is read from the log. One pumps at a time.
func (r *Replicator) kickLocked() {
	if r.pumping || r.stopped {
		r.again = true
		return
	}
	if r.state != Replicating {
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

// sendLocked sends one put, and returns whether to try another. It lets go of
// the lock while it reads.
func (r *Replicator) sendLocked() bool {
	if r.state != Replicating || r.inFlight >= r.pace.window() || r.next >= r.o.Log.End() {
		return false
	}
	r.sendSharesLocked()
	committed := r.o.Log.CommittedEnd()
	session, next, chunk := r.session, r.next, min(ChunkBytes, r.pace.window())
	r.mu.Unlock()
	raw, err := r.o.Log.ReadRaw(next, chunk, nil)
	last, whole := lastOf(raw)
	r.mu.Lock()
	if session != r.session {
		return r.state == Replicating
	}
	if err != nil || !whole {
		r.mu.Unlock()
		r.retry(session, true) // retention has passed it by, or the log is damaged there
		r.mu.Lock()
		return false
	}
	r.putLocked(raw, len(raw), committed)
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
func (r *Replicator) putLocked(raw []byte, size int, committed seq.Offset) {
	head := put{header: r.head, prev: r.prev, committed: committed, sync: r.pace.Sync}.appendHead(make([]byte, 0, putHeadBytes))
	payload := [][]byte{head}
	if size > 0 {
		payload = append(payload, raw)
	}
	r.inFlight += size
	r.waiting++
	r.told = committed
	r.sendLockedTo(KindPut, payload, func(a answer) {
		r.waiting--
		r.inFlight -= size
		r.position += int64(size)
		r.holds.End = max(r.holds.End, a.end)
		r.failures, r.broken = 0, false
	})
}

// sendSharesLocked sends what was shared since the last time.
func (r *Replicator) sendSharesLocked() {
	for {
		if r.advances >= maxAdvances {
			return // what waits goes with the answer
		}
		kind, payload, n := r.o.Shares.after(r.shared)
		if n == r.shared {
			return
		}
		r.shared = n
		r.advances++
		r.sendLockedTo(kind, append([][]byte{r.head.append(nil)}, payload...), func(answer) {
			r.advances--
			r.holds.Shares = max(r.holds.Shares, n)
		})
	}
}

// sendLockedTo sends a request of the session; took is called under the lock
// when it has succeeded.
func (r *Replicator) sendLockedTo(kind uint8, payload [][]byte, took func(answer)) {
	session, at := r.session, r.o.Now()
	// Go only queues, so the lock may be held: it keeps requests in order.
	r.o.Caller.Go(kind, payload, func(reply []byte, err error) {
		a, decodeErr := decodeAnswer(reply)
		r.mu.Lock()
		if session != r.session || r.stopped {
			r.mu.Unlock()
			return
		}
		if err != nil || decodeErr != nil {
			r.mu.Unlock()
			r.retry(session, false)
			return
		}
		if a.outcome != outcomeOK {
			r.mu.Unlock()
			r.refused(session, a)
			return
		}
		took(a)
		r.holds.At = at
		r.holds.Committed = max(r.holds.Committed, min(a.committed, r.holds.End))
		p := r.progressLocked()
		r.sendSharesLocked()
		if r.next < r.o.Log.End() && r.inFlight < r.pace.window() {
			r.kickLocked()
		}
		r.mu.Unlock()
		r.o.Events.Acked(p)
	})
}
