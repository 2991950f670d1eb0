package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Bounds of queued publishes.
const (
	QueueBytes  = 32 << 20  // of one partition
	queuesBytes = 256 << 20 // of all partitions together

	// strayGrace is how long the queue waits for the answers of a node that no longer leads, and
	// hungGrace how long if that node had not answered anything for hungAfter: long enough for a
	// refusal of a slow node.
	strayGrace = 250 * time.Millisecond
	hungAfter  = 500 * time.Millisecond
	hungGrace  = 25 * time.Millisecond

	// A refused partition is retried after a pause that doubles from the first to the last of
	// these, and begins again whenever its metadata changes.
	retryFirst = 2 * time.Millisecond
	retryLast  = 50 * time.Millisecond
)

// errStrayed is the outcome of a publish whose leader was superseded before it answered.
var errStrayed = fate.Mark(fmt.Errorf("%w: leader changed", failure.Unconfirmed), fate.Uncertain)

// queues hold the publishes that cannot simply go to a term of this node: those to partitions that
// another node leads, and those that no node can append at the moment. A publish that was refused
// without effect is kept and retried for as long as a publish may take. One that may have been
// appended is never sent again.
type queues struct {
	*Options
	host   *host.Host
	start  func(func()) bool // runs a goroutine that Close waits for
	active atomic.Int64      // forward queues with work
	bytes  atomic.Int64      // of all publishes in the queues
	rounds atomic.Uint64     // last round number used
	wake   chan struct{}     // a forward queue began to wait; holds one
	spare  sync.Pool         // of queued publishes, which are reused with their bound functions

	mu     sync.Mutex // guards what follows
	all    map[meta.PartitionID]*queue
	closed error // why nothing waits any longer
}

func newQueues(o *Options, h *host.Host, start func(func()) bool) *queues {
	s := &queues{Options: o, host: h, start: start, wake: make(chan struct{}, 1), all: map[meta.PartitionID]*queue{}}
	s.spare.New = func() any {
		x := &queuedPublish{home: &s.spare}
		x.answered = x.answer
		return x
	}
	return s
}

// queue is the forward queue of one partition, in order. It exists while it holds publishes. After
// a refusal it waits until everything in flight has been answered. Then returned publishes are sent
// first, in a new round; the leader accepts nothing of a round after a refusal.
type queue struct {
	all *queues
	key meta.PartitionID

	posting sync.Mutex // held while a publish is numbered and sent; guards numbers
	numbers numbers

	mu       sync.Mutex // guards what follows
	left     sync.Cond  // signals that the queue is gone, or shorter than before
	gone     bool       // no longer in the set
	closed   error      // why nothing is kept any longer
	bytes    int
	next     uint64                      // sequence of queued publishes
	round    uint64                      // of the publishes in flight
	target   meta.NodeID                 // of the publishes in flight
	flying   map[*queuedPublish]struct{} // in flight, or being sent
	answered time.Time                   // time of the last answer to one of those, or when they began
	strayed  time.Time                   // since when another node than the target leads; zero: none does
	sending  bool                        // a goroutine sends waiting publishes
	returned []*queuedPublish            // refused, to be sent again
	waiting  []*queuedPublish            // not sent yet
	pause    time.Duration               // before the next attempt; 0: the last one succeeded
	paused   uint64                      // round of the pause
	retryAt  time.Time
	seen     *meta.Topic // the topic at the last refusal
}

// numbers counts the publishes of a round that were sent to another node.
type numbers struct{ round, next uint64 }

// give returns the next number of a round. A publish of an earlier round than the newest, which was
// given up before it was sent, gets a number that the receiver never accepts.
func (n *numbers) give(round uint64) uint64 {
	if round < n.round {
		return math.MaxUint64
	}
	if round > n.round {
		*n = numbers{round: round}
	}
	n.next++
	return n.next - 1
}

// holds reports whether publishes to a partition must use its forward queue because others are in
// it. If those are just being passed to the term of this node, it waits until they are: under a
// steady load the queue would otherwise never be empty, and every publish would use it permanently.
func (s *queues) holds(key meta.PartitionID) bool {
	if s.active.Load() == 0 {
		return false
	}
	s.mu.Lock()
	o := s.all[key]
	s.mu.Unlock()
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.gone && o.target == s.Self && (o.sending || len(o.flying) > 0) {
		o.left.Wait()
	}
	return !o.gone
}

