package cluster

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// real is a cluster over TCP and on disk, in real time.
type real struct {
	b     *testing.B
	dir   string
	join  []string
	nodes map[string]*Node
}

func newReal(b *testing.B, names ...string) *real {
	b.Helper()
	r := &real{b: b, dir: b.TempDir(), nodes: map[string]*Node{}}
	var listeners []net.Listener
	for range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		listeners = append(listeners, l)
		r.join = append(r.join, l.Addr().String())
	}
	type opened struct {
		name string
		node *Node
		err  error
	}
	all := make(chan opened)
	for i, name := range names {
		go func() {
			n, err := r.open(name, listeners[i])
			all <- opened{name, n, err}
		}()
	}
	for range names {
		o := <-all
		if o.err != nil {
			b.Fatal(o.err)
		}
		r.nodes[o.name] = o.node
	}
	b.Cleanup(func() {
		for _, n := range r.nodes {
			n.Close()
		}
	})
	return r
}

func (r *real) open(name string, l net.Listener) (*Node, error) {
	n, err := Open(context.Background(), Options{
		Self: meta.NodeID(name), DataDir: filepath.Join(r.dir, name), Address: l.Addr().String(), Listeners: []net.Listener{l},
		Join: r.join, Expect: len(r.join), Store: func(o *raftstore.Options) { o.ReserveBytes = -1 },
	})
	if err == nil {
		n.Serve(Handlers{})
	}
	return n, err
}

// await waits until a node's metadata satisfies a condition.
func (r *real) await(n *Node, ok func(*meta.State) bool) {
	r.b.Helper()
	late := time.After(30 * time.Second)
	for {
		changed := n.Store().Changed()
		if ok(n.Store().View()) {
			return
		}
		select {
		case <-changed:
		case <-late:
			r.b.Fatal("too late")
		}
	}
}

// leader waits for a node that leads the metadata.
func (r *real) leader() (name string) {
	for {
		for name, n := range r.nodes {
			moved := n.Store().LeaderChanged()
			if n.Store().IsLeader() && n.Store().VerifyLeader(context.Background()) == nil {
				return name
			}
			select {
			case <-moved:
			case <-time.After(time.Millisecond):
			}
		}
	}
}

func BenchmarkCommandOfAFollower(b *testing.B) {
	r := newReal(b, "n1", "n2", "n3")
	lead := r.leader()
	for name, n := range r.nodes {
		if name == lead {
			continue
		}
		i := 0
		for b.Loop() {
			i++
			if _, err := n.Store().Propose(context.Background(), meta.SetSettings{Values: map[string]string{meta.SettingTopicPartitions: fmt.Sprint(1 + i%2)}}); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
}

// BenchmarkDeathOfTheController measures the time from the death of the controller, which leads a
// partition, until another node knows that it leads it.
func BenchmarkDeathOfTheController(b *testing.B) {
	r := newReal(b, "n1", "n2", "n3")
	c := meta.TopicConfig{Partitions: 3, Replicas: 3}.WithDefaults(3, false)
	if _, err := r.nodes["n1"].Store().Propose(context.Background(), meta.CreateTopic{Name: "t", Config: c, Assignment: [][]meta.NodeID{{"n1", "n2", "n3"}, {"n2", "n3", "n1"}, {"n3", "n1", "n2"}}}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		dead := r.leader()
		n := r.nodes[dead]
		partition := -1
		for i, p := range n.Store().Topic("t").Partitions {
			if string(p.Leader) == dead {
				partition = i
			}
		}
		if partition < 0 {
			if err := n.TransferController(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			continue
		}
		address := n.o.Address
		delete(r.nodes, dead)
		b.StartTimer()
		n.Close()
		for _, left := range r.nodes {
			r.await(left, func(s *meta.State) bool {
				l := s.Topic("t").Partitions[partition].Leader
				return l != "" && string(l) != dead
			})
		}
		b.StopTimer()
		l, err := net.Listen("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		if r.nodes[dead], err = r.open(dead, l); err != nil {
			b.Fatal(err)
		}
		r.await(r.nodes[dead], func(s *meta.State) bool {
			return s.Node(meta.NodeID(dead)).State == meta.NodeUp
		})
		b.StartTimer()
	}
}
