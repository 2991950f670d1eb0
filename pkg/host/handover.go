package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Bounds of a leadership transfer.
const (
	// restTimeout is how long a node that is about to stop waits for its clients to answer messages in flight while
	// publishes continue. Messages that they answer later are delivered again.
	restTimeout = time.Second
	// quiesceTimeout is how long a leader waits until nothing is in flight, before it tells the next leader what is.
	quiesceTimeout = 75 * time.Millisecond
	// sealTimeout bounds how long publishes are delayed while the other replicas catch up. If they
	// do not catch up in time, the leader continues.
	sealTimeout = 500 * time.Millisecond
	// electTimeout bounds an election: without a quorum the leader continues.
	electTimeout = time.Second
	// outcomeTimeout is how long the leader waits for the outcome of an election before it
	// continues.
	outcomeTimeout = time.Second
	// applyTimeout is how long a leader that is asked waits until it has applied the election that
	// made it the leader.
	applyTimeout = 500 * time.Millisecond
	// handoverTogether is how many partitions are transferred in one step, and handoverSteps how
	// many steps are in progress at a time. The more there are, the longer the publishes of each
	// wait.
	handoverTogether = 16
	handoverSteps    = 2
	// handoverAtOnce is how many of them are prepared at a time.
	handoverAtOnce = 32
	// handoverTries is how often a failed transfer is tried, and handoverBudget how long a node
	// tries before it stops anyway.
	handoverTries  = 3
	handoverBudget = 5 * time.Second
)

// ErrNoElection is wrapped by errors of failed metadata changes.
var ErrNoElection = errors.New("no election given")

// handovers transfers leaderships of this node to others.
type handovers struct {
	o        *Options
	topics   *Topics
	converge func(topic string) error
	life     *life
}

// all transfers every leadership of this node to another in-sync replica that is up, if there is
// one. No publish fails: those that arrive meanwhile are kept and sent to the new leader. The error
// counts the leaderships that could have been transferred and were not. Those without a candidate
// do not count.
func (d *handovers) all(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, handoverBudget)
	defer cancel()
	var failed []error
	for range handoverTries {
		s := d.o.Meta.View()
		all := controller.Handover(s, controller.ConditionsOf(s), d.o.Self, meta.ReasonRestart)
		if len(all) == 0 {
			return nil
		}
		d.rest(ctx, all)
		failed = d.many(ctx, all)
		d.wake(all)
		if len(failed) == 0 || hopeless(failed) || ctx.Err() != nil {
			break
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("leadership of %d partitions not transferred; first error: %w", len(failed), failed[0])
}

// rest quiesces the consumers of partitions, all at the same time: nothing more is delivered, and
// messages in flight are answered or their time has run out.
func (d *handovers) rest(ctx context.Context, es []meta.Election) {
	ctx, cancel := context.WithTimeout(ctx, restTimeout)
	defer cancel()
	fan.Out(es, handoverAtOnce, func(e meta.Election) {
		h := d.topics.Lookup(e.Topic)
		if h == nil {
			return
		}
		if lp := h.Led(e.Partition); lp != nil && !lp.leaving.Load() {
			_ = lp.Part.Gate.Quiesce(ctx)
		}
	})
}

// wake resumes deliveries of the partitions that stayed.
func (d *handovers) wake(es []meta.Election) {
	for _, e := range es {
		if h := d.topics.Lookup(e.Topic); h != nil {
			if lp := h.Led(e.Partition); lp != nil && !lp.leaving.Load() {
				lp.Part.Gate.Resume()
			}
		}
	}
}

// hopeless reports whether retries and further transfers would fail as well, because the metadata
// cannot be changed.
func hopeless(failed []error) bool {
	return slices.ContainsFunc(failed, func(err error) bool { return errors.Is(err, ErrNoElection) })
}

// many transfers many partitions at a time, and returns the errors of those that stayed.
func (d *handovers) many(ctx context.Context, all []meta.Election) (failed []error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(handoverSteps)
	var mu sync.Mutex // guards failed
	for step := range slices.Chunk(all, handoverTogether) {
		g.Go(func() error {
			err := d.step(ctx, step)
			if hopeless(err) {
				cancel()
			}
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err...)
			return nil
		})
	}
	_ = g.Wait()
	return failed
}