// withoutPublisher removes the publisher's name, which is for traces, from messages for a leader of
// an older release, which would refuse it.
func (s *queues) withoutPublisher(messages []topic.Message) {
	if len(messages) == 0 || messages[0].From == nil {
		return
	}
	var l level.Level
	s.Meta.Read(func(m *meta.State) { l = m.Cluster().Level })
	if !l.Has(level.ForwardedPublisher) {
		messages[0].From = nil
	}
}

// send accepts a publish, whose messages are copied. Its Done receives the outcome unless an error
// is returned: then it was not accepted. refusal is why the partition's local term did not accept
// it, or nil.
func (s *queues) send(key meta.PartitionID, p *Request, refusal error) error {
	s.withoutPublisher(p.Messages)
	messages := forward.Messages(p.Messages)
	size := messages.Size()
	if s.bytes.Load()+int64(size) > queuesBytes {
		return failure.QueueFull
	}
	share := s.Memory.Share(limit.Forwards)
	if !share.Try(size) {
		return share.Refuse()
	}
	x := s.spare.Get().(*queuedPublish)
	x.share = share
	x.since, x.done, x.refusal = time.Now(), p.Done, refusal
	x.messages = messages.Append(slices.Grow(x.messages[:0], size))
	target := s.leader(key)
	for {
		o, err := s.queue(key)
		if err == nil {
			var again bool
			if again, err = o.enqueue(x, target); again {
				continue
			}
		}
		if err != nil {
			x.free()
		}
		return err
	}
}

// queue returns a partition's forward queue.
func (s *queues) queue(key meta.PartitionID) (*queue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return nil, s.closed
	}
	o := s.all[key]
	if o == nil {
		o = &queue{all: s, key: key, round: s.rounds.Add(1), flying: map[*queuedPublish]struct{}{}}
		o.left.L = &o.mu
		s.all[key] = o
		s.active.Add(1)
	}
	return o, nil
}

// leader returns the leader of a partition, as known on this node; "" if there is none.
func (s *queues) leader(key meta.PartitionID) meta.NodeID {
	if p := key.Of(s.Meta.Topic(key.Topic)); p != nil {
		return p.Leader
	}
	return ""
}

// enqueue sends a queued publish to target, or queues it. again means that the queue has ended
// meanwhile.
func (o *queue) enqueue(x *queuedPublish, target meta.NodeID) (again bool, err error) {
	size := len(x.messages)
	seen := o.all.Meta.Topic(o.key.Topic)
	o.mu.Lock()
	switch {
	case o.gone:
		o.mu.Unlock()
		return true, nil
	case o.closed != nil:
		defer o.mu.Unlock()
		return false, o.closed
	case o.bytes > 0 && o.bytes+size > QueueBytes:
		o.mu.Unlock()
		return false, failure.QueueFull
	}
	o.bytes += size
	o.all.bytes.Add(int64(size))
	x.queue, x.seq = o, o.next
	o.next++
	refused := x.refusal != nil
	behind := o.sending || len(o.returned)+len(o.waiting) > 0 || len(o.flying) > 0 && o.target != target
	if refused || behind {
		o.waiting = append(o.waiting, x)
		if refused && !behind {
			o.delayLocked(seen)
		}
		o.mu.Unlock()
		o.all.poke()
		return false, nil
	}
	if len(o.flying) == 0 {
		o.answered = x.since
	}
	o.target = target
	o.flying[x] = struct{}{}
	round := o.round
	o.mu.Unlock()
	x.dispatch(target, round)
	return false, nil
}

// delayLocked delays the next attempt, once per round. The pauses start short again when the
// metadata has changed since the last refusal: another node is about to lead, or to learn that it
// does.
func (o *queue) delayLocked(seen *meta.Topic) {
	changed := o.seen != seen
	o.seen = seen
	if o.pause > 0 && o.paused == o.round {
		return
	}
	if changed {
		o.pause = 0
	}
	o.pause, o.paused = min(max(2*o.pause, retryFirst), retryLast), o.round
	o.retryAt = time.Now().Add(o.pause)
}

