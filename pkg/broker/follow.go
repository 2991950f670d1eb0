package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/pkg/meta"
)

// followAgain is how long after a topic could not be made as the metadata says
// it is tried again.
const followAgain = time.Second

// follower makes what a node holds follow the metadata.
type follower struct {
	n       *hosting
	nodes   []*meta.Node     // as of the last round
	failing map[string]error // topics of which something could not be done, and what
}

// run works until ctx ends.
func (f *follower) run(ctx context.Context) {
	again := time.NewTimer(followAgain)
	defer again.Stop()
	for ctx.Err() == nil {
		changed := f.n.o.Meta.Changed() // before reading: no change is missed
		f.round()
		again.Stop()
		if len(f.failing) > 0 {
			again.Reset(followAgain)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-again.C:
		}
	}
}

// round converges on what changed since the last one, several topics at a time.
func (f *follower) round() {
	s := f.n.o.Meta.View()
	nodes := slices.Collect(s.Nodes())
	moved := !slices.Equal(nodes, f.nodes)
	f.nodes = nodes

	var g errgroup.Group
	g.SetLimit(openTogether)
	var mu sync.Mutex // guards failed
	failed := map[string]error{}
	converge := func(name string) {
		g.Go(func() error {
			if err := f.n.converge(name); err != nil && !errors.Is(err, ErrExiting) {
				mu.Lock()
				defer mu.Unlock()
				failed[name] = err
			}
			return nil
		})
	}
	for t := range s.Topics() {
		if h := f.n.lookup(t.Name); moved || h == nil || h.adopted.Load() != t {
			converge(t.Name)
		}
	}
	f.n.hosted.Range(func(name, _ any) bool {
		if name := name.(string); s.Topic(name) == nil {
			converge(name)
		}
		return true
	})
	_ = g.Wait()
	f.report(failed)
	f.n.shifts.sumUp(f.n.log)
}

// report says what fails when it begins and when it ends.
func (f *follower) report(failed map[string]error) {
	for name, err := range failed {
		if f.failing[name] == nil {
			f.n.log.Error("a topic is not as the metadata says", "topic", name, "error", err)
		}
	}
	for name := range f.failing {
		if failed[name] == nil {
			f.n.log.Info("a topic is as the metadata says again", "topic", name)
		}
	}
	f.failing = failed
}

// waitApplied returns once the metadata here is at an index.
func (n *shelf) waitApplied(ctx context.Context, index uint64) error {
	for {
		changed := n.o.Meta.Changed()
		if n.o.Meta.Applied() >= index {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
