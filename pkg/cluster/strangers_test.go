package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/peer"
)

// strangerTo returns a transport of a node outside the cluster.
func strangerTo(w *world, name, cluster string, change func(*peer.Options)) *peer.Transport {
	w.t.Helper()
	o := peer.Options{
		Self: peer.Node(name), Incarnation: 1, Build: "test", Network: w.net, LocalAddr: name,
		ClusterID: func() string { return cluster },
	}
	if change != nil {
		change(&o)
	}
	s, err := peer.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// refusedFor returns the reason for which a stranger's connection of a class is refused;
// ReasonNone: it is accepted.
func refusedFor(w *world, s *peer.Transport, class peer.Class, address string) peer.Reason {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	var err error
	if class == peer.ClassRaft {
		c, dialed := s.DialRaft(ctx, "", address, 0)
		if err = dialed; err == nil {
			_ = c.Close()
		}
	} else {
		p := s.Peer("", class, address)
		_, err = p.Call(ctx, kindHere, nil)
		p.Close()
	}
	if refused, ok := errors.AsType[*peer.RefusedError](err); ok {
		return refused.Reason
	}
	if _, ok := errors.AsType[*peer.RemoteError](err); err != nil && !ok {
		w.t.Fatalf("class %s: %v", class, err)
	}
	return peer.ReasonNone
}

func TestStrangersAreRefused(t *testing.T) {
	inWorld(t, []string{"a", "b", "c"}, 3, func(t *testing.T, w *world) {
		w.start("a", "b", "c")
		w.formed(3, 3)
		cluster := w.node("a").Store().View().Cluster().ID
		for _, tt := range []struct {
			name, cluster string
			want          peer.Reason
		}{
			{"x", "", peer.ReasonWrongCluster},
			{"a-member", "", peer.ReasonWrongCluster},
			{"x", cluster, peer.ReasonUnknownNode},
			{"x", "another", peer.ReasonWrongCluster},
		} {
			s := strangerTo(w, tt.name, tt.cluster, nil)
			for _, address := range w.join {
				for _, class := range []peer.Class{peer.ClassRaft, peer.ClassReplication, peer.ClassForward} {
					if got := refusedFor(w, s, class, address); got != tt.want {
						t.Errorf("%s of cluster %q, class %s at %s: %s, want %s", tt.name, tt.cluster, class, address, got, tt.want)
					}
				}
			}
			if _, err := s.Ping(t.Context(), w.join[0]); err != nil {
				t.Errorf("a ping: %v", err)
			}
			_ = s.Close()
		}
	})
}

func TestNodeWithoutLeaderAcceptsItsCluster(t *testing.T) {
	inWorld(t, []string{"a", "b", "c"}, 3, func(t *testing.T, w *world) {
		w.start("a", "b", "c")
		w.formed(3, 3)
		cluster := w.node("a").Store().View().Cluster().ID
		w.kill("b")
		w.kill("c")
		w.await("a knows no leader", func() bool {
			_, known := w.node("a").Store().Leader()
			return !known
		})
		// All current members may have joined while it was away.
		today, old := strangerTo(w, "x", cluster, nil), strangerTo(w, "x", "", nil)
		if got := refusedFor(w, today, peer.ClassRaft, addressOf("a")); got != peer.ReasonNone {
			t.Errorf("one of its cluster: %s", got)
		}
		if got := refusedFor(w, old, peer.ClassRaft, addressOf("a")); got != peer.ReasonWrongCluster {
			t.Errorf("one of none: %s", got)
		}
		_ = today.Close()
		_ = old.Close()
	})
}

func TestNodesFormAndGrowWithASecret(t *testing.T) {
	inWorld(t, []string{"a", "b", "c"}, 3, func(t *testing.T, w *world) {
		w.options = func(name string, o *Options) {
			o.Secrets = func() [][]byte { return [][]byte{[]byte("0123456789abcdef")} }
		}
		w.start("a", "b", "c")
		w.formed(3, 3)
		w.start("d")
		w.formed(4, 4)
		cluster := w.node("a").Store().View().Cluster().ID
		s := strangerTo(w, "b", cluster, nil) // a member's name, without the secret
		for _, class := range []peer.Class{peer.ClassRaft, peer.ClassReplication, peer.ClassForward, peer.ClassForm} {
			if got := refusedFor(w, s, class, addressOf("a")); got != peer.ReasonSecret {
				t.Errorf("class %s: %s", class, got)
			}
		}
		_ = s.Close()
	})
}
