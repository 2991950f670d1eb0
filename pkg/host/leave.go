package host

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

const (
	// leaveTimeout bounds how long a stopping node waits for the leaders of its replicas to
	// continue without it.
	leaveTimeout = time.Second
	// seeOffPause is how long a leader collects changes before it checks again which replicas
	// are in sync.
	seeOffPause = 5 * time.Millisecond
)

// askLeaving is the operation by which a stopping node asks the leaders of its replicas to remove
// it from their in-sync sets.
const askLeaving forward.Operation[leavingArgs, forward.Nothing] = "leaving"

// leavingArgs identify the stopping process.
type leavingArgs struct {
	Node        meta.NodeID `json:"node"`
	Incarnation uint64      `json:"incarnation"`
}

// leavers are the nodes that announced their stop. Leaders remove such a process from their in-sync
// sets before it is gone, so that no publish waits for it. A process started later is a different
// one.
type leavers struct {
	o        *Options
	log      *slog.Logger
	topics   *Topics
	converge func(topic string) error

	mu        sync.Mutex // guards announced
	announced map[meta.NodeID]uint64
}

func (l *leavers) add(id meta.NodeID, incarnation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.announced == nil {
		l.announced = map[meta.NodeID]uint64{}
	}
	l.announced[id] = max(l.announced[id], incarnation)
}

// has reports whether the current process of a node announced its stop.
func (l *leavers) has(n *meta.Node) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return n.Incarnation <= l.announced[n.ID]
}

// leave asks the leaders of this node's replicas to continue without it. It returns when they do,
// or after leaveTimeout; then they notice on their own.
func (l *leavers) leave() {
	self := l.o.Meta.Node(l.o.Self)
	if l.o.Calls.Remote == nil || self == nil {
		return
	}
	leaders := map[meta.NodeID]bool{}
	for _, h := range l.topics.Hosted() {
		t := h.Config()
		for _, hp := range h.AllHeld() {
			if hp != nil && hp.Led.Load() == nil && hp.index < len(t.Partitions) {
				leaders[t.Partitions[hp.index].Leader] = true
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	var g errgroup.Group
	for id := range leaders {
		if x := l.o.Meta.Node(id); x == nil || x.State == meta.NodeDown || id == l.o.Self {
			continue
		}
		g.Go(func() error {
			_, err := askLeaving.Ask(ctx, l.o.Calls, id, leavingArgs{self.ID, self.Incarnation})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		l.log.Info("some leaders have not confirmed that they continue without this node; their publishes wait until they notice its stop", "error", err)
	}
}

// seeOff removes a stopping node from the in-sync sets of the partitions led here, and returns when
// that is applied.
func (l *leavers) seeOff(ctx context.Context, a leavingArgs) (none forward.Nothing, err error) {
	l.add(a.Node, a.Incarnation)
	var g errgroup.Group
	g.SetLimit(openTogether)
	for _, t := range l.o.Meta.Topics() {
		if leadsWith(t, l.o.Self, a.Node) {
			g.Go(func() error { return l.converge(t.Name) }) // its terms learn of it
		}
	}
	if err := g.Wait(); err != nil {
		return none, err
	}
	for {
		changed := l.o.Meta.Changed()
		if !slices.ContainsFunc(l.o.Meta.Topics(), func(t *meta.Topic) bool { return leadsWith(t, l.o.Self, a.Node) }) {
			return none, nil
		}
		select {
		case <-changed:
			beat.Pause(ctx, seeOffPause) // more changes follow
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
}

// leadsWith reports whether leader leads a partition of the topic in which another node is in sync.
func leadsWith(t *meta.Topic, leader, other meta.NodeID) bool {
	return slices.ContainsFunc(t.Partitions, func(p meta.Partition) bool {
		return p.Leader == leader && slices.Contains(p.ISR, other)
	})
}
