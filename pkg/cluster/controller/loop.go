package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// ErrRefusedConnection is returned by Cluster.Probe, possibly wrapped, if the connection was
// refused.
var ErrRefusedConnection = errors.New("connection refused")

// Cluster is what a Loop acts on. Its methods are called from several goroutines.
type Cluster interface {
	// State returns the metadata as applied on this node. It must not be changed.
	State() *meta.State
	// Propose commits and applies a command, or returns an error within a bounded time. In any
	// case the controller reads the metadata again.
	Propose(ctx context.Context, c meta.Command) (meta.Result, error)
	// Probe asks a node for the incarnation with which it runs, 0 if it has none. It ends when ctx
	// does.
	Probe(ctx context.Context, n *meta.Node) (incarnation uint64, err error)
	// Skews returns how far the wall clocks of nodes are ahead of those of most nodes, as far as it is known.
	Skews() map[meta.NodeID]time.Duration
	// Voters returns the voters of the metadata as known on this node.
	Voters() []meta.NodeID
	// Observe is called with each decision that is carried out, and with each whose troubles
	// changed. It must not block.
	Observe(d Decision)
	// Isolated is called with each decision while Decision.Isolated is set. It must not block.
	Isolated()
}

// Loop runs a controller while its node leads the metadata. It makes no decisions.
type Loop struct {
	Options Options
	Self    meta.NodeID
	Former  Former
	Cluster Cluster
	// Trash, if not nil, decides when deleted topics are purged: one for all controllers of a process,
	// which use it one after another. A new one has seen no deletion.
	Trash *Expiry
	// Clock returns the time at a moment, in ns since 1970, by which data counts as old; nil: the system's.
	Clock func(now time.Time) int64
	// Changed, if not nil, signals metadata changes. A buffer of one is enough.
	Changed <-chan struct{}
	// Suspects, if not nil, delivers nodes to probe now, because a connection broke or was
	// refused. That alone is no evidence.
	Suspects <-chan meta.NodeID
}

// answer is the outcome of a probe.
type answer struct {
	node        meta.NodeID
	incarnation uint64
	err         error
}

// Run decides and proposes until ctx ends, and returns its cause. When it returns, everything
// it started has stopped. Each call begins as a new controller that knows only its Former.
func (l *Loop) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	o := l.Options.WithDefaults()
	core := newCore(o, l.Self, time.Now())
	core.Succeed(l.Former)
	core.voters, core.skews = l.Cluster.Voters, l.Cluster.Skews
	if l.Clock != nil {
		core.wall = l.Clock
	}
	if l.Trash != nil {
		core.trash = l.Trash
	}
	answers := make(chan answer)
	proposed := make(chan struct{})
	asked := map[meta.NodeID]bool{}
	var troubles []Trouble
	busy, timer := false, time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case a := <-answers:
			delete(asked, a.node)
			core.observe(a, time.Now())
		case <-proposed:
			busy = false
		case id := <-l.Suspects:
			core.Suspect(id)
		case <-l.Changed:
		case <-timer.C:
		}
		state := l.Cluster.State()
		d := core.Decide(state, time.Now())
		timer.Reset(time.Until(d.Next))
		for _, id := range d.Probe {
			if n := state.Node(id); !asked[id] {
				asked[id] = true
				running.Go(func() { l.probe(ctx, n, o.SessionTimeout, answers) })
			}
		}
		if d.Isolated {
			l.Cluster.Isolated()
		}
		act := len(d.Commands) > 0 && !busy
		if act || !slices.EqualFunc(d.Troubles, troubles, Trouble.same) {
			l.Cluster.Observe(d)
			troubles = d.Troubles
		}
		if act {
			busy = true
			running.Go(func() { l.propose(ctx, d.Commands, proposed) })
		}
	}
}

// observe reports the outcome of a probe to the detector. A probe without an answer or a refusal
// is silence, which the detector notices without help.
func (c *core) observe(a answer, now time.Time) {
	switch {
	case a.err == nil:
		c.Heard(a.node, a.incarnation, now)
	case errors.Is(a.err, ErrRefusedConnection):
		c.Refused(a.node, now)
	}
}

func (l *Loop) probe(ctx context.Context, n *meta.Node, timeout time.Duration, answers chan<- answer) {
	probe, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	incarnation, err := l.Cluster.Probe(probe, n)
	select {
	case answers <- answer{n.ID, incarnation, err}:
	case <-ctx.Done():
	}
}

// propose proposes the commands one at a time. Their outcomes show in the metadata.
func (l *Loop) propose(ctx context.Context, commands []meta.Command, done chan<- struct{}) {
	for _, c := range commands {
		if _, err := l.Cluster.Propose(ctx, c); err != nil && ctx.Err() != nil {
			break
		}
	}
	select {
	case done <- struct{}{}:
	case <-ctx.Done():
	}
}
