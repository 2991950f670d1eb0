package broker

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
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Bounds of a handover.
const (
	// restTimeout is how long consumers may take to answer what they have, while
	// publishes go on. What they answer later than that is delivered again.
	restTimeout = time.Second
	// quiesceTimeout is the same for what they were given since.
	quiesceTimeout = 75 * time.Millisecond
	// sealTimeout is how long publishes are held back at the most while the
	// others catch up; a leader that cannot by then goes on leading.
	sealTimeout = 500 * time.Millisecond
	// electTimeout bounds an election: without a quorum the leader goes on.
	electTimeout = time.Second
	// outcomeTimeout is how long an election whose outcome is open is waited
	// for before the leader goes on.
	outcomeTimeout = time.Second
	// handoverTogether is how many partitions are handed over in one step, and
	// handoverSteps how many steps are under way at a time: the more there are, the
	// longer the publishes of each wait.
	handoverTogether = 16
	handoverSteps    = 2
	// handoverTries is how often what could not be handed over is tried, and
	// handoverBudget how long a node tries before it goes nevertheless.
	handoverTries  = 3
	handoverBudget = 5 * time.Second
)

// errNoElection is wrapped by what says that the metadata could not be changed.
var errNoElection = errors.New("no election given")

// errHandingOver refuses to hand over what is being handed over.
var errHandingOver = fate.Refuse("leadership transfer already in progress")

// handovers gives leaderships of a node to others.
type handovers struct{ *hosting }

