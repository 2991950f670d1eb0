package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// ErrRefusedConnection is what Cluster.Probe returns, wrapped or not, where the
// node's machine answered that nobody listens.
var ErrRefusedConnection = errors.New("connection refused")

// Cluster is what a Loop acts on. Its methods are called from several goroutines.
type Cluster interface {
	// State returns the metadata as applied here; nobody changes it.
	State() *meta.State
	// Propose has a command agreed on and applied, or says why not, within a time
	// that it bounds. Whatever it says, the controller looks at the metadata again.
	Propose(ctx context.Context, c meta.Command) (meta.Result, error)
	// Probe asks a node whether it is there, and returns the incarnation that it
	// runs as, 0 while it has none. It ends when ctx does.
	Probe(ctx context.Context, n *meta.Node) (incarnation uint64, err error)
	// Observe is told of each decision that is carried out, and of each that has
	// other troubles than the one before. It must not block.
	Observe(d Decision)
}

// Loop runs a controller for as long as its node leads the metadata. It decides
// nothing itself.
type Loop struct {
	Options Options
	Self    meta.NodeID
	Former  Former
	Cluster Cluster
	// Changed, if not nil, brings a value after the metadata has changed. One
	// that is not taken need not be repeated: a buffer of one is enough.
	Changed <-chan struct{}
	// Suspects, if not nil, brings nodes that there is reason to probe now: a
	// connection to one broke, or was refused. It is no evidence by itself.
	Suspects <-chan meta.NodeID
}

// answer is what became of a probe.
type answer struct {
	node        meta.NodeID
	incarnation uint64
	err         error
}

// Run decides and proposes until ctx ends, and returns the cause of that. When it
// returns, nothing it started is running any more. Each call begins as a new
// controller, which knows of nothing but its Former.
func (l *Loop) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	o := l.Options.WithDefaults()
	core := New(o, l.Self, time.Now())
	core.Succeed(l.Former)
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

// observe tells the detector what became of a probe. One that brought neither an
// answer nor a refusal is silence, and silence tells by itself.
func (c *Core) observe(a answer, now time.Time) {
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

// propose brings the commands forward one at a time. What becomes of each
// shows in the metadata.
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
