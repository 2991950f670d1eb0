package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/certtest"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
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

// TestCertificateIsForOneNode: with any certificate of the cluster's CA, a stranger added voters until no
// majority was left, and moved members in their names.
func TestCertificateIsForOneNode(t *testing.T) {
	from := time.Unix(0, 0) // virtual time is in the past
	ca := certtest.Make(t, x509.Certificate{NotBefore: from}, nil)
	config := func(name string) func() *tls.Config {
		c := certtest.Make(t, x509.Certificate{DNSNames: []string{name}, NotBefore: from}, &ca)
		return func() *tls.Config {
			return &tls.Config{Certificates: []tls.Certificate{c}, RootCAs: certtest.Pool(ca), ClientCAs: certtest.Pool(ca)}
		}
	}
	configs := map[string]func() *tls.Config{"alice": config("alice")}
	for _, name := range []string{"a", "b", "c"} {
		configs[name] = config(name)
	}
	inWorld(t, []string{"a", "b", "c"}, 3, func(t *testing.T, w *world) {
		w.options = func(name string, o *Options) { o.ServerTLS, o.ClientTLS = configs[name], configs[name] }
		w.start("a", "b", "c")
		w.formed(3, 3)
		cluster := w.node("a").Store().View().Cluster().ID
		alice := strangerTo(w, "alice", "", func(o *peer.Options) { o.ServerTLS, o.ClientTLS = configs["alice"], configs["alice"] })
		defer alice.Close()
		before := w.node("a").Members()
		for _, tt := range []struct{ name, request, want string }{
			{"a ghost", `{"kind":"join","cluster":%q,"from":{"node":"ghost","address":"nowhere:1","session":42},"fresh":true,"levels":{"min":0,"max":1000}}`, "not-sender"},
			{"a ghost with state", `{"kind":"join","cluster":%q,"from":{"node":"ghost","address":"nowhere:1","session":42},"levels":{"min":0,"max":1000}}`, "not-sender"},
			{"a relayed ghost", `{"kind":"join","cluster":%q,"from":{"node":"ghost","address":"nowhere:1","session":42},"relayed":true,"fresh":true,"levels":{"min":0,"max":1000}}`, "not-sender"},
			{"a move", `{"kind":"join","cluster":%q,"from":{"node":"b","address":"nowhere:1","session":42},"levels":{"min":0,"max":1000}}`, "not-sender"},
			{"a vote", `{"kind":"join","cluster":%q,"from":{"node":"b","address":"b:1","session":42},"fresh":true,"levels":{"min":0,"max":1000}}`, "not-sender"},
		} {
			for _, address := range w.join {
				p := alice.Peer("", peer.ClassForm, address)
				out, err := p.Call(t.Context(), kindForm, [][]byte{fmt.Appendf(nil, tt.request, cluster)})
				p.Close()
				if err != nil || !strings.Contains(string(out), `"code":"`+tt.want+`"`) {
					t.Errorf("%s at %s: %s, %v", tt.name, address, out, err)
				}
			}
		}
		if after := w.node("a").Members(); !slices.Equal(after.Members, before.Members) {
			t.Errorf("members %+v", after)
		}
		// In her own name she may join, as the certificate says, but has no vote without a process that answers.
		p := alice.Peer("", peer.ClassForm, w.join[0])
		out, err := p.Call(t.Context(), kindForm, [][]byte{fmt.Appendf(nil,
			`{"kind":"join","cluster":%q,"from":{"node":"alice","address":"alice:1","session":42},"fresh":true,"levels":{"min":0,"max":1000}}`, cluster)})
		p.Close()
		if err != nil || !strings.Contains(string(out), `"granted":true`) {
			t.Errorf("%s, %v", out, err)
		}
		w.sleep(time.Minute)
		if c := w.node("a").Members(); len(c.Members) != 4 || len(c.Voters()) != 3 {
			t.Errorf("members %+v", c)
		}
	})
}

// TestCallsOfRemovedNodes: a connection may outlast the membership of its node.
func TestCallsOfRemovedNodes(t *testing.T) {
	inWorld(t, []string{"a", "b", "c"}, 3, func(t *testing.T, w *world) {
		w.start("a", "b", "c")
		w.formed(3, 3)
		call := func(to *Node, from meta.NodeID, kind uint8, payload string) error {
			done := make(chan error, 1)
			to.server.handle(from, 1, kind, []byte(payload), func(_ [][]byte, err error) { done <- err })
			return forward.FromRemote(<-done)
		}
		leader := w.leader().node
		for _, kind := range []uint8{kindCommand, kindStanding, kindRemove, kindTransfer} {
			if err := call(leader, "x", kind, "{}"); !errors.Is(err, failure.Removed) {
				t.Errorf("call %d: %v", kind, err)
			}
			if err := call(leader, leader.o.Self, kind, "{"); errors.Is(err, failure.Removed) {
				t.Errorf("call %d of a member: %v", kind, err)
			}
		}
		for _, name := range w.names() {
			if err := call(w.node(name), "x", firstOfForward, ""); !errors.Is(err, failure.UnknownNode) {
				t.Errorf("at %s, for a client: %v", name, err)
			}
			if err := call(w.node(name), "a", firstOfForward, ""); err != nil {
				t.Errorf("at %s, for a client of a member: %v", name, err)
			}
		}
	})
}