// Handover gives every leadership of this node to another in-sync replica that
// is up, where there is one. No publish fails by it: what arrives meanwhile is
// kept and goes to the new leader. The error says how many leaderships could
// have gone and have not; what nobody else could lead is not counted.
func (b *Broker) Handover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, handoverBudget)
	defer cancel()
	var failed []error
	for range handoverTries {
		s := b.o.Meta.View()
		all := controller.Handover(s, controller.ConditionsOf(s), b.o.Self, meta.ReasonRestart)
		if len(all) == 0 {
			return nil
		}
		d := handovers{b.hosting}
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

// rest brings the consumers of partitions to rest, all at the same time: nothing
// more is delivered, and what is in flight is answered, or there was time for it.
func (d handovers) rest(ctx context.Context, es []meta.Election) {
	ctx, cancel := context.WithTimeout(ctx, restTimeout)
	defer cancel()
	fan.Out(es, askTogether, func(e meta.Election) {
		h := d.lookup(e.Topic)
		if h == nil {
			return
		}
		if lp := h.leds(e.Partition); lp != nil && !lp.leaving.Load() {
			_ = lp.part.Quiesce(ctx)
		}
	})
}

// wake has deliveries go on where partitions have stayed.
func (d handovers) wake(es []meta.Election) {
	for _, e := range es {
		if h := d.lookup(e.Topic); h != nil {
			if lp := h.leds(e.Partition); lp != nil && !lp.leaving.Load() {
				lp.part.Resume()
			}
		}
	}
}

// hopeless says whether trying again or trying others would end alike: the
// metadata cannot be changed.
func hopeless(failed []error) bool {
	return slices.ContainsFunc(failed, func(err error) bool { return errors.Is(err, errNoElection) })
}

// many hands partitions over, many at a time, and returns why some were not.
func (d handovers) many(ctx context.Context, all []meta.Election) (failed []error) {
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
func (d handovers) one(ctx context.Context, a forward.Transfer) error {
	h := d.lookup(a.Topic)
	if h == nil || h.incarnation != a.Incarnation {
		return ErrTopicNotFound
	}
	if h.leds(a.Partition) == nil {
		return fmt.Errorf("%s/%d: %w", a.Topic, a.Partition, coord.ErrNotLeading)
	}
	if a.To == d.o.Self {
		return nil
	}
	s := d.o.Meta.View()
	id := controller.PartitionID{Topic: h.name, Incarnation: h.incarnation, Partition: a.Partition}
	e, err := controller.Transfer(s, controller.ConditionsOf(s), id, a.To, false)
	if err != nil {
		return err
	}
	if e.Reason = a.Reason; e.Reason == "" {
		e.Reason = meta.ReasonTransfer
	}
	es := []meta.Election{e}
	d.rest(ctx, es)
	defer d.wake(es)
	if failed := d.step(ctx, es); len(failed) > 0 {
		return failed[0]
	}
	return nil
}

// Transfer gives the leadership of one partition to another replica: see one.
func (n *hosting) Transfer(ctx context.Context, a forward.Transfer) (forward.Nothing, error) {
	return forward.Nothing{}, handovers{n}.one(ctx, a)
}

// leaving is a leadership on its way to another node.
type leaving struct {
	h        *hostedTopic
	lp       *ledPartition
	election meta.Election
	err      error // why it stays
}

// step hands partitions over with one change of the metadata.
func (d handovers) step(ctx context.Context, es []meta.Election) (failed []error) {
	all := make([]*leaving, len(es))
	for i, e := range es {
		all[i] = &leaving{h: d.lookup(e.Topic), election: e}
	}
	fan.Out(all, askTogether, func(l *leaving) {
		if l.err = d.takeUp(l.election); l.err == nil {
			l.err = l.quiet(ctx)
		}
	})
	// Publishes are held back from here on, and no partition waits for the
	// consumers of another.
	fan.Out(all, askTogether, func(l *leaving) {
		if l.err == nil {
			l.err = l.seal(ctx)
		}
	})
	d.elect(ctx, all)
	fan.Out(all, askTogether, func(l *leaving) {
		if l.err == nil {
			l.err = d.converge(l.h.name) // the role ends, consumers are told
		} else {
			l.stay()
		}
	})
	for _, l := range all {
		if l.err != nil {
			failed = append(failed, fmt.Errorf("%s/%d: %w", l.election.Topic, l.election.Partition, l.err))
		}
	}
	return failed
}

// takeUp makes sure that this node leads what the metadata says it leads: it may
// have been elected a moment ago.
func (d handovers) takeUp(e meta.Election) error {
	if h := d.lookup(e.Topic); h != nil && h.leds(e.Partition) != nil {
		return nil
	}
	return d.converge(e.Topic)
}

// quiet brings a partition's consumers to rest: they have answered, or had the
// time to, and every in-sync replica knows.
func (l *leaving) quiet(ctx context.Context) error {
	if l.h == nil {
		return ErrTopicNotFound
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	lp := l.h.leds(l.election.Partition)
	if lp == nil {
		return coord.ErrNotLeading
	}
	if !lp.leaving.CompareAndSwap(false, true) {
		return errHandingOver
	}
	l.lp = lp
	bounded, cancel := context.WithTimeout(ctx, quiesceTimeout)
	_ = lp.part.Quiesce(bounded) // slow consumers see some messages twice
	cancel()
	bounded, cancel = context.WithTimeout(ctx, sealTimeout)
	defer cancel()
	return lp.part.Flush(bounded)
}

// seal holds publishes back and returns when every in-sync replica has all that
// there is.
func (l *leaving) seal(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, sealTimeout)
	defer cancel()
	if err := l.lp.term.Seal(bounded); err != nil {
		return err
	}
	return l.lp.part.Flush(bounded) // what was answered meanwhile
}

// stay goes on leading what could not be handed over.
func (l *leaving) stay() {
	if l.lp == nil {
		return
	}
	l.lp.term.Unseal()
	l.lp.part.Resume()
	l.lp.leaving.Store(false)
}

// elect has the metadata give what is prepared to its new leaders, and notes
// what stays.
func (d handovers) elect(ctx context.Context, all []*leaving) {
	var ready []*leaving
	var c meta.ElectLeaders
	s := d.o.Meta.View()
	for _, l := range all {
		if l.err != nil {
			continue
		}
		// the in-sync set may be another than when it was planned
		t := s.Topic(l.election.Topic)
		if t == nil || t.Incarnation != l.h.incarnation {
			l.err = ErrTopicNotFound
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
	r, err := d.o.Meta.Propose(bounded, c)
	if err != nil {
		err = fmt.Errorf("%w: %w", errNoElection, err)
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

// outcome waits for the metadata to say whether an election took place whose
// outcome is open. While it does not, the leader goes on: if the election comes
// true later, its term will find out.
func (d handovers) outcome(l *leaving, cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), outcomeTimeout)
	defer cancel()
	for {
		changed := d.o.Meta.Changed()
		t := d.o.Meta.Topic(l.election.Topic)
		if t == nil || t.Incarnation != l.h.incarnation || t.Partitions[l.election.Partition].Epoch > l.lp.term.Epoch() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(cause, context.Cause(ctx))
		}
	}
}
