package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Open announces this start of the node in the metadata, which must have a leader, opens every
// partition that the metadata assigns to the node, and begins to apply the metadata. It returns
// when the node can serve.
func (n *Host) Open(ctx context.Context) error {
	if err := n.join(ctx); err != nil {
		return err
	}
	if err := n.claim(); err != nil {
		return err
	}
	began := time.Now()
	if err := n.openAll(); err != nil {
		return errors.Join(err, n.closeTopics(err))
	}
	n.roles.onDisk.Store(false) // a replica opened later may have files that were copied there meanwhile
	n.Topics.recovery.Store(int64(time.Since(began)))
	n.strays.Add(int64(n.removal.Sweep(n.o.Meta.View())))
	loops, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	n.loops = cancel
	n.startLoops(loops)
	return nil
}

// Close ends the roles of all replicas, stores pending state and closes the logs, so that the next
// start has nothing to recover. The node must not be used afterwards. Call it once.
func (n *Host) Close() error {
	n.life.end()
	if n.loops != nil {
		n.loops(failure.ShuttingDown)
	}
	n.life.running.Close()
	err := n.closeTopics(failure.ShuttingDown)
	n.shifts.sumUp(n.o.Logger)
	return errors.Join(err, n.redo.Close())
}

// join announces this start of the node as a new incarnation. Every partition that it leads gets a
// new epoch.
func (n *Host) join(ctx context.Context) error {
	if !n.o.Registered {
		if _, err := n.o.Meta.Init(ctx); err != nil {
			return fmt.Errorf("initialize cluster id: %w", err)
		}
		self := n.o.Node
		self.ID, self.State = n.o.Self, meta.NodeUp
		self.Levels = level.Supported()
		if _, err := n.Propose(ctx, meta.NodeStarted{Node: self}); err != nil {
			return fmt.Errorf("announce node %q: %w", self.ID, err)
		}
	}
	for _, t := range n.o.Meta.Topics() {
		if meta.IsEphemeral(t.Name) && n.holds(t) {
			// An ephemeral topic was in the memory of the previous process.
			_, err := n.Propose(ctx, meta.DeleteTopic{Name: t.Name, Incarnation: t.Incarnation})
			if err != nil && !errors.Is(OfThisIncarnation(err), failure.TopicNotFound) {
				return fmt.Errorf("drop ephemeral topic %q: %w", t.Name, err)
			}
		}
	}
	return nil
}

// claim claims the data directory for this cluster before any topic is opened.
func (n *Host) claim() error {
	s := n.o.Meta.View()
	n.Topics.cluster = s.Cluster().ID
	foreign, err := n.dirs.Claim(n.ledger, s, n.o.Self, n.o.Logger)
	n.strays.Add(int64(foreign))
	return err
}

// holds reports whether this node holds a replica of a topic.
func (n *Host) holds(t *meta.Topic) bool {
	return slices.ContainsFunc(t.Partitions, func(p meta.Partition) bool { return slices.Contains(p.Replicas, n.o.Self) })
}

// openAll opens the replicas of this node. A failure of one topic does not keep others from being
// served: it is retried while the node runs, and health names it. An error means that the node
// itself cannot continue.
func (n *Host) openAll() error {
	var g errgroup.Group
	g.SetLimit(openTogether)
	for _, t := range n.o.Meta.Topics() {
		g.Go(func() error {
			err := n.Converge(t.Name)
			switch {
			case err == nil || errors.Is(err, errQuarantine):
			case n.life.failed.Load() != nil:
				return fmt.Errorf("topic %q: %w", t.Name, err)
			default:
				n.o.Logger.Error("cannot apply metadata to topic; retrying", "topic", t.Name, "error", err)
			}
			return nil
		})
	}
	return g.Wait()
}

// Propose proposes a change of the metadata and returns its result.
func (n *Host) Propose(ctx context.Context, c meta.Command) (meta.Result, error) {
	if n.life.exiting.Load() {
		return meta.Result{}, failure.ShuttingDown
	}
	return n.o.proposeObserved(ctx, c)
}

// proposeObserved proposes a change, even on a stopping node, and notifies the observer.
func (o *Options) proposeObserved(ctx context.Context, c meta.Command) (meta.Result, error) {
	began := time.Now()
	r, err := o.Meta.Propose(ctx, c)
	o.Observer.ObserveRaftCommit(time.Since(began))
	if err == nil {
		o.Observer.ObserveChange(c, r)
	}
	return r, err
}

func (n *Host) closeTopics(reason error) error {
	n.Converger.Stop()
	n.isr.close()
	var g errgroup.Group
	for _, h := range n.Topics.Hosted() {
		n.Topics.hosted.Delete(h.Name)
		n.Topics.byIncarnation.Delete(h.Incarnation)
		g.Go(func() error { return n.Converger.close(h, reason) })
	}
	err := g.Wait()
	n.Converger.parts.Close()
	return err
}

// Exit announces that the node is about to stop: from now on publishes and changes are refused
// with failure.ShuttingDown. Deliveries and answers continue until Close. It returns when the leaders of
// this node's replicas continue without it, or after a second; until then other nodes must be
// able to reach this one.
func (n *Host) Exit() {
	n.life.exiting.Store(true)
	n.leaveOnce.Do(n.leavers.leave)
}

// Exiting reports whether the node is about to stop.
func (n *Host) Exiting() bool { return n.life.exiting.Load() }