// one transfers leadership of one partition that this node leads. It does nothing if
// the target already leads it.
func (d *handovers) one(ctx context.Context, a forward.Transfer) error {
	h := d.topics.Lookup(a.Topic)
	if h == nil || h.Incarnation != a.Incarnation {
		return failure.TopicNotFound
	}
	d.awaitElection(ctx, a)
	if err := d.ensureLed(meta.Election{Topic: a.Topic, Partition: a.Partition}); err != nil || h.Led(a.Partition) == nil {
		return errors.Join(fmt.Errorf("%s/%d: %w", a.Topic, a.Partition, failure.NotLeading), err)
	}
	if a.To == d.o.Self {
		return nil
	}
	s := d.o.Meta.View()
	e, err := controller.Transfer(s, controller.ConditionsOf(s), idOf(h, a.Partition), a.To, false)
	if err != nil {
		return err
	}
	if e.Reason = a.Reason; e.Reason == "" {
		e.Reason = meta.ReasonTransfer
	}
	if failed := d.step(ctx, []meta.Election{e}); len(failed) > 0 {
		return failed[0]
	}
	return nil
}

// awaitElection waits until this node has applied the election that made it the leader. The node that
// asks may have applied it earlier. A leader that denies its leadership is replaced without being sealed,
// and publishes in progress have an unknown outcome.
func (d *handovers) awaitElection(ctx context.Context, a forward.Transfer) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	for {
		changed := d.o.Meta.Changed()
		t := d.o.Meta.Topic(a.Topic)
		if t == nil || t.Incarnation != a.Incarnation || a.Partition >= len(t.Partitions) || t.Partitions[a.Partition].Epoch >= a.Epoch {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// leaving is a leadership in transfer to another node.
type leaving struct {
	h        *Topic
	lp       *Led
	election meta.Election
	told     bool  // the next leader knows what is in flight here
	err      error // why it stays; nil if it does not
}

// step transfers partitions with one change of the metadata.
func (d *handovers) step(ctx context.Context, es []meta.Election) (failed []error) {
	all := make([]*leaving, len(es))
	for i, e := range es {
		all[i] = &leaving{h: d.topics.Lookup(e.Topic), election: e}
	}
	fan.Out(all, handoverAtOnce, func(l *leaving) {
		if l.err = d.ensureLed(l.election); l.err == nil {
			l.err = l.quiet(ctx)
		}
	})
	// Publishes are delayed from here on. No partition waits for the consumers of another.
	fan.Out(all, handoverAtOnce, func(l *leaving) {
		if l.err == nil {
			l.err = d.seal(ctx, l)
		}
	})
	d.elect(ctx, all)
	fan.Out(all, handoverAtOnce, func(l *leaving) {
		if l.err == nil {
			l.err = d.converge(l.h.Name) // ends the role and notifies consumers
		} else {
			d.stay(l)
		}
	})
	for _, l := range all {
		if l.err != nil {
			failed = append(failed, fmt.Errorf("%s/%d: %w", l.election.Topic, l.election.Partition, l.err))
		}
	}
	return failed
}

// ensureLed makes this node take the leaderships that the metadata gives it: it may just have been
// elected.
func (d *handovers) ensureLed(e meta.Election) error {
	if h := d.topics.Lookup(e.Topic); h != nil && h.Led(e.Partition) != nil {
		return nil
	}
	return d.converge(e.Topic)
}

// quiet suspends a partition's deliveries. Consumers that answer at once have answered when it
// returns, and every in-sync replica has the positions.
func (l *leaving) quiet(ctx context.Context) error {
	if l.h == nil {
		return failure.TopicNotFound
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	lp := l.h.Led(l.election.Partition)
	if lp == nil {
		return failure.NotLeading
	}
	if !lp.leaving.CompareAndSwap(false, true) {
		return failure.Moving // by another request
	}
	l.lp = lp
	bounded, cancel := context.WithTimeout(ctx, quiesceTimeout)
	_ = lp.Part.Gate.Quiesce(bounded) // the next leader is told what is still in flight
	cancel()
	bounded, cancel = context.WithTimeout(ctx, sealTimeout)
	defer cancel()
	return lp.Part.Flush(bounded)
}

// seal stops publishes and answers, and returns when every in-sync replica has everything that was
// appended and answered, and the next leader knows what is in flight.
func (d *handovers) seal(ctx context.Context, l *leaving) error {
	bounded, cancel := context.WithTimeout(ctx, sealTimeout)
	defer cancel()
	if err := l.lp.Term.Seal(bounded); err != nil {
		return err
	}
	flights := l.lp.Part.Freeze(time.Now(), d.stays)
	if err := l.lp.Part.Flush(bounded); err != nil { // positions answered meanwhile
		return err
	}
	if len(flights) == 0 {
		return nil
	}
	l.told = true
	if err := l.tell(bounded, d.o.Calls, flights); err != nil {
		return fmt.Errorf("tell node %q what is in flight: %w", l.election.Leader, err)
	}
	return nil
}

// stays reports whether a subscription survives the transfer: the clients of a node that is about to stop
// do not.
func (d *handovers) stays(by topic.Identity) bool {
	return by.Node != string(d.o.Self) || !d.life.leaving.Load() && !d.life.exiting.Load()
}

// stay continues leading a partition that was not transferred.
func (d *handovers) stay(l *leaving) {
	if l.lp == nil {
		return
	}
	l.lp.Term.Unseal()
	l.lp.Part.Gate.Resume()
	if l.told { // it holds no longer; if this is lost, messages wait at a later leader for consumers that do not come
		ctx, cancel := context.WithTimeout(context.Background(), sealTimeout)
		_ = l.tell(ctx, d.o.Calls, nil)
		cancel()
	}
	l.lp.leaving.Store(false)
}

// elect proposes the new leaders of the prepared partitions in the metadata, and records which ones
// stay.
func (d *handovers) elect(ctx context.Context, all []*leaving) {
	var ready []*leaving
	var c meta.ElectLeaders
	s := d.o.Meta.View()
	for _, l := range all {
		if l.err != nil {
			continue
		}
		// The in-sync set may have changed since the transfer was planned.
		t := s.Topic(l.election.Topic)
		if t == nil || t.Incarnation != l.h.Incarnation {
			l.err = failure.TopicNotFound
			continue
		}
		l.election.Version = t.Partitions[l.election.Partition].Version
		ready = append(ready, l)
		c.Elections = append(c.Elections, l.election)
	}
	if len(ready) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, electTimeout)
	defer cancel()
	r, err := d.o.proposeObserved(bounded, c)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrNoElection, err)
	}
	for i, l := range ready {
		switch {
		case err == nil && r.Failed != nil:
			l.err = r.Failed[i]
		case err != nil && fate.Of(err) == fate.Refused:
			l.err = err
		case err != nil:
			l.err = d.outcome(l, err)
		}
	}
}

// outcome waits until the metadata shows whether an election took place whose outcome is unknown.
// If that takes too long, the leader continues: if the election is applied later, its term learns
// of it.
func (d *handovers) outcome(l *leaving, cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), outcomeTimeout)
	defer cancel()
	for {
		changed := d.o.Meta.Changed()
		t := d.o.Meta.Topic(l.election.Topic)
		if t == nil || t.Incarnation != l.h.Incarnation || t.Partitions[l.election.Partition].Epoch > l.lp.Term.Epoch() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(cause, context.Cause(ctx))
		}
	}
}
