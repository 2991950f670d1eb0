package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/peertest"
)

func TestConnectionRules(t *testing.T) {
	self := identity{node: "b", incarnation: 2, cluster: "c1"}
	base := Hello{MinVersion: 1, MaxVersion: 1, Class: ClassForward, Incarnation: 1, ClusterID: "c1", Node: "a", To: "b"}
	for _, tt := range []struct {
		name   string
		change func(*Hello)
		want   Reason
	}{
		{"a member", func(*Hello) {}, ReasonNone},
		{"a later version that speaks ours", func(h *Hello) { h.MaxVersion = 9 }, ReasonNone},
		{"a later version", func(h *Hello) { h.MinVersion, h.MaxVersion = 2, 9 }, ReasonVersion},
		{"an earlier version", func(h *Hello) { h.MinVersion, h.MaxVersion = 0, 0 }, ReasonVersion},
		{"itself", func(h *Hello) { h.Node, h.Incarnation, h.To = "b", 2, "a" }, ReasonSelf},
		{"another of its name", func(h *Hello) { h.Node = "b" }, ReasonNameTaken},
		{"who wants another", func(h *Hello) { h.To = "c" }, ReasonWrongNode},
		{"who wants anybody", func(h *Hello) { h.To = "" }, ReasonNone},
		{"another cluster", func(h *Hello) { h.ClusterID = "c2" }, ReasonWrongCluster},
		{"a caller of no cluster", func(h *Hello) { h.ClusterID = "" }, ReasonWrongCluster},
		{"a voter of no cluster", func(h *Hello) { h.ClusterID, h.Class = "", ClassRaft }, ReasonWrongCluster},
		{"a leader of no cluster", func(h *Hello) { h.ClusterID, h.Class = "", ClassReplication }, ReasonWrongCluster},
		{"who wants to join", func(h *Hello) { h.ClusterID, h.Class = "", ClassForm }, ReasonNone},
		{"who wants to join another cluster", func(h *Hello) { h.ClusterID, h.Class = "c2", ClassForm }, ReasonWrongCluster},
		{"a ping of another cluster", func(h *Hello) { h.ClusterID, h.Class = "c2", ClassPing }, ReasonNone},
		{"a ping of another version", func(h *Hello) { h.MinVersion, h.MaxVersion, h.Class = 2, 2, ClassPing }, ReasonVersion},
	} {
		h := base
		tt.change(&h)
		got := ReasonNone
		if r := judgeDialer(self, &h, nil); r != nil {
			got = r.Reason
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestAnswersFromWrongNodesAreIgnored(t *testing.T) {
	sent := Hello{MinVersion: 1, MaxVersion: 1, Class: ClassForward, ClusterID: "c1", Node: "a", To: "b"}
	for _, tt := range []struct {
		name   string
		answer Hello
		want   Reason
	}{
		{"the node", Hello{MinVersion: 1, MaxVersion: 2, Node: "b", ClusterID: "c1"}, ReasonNone},
		{"the node, forming", Hello{MinVersion: 1, MaxVersion: 2, Node: "b"}, ReasonNone},
		{"another node", Hello{MinVersion: 1, MaxVersion: 1, Node: "c", ClusterID: "c1"}, ReasonWrongNode},
		{"another cluster", Hello{MinVersion: 1, MaxVersion: 1, Node: "b", ClusterID: "c2"}, ReasonWrongCluster},
		{"another version", Hello{MinVersion: 2, MaxVersion: 2, Node: "b", ClusterID: "c1"}, ReasonVersion},
	} {
		got := ReasonNone
		if r := judgeAnswer(&sent, &tt.answer, nil); r != nil {
			got = r.Reason
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestRefusalReachesTheDialer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(o *Options) // of the dialer
		class  Class
		admit  Reason
		to     Node
		want   Reason
	}{
		{"wrong cluster", func(o *Options) { o.ClusterID = func() string { return "c2" } }, ClassForward, ReasonNone, "b", ReasonWrongCluster},
		{"unknown node", func(*Options) {}, ClassForward, ReasonUnknownNode, "b", ReasonUnknownNode},
		{"shutting down", func(*Options) {}, ClassForward, ReasonShuttingDown, "b", ReasonShuttingDown},
		{"wrong node", func(*Options) {}, ClassForward, ReasonNone, "c", ReasonWrongNode},
		{"name taken", func(o *Options) { o.Self = "b" }, ClassForward, ReasonNone, "b", ReasonNameTaken},
		{"class", func(*Options) {}, ClassReplication, ReasonNone, "b", ReasonClass},
		{"unknown class", func(*Options) {}, 'x', ReasonNone, "b", ReasonClass},
		{"raft without a listener", func(*Options) {}, ClassRaft, ReasonNone, "b", ReasonClass},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := peertest.NewNetwork()
				var here, there events
				bo, ao := memOptions(n, "b"), memOptions(n, "a")
				delete(bo.Handlers, ClassReplication)
				bo.OnEvent, ao.OnEvent = there.add, here.add
				bo.Admit = func(*Hello) Reason { return tt.admit }
				b, addr := node(t, bo, "b:1")
				tt.change(&ao)
				a, _ := node(t, ao, "a:1")
				_, err := a.Peer(tt.to, tt.class, addr).Call(t.Context(), 1, nil)
				if r := refusal(t, err); r.Reason != tt.want || r.Local {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				synctest.Wait()
				if len(here.of(EventRejected)) != 1 || len(there.of(EventRejected)) != 1 || len(there.of(EventUp)) != 0 {
					t.Errorf("told %v here and %v there", here.all, there.all)
				}
				a.Close()
				b.Close()
			})
		})
	}
}

func TestConnectionToItselfIsRefused(t *testing.T) {
	a, addr := node(t, memOptions(peertest.NewNetwork(), "a"), "a:1")
	_, err := a.Ping(t.Context(), addr)
	if r := refusal(t, err); r.Reason != ReasonSelf {
		t.Errorf("got %v", err)
	}
}

func TestPingReportsIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "b")
		o.ClusterID, o.Admit = nil, func(*Hello) Reason { return ReasonUnknownNode }
		b, addr := node(t, o, "b:1")
		a, _ := node(t, memOptions(n, "a"), "a:1")
		n.SetLink("a", "b", peertest.Link{Delay: 3 * time.Millisecond})
		n.SetLink("b", "a", peertest.Link{Delay: 4 * time.Millisecond})
		began := time.Now()
		got, err := a.Ping(t.Context(), addr)
		if err != nil || got.Node != "b" || got.Build != "test" || got.Incarnation != o.Incarnation || got.MinVersion != 1 || got.MaxVersion != 1 {
			t.Errorf("got %+v, %v", got, err)
		}
		if took := time.Since(began); took != 14*time.Millisecond {
			t.Errorf("took %v, want a round trip to connect and one to introduce", took)
		}
		n.SetLink("a", "b", peertest.Link{Cut: true})
		began = time.Now()
		if _, err = a.Ping(t.Context(), addr); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != DefaultDialTimeout {
			t.Errorf("over a cut: %v after %s", err, time.Since(began))
		}
		b.Close()
		a.Close()
		if _, err = a.Ping(t.Context(), addr); !errors.Is(err, errClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestStrangersAreRefused(t *testing.T) {
	for name, said := range map[string]string{
		"HTTP":    "GET / HTTP/1.1\r\nHost: b\r\n\r\n",
		"nothing": "",
		"half":    "BRKD",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := peertest.NewNetwork()
				var told events
				o := memOptions(n, "b")
				o.OnEvent = told.add
				b, addr := node(t, o, "b:1")
				conn := pipeTo(t, n, "x", addr)
				io.WriteString(conn, said)
				began := time.Now()
				if got, err := io.ReadAll(conn); len(got) != 0 || err != nil {
					t.Errorf("read %q, %v", got, err)
				}
				if d := time.Since(began); d > DefaultHandshakeTimeout {
					t.Errorf("sent away after %s", d)
				}
				synctest.Wait()
				if len(told.of(EventBadHello)) != 1 {
					t.Errorf("told %v", told.all)
				}
				b.Close()
			})
		})
	}
}

func TestSilentAcceptorTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		a, _ := node(t, memOptions(n, "a"), "a:1")
		l, err := n.Listen("b:1")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		began := time.Now()
		_, err = a.Peer("b", ClassForward, "b:1").Call(t.Context(), 1, nil)
		if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() || time.Since(began) != DefaultHandshakeTimeout {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		a.Close()
	})
}

func TestRaftGetsRawConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "b")
		o.Advertise = "b.example:1"
		b, addr := node(t, o, "b:1")
		l := b.RaftListener()
		if l.Addr().String() != "b.example:1" || l.Addr().Network() != "tcp" {
			t.Errorf("listens at %s", l.Addr())
		}
		a, _ := node(t, memOptions(n, "a"), "a:1")
		ours, err := a.DialRaft(t.Context(), "", addr, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		b.Close() // it is Raft's now
		io.WriteString(ours, "votes")
		ours.Close()
		if got, err := io.ReadAll(theirs); string(got) != "votes" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		theirs.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		a.Close()
	})
}

func TestRaftConnectionsThatAreNotAcceptedAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		b, addr := node(t, memOptions(n, "b"), "b:1")
		l := b.RaftListener()
		a, _ := node(t, memOptions(n, "a"), "a:1")
		conn, err := a.DialRaft(t.Context(), "", addr, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); len(got) != 0 || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		l.Close()
		if _, err := a.DialRaft(t.Context(), "", addr, 0); refusal(t, err).Reason != ReasonClass {
			t.Errorf("after Close: %v", err)
		}
		conn.Close()
		a.Close()
		b.Close()
	})
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"no name":       {},
		"name":          {Self: "a b"},
		"long name":     {Self: Node(strings.Repeat("a", 256))},
		"build":         {Self: "a", Build: "\n"},
		"raft calls":    {Self: "a", Handlers: map[Class]Handler{ClassRaft: echo}},
		"half TLS":      {Self: "a", ServerTLS: authority(t).config("a")},
		"frames":        {Self: "a", MaxFrame: 1 << 31},
		"dead at once":  {Self: "a", DeadAfter: DefaultKeepAlive},
		"negative":      {Self: "a", KeepAlive: -1},
		"backoff":       {Self: "a", BackoffMax: 1},
		"negative size": {Self: "a", MaxFrame: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
