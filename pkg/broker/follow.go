package broker

import (
	"context"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// followAgain is how long after a replica could not be made as the metadata says
// it is tried again, and after how long leaderships that came and went are summed up
// in the log.
const followAgain = time.Second

// follower makes what a node holds follow the metadata. It waits for no topic and no
// partition.
type follower struct {
	n     *hosting
	nodes []*meta.Node           // as of the last round
	seen  map[string]*meta.Topic // likewise
}

// run works until ctx ends.
func (f *follower) run(ctx context.Context) {
	again := time.NewTimer(followAgain)
	defer again.Stop()
	for ctx.Err() == nil {
		changed := f.n.o.Meta.Changed() // before reading: no change is missed
		if f.round() || len(f.n.roles.topics()) > 0 {
			again.Reset(followAgain)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-again.C:
			for _, name := range f.n.roles.topics() {
				f.n.topics.ask(name)
			}
		}
		f.n.shifts.sumUp(f.n.log)
	}
}

// round asks for work on what changed since the last one, and returns whether there
// was anything.
func (f *follower) round() (asked bool) {
	s := f.n.o.Meta.View()
	nodes := slices.Collect(s.Nodes())
	moved := !slices.Equal(nodes, f.nodes)
	seen := make(map[string]*meta.Topic, len(f.seen))
	for t := range s.Topics() {
		seen[t.Name] = t
		if moved || f.seen[t.Name] != t {
			f.n.topics.ask(t.Name)
			asked = true
		}
	}
	f.n.hosted.Range(func(name, _ any) bool {
		if name := name.(string); seen[name] == nil {
			f.n.topics.ask(name)
			asked = true
		}
		return true
	})
	f.nodes, f.seen = nodes, seen
	return asked
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
