package cluster

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/peertest"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

// TestControllerWhoseLargePacketsAreLostYields: the large messages of the metadata leader block its
// connections, and its heartbeats pass. The others do not count as dead, keep their partitions, and one
// of them becomes the controller.
func TestControllerWhoseLargePacketsAreLostYields(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		w.topic("t", []meta.NodeID{"n1", "n2", "n3"}, []meta.NodeID{"n2", "n3", "n1"}, []meta.NodeID{"n3", "n1", "n2"})
		w.sleep(yieldFirst + time.Second)
		former := w.leader().name
		for _, other := range three {
			if other == former {
				continue
			}
			w.net.SetLink(former, other, peertest.Link{Largest: 1200})
			go func() {
				for range 100 {
					w.node(former).Go(meta.NodeID(other), forward.KindPublish, [][]byte{make([]byte, 8<<10)}, func([]byte, error) {})
					w.sleep(100 * time.Millisecond)
				}
			}()
		}
		took := w.await("another controller", func() bool { l := w.leader(); return l != nil && l.name != former })
		if took > 3*time.Second {
			t.Errorf("another node is the controller after %v", took)
		}
		for range 100 {
			for _, name := range three {
				for i, leader := range three {
					if p := w.partition(name, "t", i); p.Leader != meta.NodeID(leader) {
						t.Fatalf("%s leads partition %d, want %s", p.Leader, i, leader)
					}
				}
				for _, n := range w.node(name).Store().Nodes() {
					if n.State != meta.NodeUp {
						t.Fatalf("%s is %s", n.ID, n.State)
					}
				}
			}
			w.sleep(100 * time.Millisecond)
		}
		for _, other := range three {
			w.net.SetLink(former, other, peertest.Link{})
		}
		w.formed(3, 3)
	})
}
