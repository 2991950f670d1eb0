package brokertest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/brokerd/brokerd/internal/node"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Start runs a single-node broker until the test ends, and returns when it serves. Topics and
// channels are created on first use.
func Start(t testing.TB, with ...Option) *Node {
	t.Helper()
	return run(t, 1, with)[0]
}

// Cluster runs a broker with several nodes until the test ends, and returns when all serve. By
// default topics have as many replicas as there are nodes, up to three.
func Cluster(t testing.TB, nodes int, with ...Option) Nodes {
	t.Helper()
	if nodes < 1 {
		t.Fatalf("brokertest: a cluster of %d nodes", nodes)
	}
	return run(t, nodes, with)
}

func run(t testing.TB, count int, with []Option) Nodes {
	t.Helper()
	o := optionsOf(with)
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	nodes, bound, err := place(ctx, t, count, o)
	if err != nil {
		t.Fatalf("brokertest: %v", err)
	}
	t.Cleanup(func() { stopAll(nodes) })
	errs := make([]error, count)
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { n.life, errs[i] = n.openAt(ctx, bound[i]) })
	}
	wg.Wait()
	for i, n := range nodes {
		if errs[i] == nil {
			errs[i] = n.life.untilReady(ctx)
		}
		if errs[i] != nil {
			t.Fatalf("brokertest: start node %s: %v", n.id, errs[i])
		}
	}
	if err := nodes[0].life.untilAllVote(ctx, count); err != nil {
		t.Fatalf("brokertest: the nodes have no votes: %v", err)
	}
	return nodes
}

// place gives each node its listeners and the addresses of the others.
func place(ctx context.Context, t testing.TB, count int, o options) (Nodes, []*node.Listeners, error) {
	var nodes Nodes
	var bound []*node.Listeners
	var join []string
	for i := range count {
		ls, at, err := bindAny(ctx)
		if err != nil {
			for _, b := range bound {
				b.Close()
			}
			return nil, nil, err
		}
		n := &Node{t: t, o: o, id: fmt.Sprintf("n%d", i+1), disk: vfs.OS{}, listen: at}
		if o.memory {
			n.disk = vfs.NewMem()
		}
		nodes, bound, join = append(nodes, n), append(bound, ls), append(join, at.Cluster)
	}
	if count > 1 {
		for _, n := range nodes {
			n.join = join
		}
	}
	return nodes, bound, nil
}

// stopAll ends what runs at the end of a test. All at once: the last ones of a cluster have
// no node to transfer leaderships to.
func stopAll(nodes Nodes) {
	var wg sync.WaitGroup
	for _, n := range nodes {
		if n.life != nil {
			wg.Go(n.Kill)
		}
	}
	wg.Wait()
}