func (s *queues) poke() { signal.Poke(s.wake) }

// absent returns why a partition has no leader.
func (s *queues) absent(k meta.PartitionID) error {
	if t := s.Meta.Topic(k.Topic); t == nil || t.Incarnation != k.Incarnation {
		return failure.TopicNotFound
	}
	return fmt.Errorf("%s/%d: %w", k.Topic, k.Partition, failure.NoLeader)
}

func (o *queue) forgetLocked(x *queuedPublish) {
	o.bytes -= len(x.messages)
	o.all.bytes.Add(-int64(len(x.messages)))
}

// endLocked removes an idle forward queue from the set, and wakes goroutines that wait for it.
func (o *queue) endLocked() {
	defer o.left.Broadcast()
	if o.gone || o.sending || len(o.flying)+len(o.returned)+len(o.waiting) > 0 {
		return
	}
	o.gone = true
	o.all.active.Add(-1)
	o.all.drop(o)
}

func (s *queues) drop(o *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, o.key)
}

// passing reports whether a refusal may end soon, because the leadership moves. Nothing was
// appended then.
func (s *queues) passing(k meta.PartitionID, err error) bool {
	if fate.Of(err) != fate.Refused {
		return false
	}
	switch {
	case errors.Is(err, failure.NotLeading), errors.Is(err, failure.Moving), errors.Is(err, failure.NoLeader), errors.Is(err, failure.NoWindow):
		return true
	case errors.Is(err, failure.TooFewISR):
		// A state in the metadata also does not end on its own.
		t := s.Meta.Topic(k.Topic)
		return t != nil && k.Partition < len(t.Partitions) && len(t.Partitions[k.Partition].ISR) >= t.Config.MinISR
	case errors.Is(err, failure.DiskFull):
		return s.handsOver(k)
	case errors.Is(err, failure.ShuttingDown):
		return !s.host.Exiting() // the leader is stopping
	}
	return false
}

// handsOver reports whether a leader with a full disk has another in-sync replica to which it can
// transfer the partition, according to the metadata.
func (s *queues) handsOver(k meta.PartitionID) bool {
	t := s.Meta.Topic(k.Topic)
	if t == nil || k.Partition >= len(t.Partitions) {
		return false
	}
	p := &t.Partitions[k.Partition]
	return slices.ContainsFunc(p.ISR, func(id meta.NodeID) bool {
		n := s.Meta.Node(id)
		return id != p.Leader && p.Electable(id) && n != nil && n.State == meta.NodeUp && !n.DiskFull
	})
}

// run retries waiting publishes until ctx ends; then all are refused.
func (s *queues) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := s.Meta.Changed()
		next := s.retry(time.Now())
		if next >= 0 {
			timer.Reset(next)
		}
		select {
		case <-ctx.Done():
			s.close(failure.ShuttingDown)
			return
		case <-s.wake:
		case <-changed:
		case <-timer.C:
		}
	}
}

// retry lets every forward queue check whether it can continue. It returns the longest time until
// the next call; negative: nothing waits.
func (s *queues) retry(now time.Time) time.Duration {
	if s.active.Load() == 0 {
		return -1
	}
	s.mu.Lock()
	all := make([]*queue, 0, len(s.all))
	for _, o := range s.all {
		all = append(all, o)
	}
	s.mu.Unlock()
	next := time.Duration(-1)
	for _, o := range all {
		if d := o.retry(now); d >= 0 && (next < 0 || d < next) {
			next = d
		}
	}
	return next
}

// retry ends publishes that have waited too long, and sends the others if it is time.
func (o *queue) retry(now time.Time) time.Duration {
	limit := o.all.PublishTimeout
	t := o.all.Meta.Topic(o.key.Topic)
	target := o.all.leader(o.key)
	o.mu.Lock()
	slices.SortFunc(o.returned, func(x, y *queuedPublish) int { return cmp.Compare(x.seq, y.seq) })
	late := o.popLateLocked(now.Add(-limit))
	strays, again := o.popStraysLocked(now, target)
	var pending []*queuedPublish
	switch {
	case o.sending || len(o.flying) > 0 || len(o.returned)+len(o.waiting) == 0:
	case o.pause > 0 && t == o.seen && now.Before(o.retryAt):
		again = o.retryAt.Sub(now)
	default:
		pending = append(o.returned, o.waiting...)
		o.returned, o.waiting = nil, nil
		if o.pause > 0 { // one of them suffices as a test
			pending, o.returned = pending[:1:1], pending[1:]
		}
		for _, x := range pending {
			o.flying[x] = struct{}{}
		}
		o.sending, o.answered = true, now
		o.target, o.round = target, o.all.rounds.Add(1)
	}
	round := o.round
	o.endLocked()
	o.mu.Unlock()
	for _, x := range late {
		x.expire()
	}
	for _, done := range strays {
		done(topic.Receipt{Partition: o.key.Partition, Err: errStrayed})
	}
	if pending != nil && !o.all.start(func() { o.sendAll(pending, target, round) }) {
		o.sendAll(pending, target, round)
	}
	return again
}

// sendAll sends waiting publishes, which may wait for room in the term. As soon as one is returned,
// the others stay.
func (o *queue) sendAll(pending []*queuedPublish, target meta.NodeID, round uint64) {
	for i, x := range pending {
		x.dispatch(target, round)
		o.mu.Lock()
		stuck, closed := o.pause > 0 && o.paused == round, o.closed
		rest := pending[i+1:]
		if stuck && closed == nil {
			for _, x := range rest {
				delete(o.flying, x)
			}
			o.returned = append(o.returned, rest...)
		}
		o.mu.Unlock()
		if closed != nil {
			for _, x := range rest {
				x.tell(topic.Receipt{Err: closed})
			}
		}
		if stuck || closed != nil {
			break
		}
	}
	o.mu.Lock()
	o.sending = false
	o.endLocked()
	o.mu.Unlock()
	o.all.poke() // for publishes that arrived later, or were returned
}

// popStraysLocked gives up publishes in flight to a node that another has succeeded and that has
// not answered for a while: it may be hanging. It returns whom to notify, and when to check again;
// negative: no need.
func (o *queue) popStraysLocked(now time.Time, leader meta.NodeID) (strays []func(topic.Receipt), again time.Duration) {
	if o.sending || len(o.flying) == 0 || leader == "" || leader == o.target || o.target == "" {
		o.strayed = time.Time{}
		return nil, -1
	}
	if o.strayed.IsZero() {
		o.strayed = now
	}
	grace := strayGrace
	if o.strayed.Sub(o.answered) >= hungAfter {
		grace = hungGrace
	}
	if left := grace - now.Sub(o.strayed); left > 0 {
		return nil, left
	}
	all := slices.SortedFunc(maps.Keys(o.flying), func(x, y *queuedPublish) int { return cmp.Compare(x.seq, y.seq) })
	for _, x := range all {
		if !x.landed {
			x.givenUp = true // it is freed when its call has ended
			delete(o.flying, x)
			o.forgetLocked(x)
			strays = append(strays, x.done)
		}
	}
	o.strayed = time.Time{}
	return strays, -1
}

// popLateLocked removes publishes that have waited since before a time. They, or earlier ones, have
// been tried.
func (o *queue) popLateLocked(before time.Time) []*queuedPublish {
	var late []*queuedPublish
	for _, list := range []*[]*queuedPublish{&o.returned, &o.waiting} {
		n := 0
		for n < len(*list) && (*list)[n].since.Before(before) {
			o.forgetLocked((*list)[n])
			n++
		}
		late = append(late, (*list)[:n]...)
		*list = (*list)[n:]
	}
	return late
}

// close refuses all waiting and later publishes.
func (s *queues) close(reason error) {
	s.mu.Lock()
	s.closed = reason
	all := make([]*queue, 0, len(s.all))
	for _, o := range s.all {
		all = append(all, o)
	}
	s.mu.Unlock()
	for _, o := range all {
		o.mu.Lock()
		o.closed = reason
		rest := append(o.returned, o.waiting...)
		o.returned, o.waiting = nil, nil
		for _, x := range rest {
			o.forgetLocked(x)
			x.refusal = reason
		}
		o.endLocked()
		o.mu.Unlock()
		for _, x := range rest {
			x.expire()
		}
	}
}
