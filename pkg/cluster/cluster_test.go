package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/logtest"
	"github.com/brokerd/brokerd/internal/peertest"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

var three = []string{"n1", "n2", "n3"}

func TestThreeNodesFormRestartAndPropose(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		id := w.node("n1").Store().View().Cluster().ID
		for _, name := range three { // through any node
			r, err := w.node(name).Store().Propose(t.Context(), meta.SetSettings{Values: map[string]string{meta.SettingAutoCreateTopics: "false"}})
			if err != nil || r.Index == 0 {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
		for _, name := range three { // one at a time
			if err := w.kill(name); err != nil {
				t.Fatal(err)
			}
			w.start(name)
			w.formed(3, 3)
		}
		for _, name := range three { // all at once
			if err := w.kill(name); err != nil {
				t.Fatal(err)
			}
		}
		w.start(three...)
		w.formed(3, 3)
		v := w.node("n3").Store().View()
		if v.Cluster().ID != id || v.Node("n2").Incarnation != 3 {
			t.Errorf("cluster %s became %s, n2 is %+v", id, v.Cluster().ID, v.Node("n2"))
		}
	})
}

func TestLoneNodeFormsClusterAndGrows(t *testing.T) {
	inWorld(t, nil, 1, func(t *testing.T, w *world) {
		began := time.Now()
		w.start("n1")
		w.node("n1")
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("opened after %v", took)
		}
		w.formed(1, 1)
		if err := w.kill("n1"); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		w.start("n1")
		w.node("n1")
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("opened again after %v", took)
		}
		w.join = []string{addressOf("n1")}
		for i := 2; i <= 4; i++ {
			w.start(fmt.Sprint("n", i))
			w.formed(i, i)
		}
	})
}

// A single node that knew of no cluster is opened unchanged.
func TestMetadataOfLoneNodeIsOpened(t *testing.T) {
	inWorld(t, nil, 1, func(t *testing.T, w *world) {
		s, err := raftstore.Open(raftstore.Options{Dir: filepath.Join(w.dir, "n1", metaDir), NodeID: "n1", Address: "elsewhere:9", Bootstrap: true, ReserveBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.WaitLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range []meta.Command{
			meta.NodeStarted{Node: meta.Node{ID: "n1"}},
			meta.CreateTopic{Name: "t", Config: meta.TopicConfig{Partitions: 1}.WithDefaults(1, false), Assignment: [][]meta.NodeID{{"n1"}}},
		} {
			if _, err := s.Propose(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		w.start("n1")
		w.formed(1, 1)
		if p := w.partition("n1", "t", 0); p.Leader != "n1" || len(p.ISR) != 1 {
			t.Errorf("%+v", p)
		}
		w.join = []string{addressOf("n1")}
		w.start("n2")
		w.formed(2, 2)
	})
}

func TestLeaderDeathCausesElection(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		w.topic("t", []meta.NodeID{"n1", "n2", "n3"}, []meta.NodeID{"n2", "n3", "n1"}, []meta.NodeID{"n3", "n1", "n2"})
		w.sleep(3 * time.Second) // the controller has heard from every node
		for range 3 {
			for i := range three {
				leads := w.leader().name
				dead := string(w.partition(leads, "t", i).Leader)
				if err := w.kill(dead); err != nil {
					t.Fatal(err)
				}
				left := w.names()[0]
				took := w.await("another leads", func() bool {
					l := w.partition(left, "t", i).Leader
					return l != "" && string(l) != dead
				})
				t.Logf("%s killed (controller %s): another leads after %v", dead, leads, took)
				limit := 150 * time.Millisecond
				if dead == leads {
					limit = 500 * time.Millisecond
				}
				if took > limit {
					t.Errorf("took %v", took)
				}
				w.start(dead)
				w.formed(3, 3)
				w.sleep(time.Minute)
			}
		}
	})
}

func TestWipedNodeLeavesEveryInSyncSet(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		w.topic("t", []meta.NodeID{"n2", "n3"}, []meta.NodeID{"n1", "n2"})
		w.topic("sole", []meta.NodeID{"n2"})
		if err := w.kill("n2"); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Second)
		// It dies before it can register, and is as empty the next time.
		p := w.startIn("n2", filepath.Join(w.dir, "another"))
		w.sleep(time.Millisecond)
		p.stop()
		_ = w.kill("n2")
		w.startIn("n2", filepath.Join(w.dir, "another"))
		w.formed(3, 3)
		for i := range 2 {
			if p := w.partition("n2", "t", i); p.Leader == "n2" || len(p.ISR) != 1 || p.ISR[0] == "n2" {
				t.Errorf("t/%d: %+v", i, p)
			}
		}
		if p := w.partition("n2", "sole", 0); p.Leader != "" || len(p.ISR) != 0 {
			t.Errorf("sole: %+v", p)
		}
		// A node that starts with its disk leaves no in-sync set.
		before := w.partition("n1", "t", 0).ISR
		if err := w.kill("n3"); err != nil {
			t.Fatal(err)
		}
		w.start("n3")
		w.formed(3, 3)
		if after := w.partition("n1", "t", 0).ISR; fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%v became %v", before, after)
		}
	})
}

func TestOnlyCleanStopIsRecorded(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		boot := 0
		told := &logtest.Journal{} // by n3, which started last
		w.options = func(name string, o *Options) {
			o.Node.BootID = fmt.Sprint("boot ", boot)
			if name == "n3" {
				told = &logtest.Journal{}
				o.Logger = slog.New(slog.NewTextHandler(told, &slog.HandlerOptions{Level: slog.LevelWarn}))
			}
		}
		w.start(three...)
		w.formed(3, 3)
		config := meta.TopicConfig{Partitions: 1, Replicas: 3, Sync: meta.SyncPolicy{Every: 100, Interval: time.Second}}.WithDefaults(3, false)
		if _, err := w.node("n1").Store().Propose(t.Context(), meta.CreateTopic{Name: "t", Config: config, Assignment: [][]meta.NodeID{{"n1", "n2", "n3"}}}); err != nil {
			t.Fatal(err)
		}
		config.Partitions, config.Replicas, config.MinISR = 2, 1, 1
		if _, err := w.node("n1").Store().Propose(t.Context(), meta.CreateTopic{Name: "alone", Config: config, Assignment: [][]meta.NodeID{{"n1"}, {"n3"}}}); err != nil {
			t.Fatal(err)
		}
		boot++
		_ = w.node("n3").o.Listeners[0].Close() // like a stopping process
		w.sleep(time.Second)
		if err := w.node("n3").StopClean(); err != nil {
			t.Fatal(err)
		}
		_ = w.kill("n3")
		w.start("n3")
		w.formed(3, 3)
		if isr := w.partition("n1", "t", 0).ISR; len(isr) != 3 {
			t.Errorf("after a clean stop: %v", isr)
		}
		if strings.Contains(told.String(), "power loss") {
			t.Error(told.String())
		}
		boot++
		_ = w.kill("n3")
		w.start("n3")
		w.formed(3, 3)
		if isr := w.partition("n1", "t", 0).ISR; len(isr) != 2 {
			t.Errorf("after a loss of power: %v", isr)
		}
		if !strings.Contains(told.String(), "power loss") || !strings.Contains(told.String(), "topic=alone partitions=[1]") {
			t.Errorf("nobody is told that n3 may lack what it alone has: %s", told.String())
		}
	})
}

func TestRemovedNodeStops(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprint("running ", running), func(t *testing.T) {
			inWorld(t, three, 3, func(t *testing.T, w *world) {
				w.start(three...)
				w.formed(3, 3)
				w.topic("t", []meta.NodeID{"n3"})
				through := w.node("n1")
				if err := through.RemoveMember(t.Context(), meta.RemoveNode{ID: "n3"}); !errors.Is(err, failure.NodeInUse) || fate.Of(err) != fate.Refused {
					t.Errorf("in use: %v", err)
				}
				for _, c := range []meta.Command{meta.DeleteTopic{Name: "t"}, meta.SetNodeIntent{ID: "n3", Intent: meta.IntentDecommission}} {
					if _, err := through.Store().Propose(t.Context(), c); err != nil {
						t.Fatal(err)
					}
				}
				if !running {
					_ = w.kill("n3")
				}
				if err := through.RemoveMember(t.Context(), meta.RemoveNode{ID: "n3"}); !errors.Is(err, failure.OnlyCopies) || fate.Of(err) != fate.Refused {
					t.Errorf("with the only copy of a deleted topic: %v", err)
				}
				lose := meta.RemoveNode{ID: "n3", LoseDeleted: true}
				if err := through.RemoveMember(t.Context(), lose); err != nil {
					w.await("removed", func() bool { return through.RemoveMember(t.Context(), lose) == nil })
				}
				if !running {
					w.start("n3")
				}
				p := w.process("n3")
				w.await("it ends", func() bool {
					select {
					case <-p.opened:
						return p.err != nil || p.node.Err() != nil
					default:
						return false
					}
				})
				if err := w.kill("n3"); !errors.Is(err, failure.Removed) || !running && !strings.Contains(err.Error(), "start with an empty one") {
					t.Error(err)
				}
				w.formed(2, 2)
			})
		})
	}
}

func TestRemovedControllerStops(t *testing.T) {
	for _, byItself := range []bool{true, false} {
		t.Run(fmt.Sprint("by itself ", byItself), func(t *testing.T) {
			four := []string{"n1", "n2", "n3", "n4"}
			inWorld(t, four, 4, func(t *testing.T, w *world) {
				w.start(four...)
				w.formed(4, 4)
				gone := w.leader().name
				through := gone
				if !byItself {
					through = four[(slices.Index(four, gone)+1)%4]
				}
				if err := w.node(through).RemoveMember(t.Context(), meta.RemoveNode{ID: meta.NodeID(gone)}); !errors.Is(err, failure.NodeActive) || fate.Of(err) != fate.Refused {
					t.Errorf("up and wanted: %v", err)
				}
				if !w.node(gone).Store().IsLeader() {
					t.Error("a removal that was refused has moved the role")
				}
				if _, err := w.node(through).Store().Propose(t.Context(), meta.SetNodeIntent{ID: meta.NodeID(gone), Intent: meta.IntentDecommission}); err != nil {
					t.Fatal(err)
				}
				w.await("removed", func() bool {
					err := w.node(through).RemoveMember(t.Context(), meta.RemoveNode{ID: meta.NodeID(gone)})
					_, still := w.node(four[(slices.Index(four, gone)+2)%4]).Members().Find(meta.NodeID(gone))
					t.Log(err, still)
					return !still
				})
				w.await("it ends", func() bool { return w.node(gone).Err() != nil })
				if err := w.kill(gone); !errors.Is(err, failure.Removed) {
					t.Error(err)
				}
				w.formed(3, 3)
			})
		})
	}
}

func TestSecondProcessOfANodeIsRefused(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		w.options = func(name string, o *Options) {
			if name == "twin" {
				o.Self = "n2"
			}
		}
		p := w.startIn("twin", filepath.Join(w.dir, "twin"))
		<-p.opened
		if !errors.Is(p.err, formation.ErrNodeIDTaken) || strings.Count(p.err.Error(), formation.ErrNodeIDTaken.Error()) != 1 {
			t.Error(p.err) // what to do, once
		}
		_ = w.kill("twin")
		w.formed(3, 3)
	})
}

func TestControllerRoleIsTransferred(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		was := w.leader()
		other := three[0]
		if was.name == other {
			other = three[1]
		}
		if err := w.node(other).TransferController(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.await("another leads", func() bool { l := w.leader(); return l != nil && l != was })
		w.await("one controller", func() bool {
			n := 0
			for _, name := range three {
				if w.node(name).Store().IsLeader() {
					n++
				}
			}
			return n == 1
		})
	})
}

func TestCallsReachTheirNodes(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		n1 := w.node("n1")
		for _, to := range []meta.NodeID{"n1", "n2"} {
			reply, err := n1.Call(t.Context(), to, 17, [][]byte{[]byte("a"), []byte("b")})
			if err != nil || string(reply) != "n1 17 ab" {
				t.Errorf("%s: %q, %v", to, reply, err)
			}
			_, err = n1.Call(t.Context(), to, 32, nil)
			if err == nil || err.Error() != "not today (code 0)" {
				t.Errorf("%s: %v", to, err)
			}
		}
		if _, err := n1.Call(t.Context(), "n9", 17, nil); !errors.Is(err, failure.UnknownNode) || fate.Of(err) != fate.Refused {
			t.Errorf("unknown: %v", err)
		}
		if err := w.kill("n2"); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Second)
		var mu sync.Mutex // a done inside Go would wait for it forever
		done := make(chan error, 1)
		mu.Lock()
		n1.Go("n2", 17, nil, func(_ []byte, err error) {
			mu.Lock()
			defer mu.Unlock()
			done <- err
		})
		mu.Unlock()
		if err := <-done; fate.Of(err) != fate.Refused {
			t.Errorf("dead: %v", err)
		}
	})
}

func TestLinkReportsSessions(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		events := make(chan string, 100)
		follow := func(name string) coord.Link {
			return w.node("n1").Peers().Follow("n2", coord.LinkEvents{
				Up:   func() { events <- name + " up" },
				Down: func(refused bool) { events <- fmt.Sprint(name, " down ", refused) },
			})
		}
		next := func(want string) {
			t.Helper()
			select {
			case got := <-events:
				if got != want {
					t.Fatalf("%s, want %s", got, want)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("nothing, want %s", want)
			}
		}
		a := follow("a")
		next("a up")
		b := follow("b") // of a session that is up
		next("b up")
		b.Close()
		answers := make(chan string, 10)
		ask := func() {
			a.Go(3, [][]byte{[]byte("x")}, func(reply []byte, err error) {
				answers <- fmt.Sprint(string(reply), " ", fate.Of(err), " ", err != nil)
			})
		}
		ask()
		if got := <-answers; got != "n1 3 x uncertain false" {
			t.Error(got)
		}
		if err := w.kill("n2"); err != nil {
			t.Fatal(err)
		}
		next("a down false")
		next("a down true")
		ask()
		if got := <-answers; got != " refused true" {
			t.Error(got)
		}
		c := follow("c") // of a node that refuses connections
		next("c down true")
		w.sleep(time.Minute)
		began := time.Now()
		w.start("n2")
		w.node("n2")
		for range 2 {
			if got := <-events; got != "a up" && got != "c up" {
				t.Fatal(got)
			}
		}
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("connected %v after it started", took)
		}
		ask()
		if got := <-answers; got != "n1 3 x uncertain false" {
			t.Error(got)
		}
		w.net.Break("n1", "n2")
		for range 2 {
			if got := <-events; got != "a down false" && got != "c down false" {
				t.Fatal(got)
			}
		}
		a.Close()
		c.Close()
		select {
		case got := <-events:
			t.Errorf("after Close: %s", got)
		case <-time.After(10 * time.Second):
		}
	})
}

// cut disconnects a node from all others, or reconnects it.
func (w *world) cut(name string, yes bool) {
	for _, other := range w.names() {
		if other != name {
			w.net.SetLink(name, other, peertest.Link{Cut: yes})
			w.net.SetLink(other, name, peertest.Link{Cut: yes})
		}
	}
}

func TestPartitionedLeaderIsReplacedAndReturns(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		w.topic("t", []meta.NodeID{"n1", "n2", "n3"}, []meta.NodeID{"n2", "n3", "n1"}, []meta.NodeID{"n3", "n1", "n2"})
		for range 3 {
			w.sleep(30 * time.Second)
			lost := w.leader().name
			w.cut(lost, true)
			others := w.node(three[0])
			if lost == three[0] {
				others = w.node(three[1])
			}
			took := w.await("nobody counts on it", func() bool {
				for _, p := range others.Store().Topic("t").Partitions {
					if p.Leader == "" || string(p.Leader) == lost {
						return false
					}
				}
				return others.Store().Node(meta.NodeID(lost)).State == meta.NodeDown
			})
			t.Logf("%s cut off: replaced after %v", lost, took)
			if took > 1250*time.Millisecond { // the session timeout and the rest of a probe
				t.Errorf("took %v", took)
			}
			if since := time.Since(w.node(lost).Store().QuorumContact()); since < took-time.Second {
				t.Errorf("cut off for %v, in contact %v ago", took, since)
			}
			w.cut(lost, false)
			w.formed(3, 3)
		}
	})
}

func TestShortPartitionCostsNoLeadership(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		w.topic("t", []meta.NodeID{"n1", "n2", "n3"}, []meta.NodeID{"n2", "n3", "n1"}, []meta.NodeID{"n3", "n1", "n2"})
		for range 20 {
			w.sleep(10*time.Second + 37*time.Millisecond) // each time at another moment between two heartbeats
			name := w.leader().name
			w.cut(name, true)
			w.sleep(400 * time.Millisecond)
			w.cut(name, false)
			w.formed(3, 3)
		}
		for i := range three {
			if p := w.partition("n1", "t", i); p.Epoch != 1 {
				t.Errorf("partition %d is in epoch %d", i, p.Epoch)
			}
		}
	})
}

func TestFiveNodesSurviveTwoFailures(t *testing.T) {
	five := []string{"n1", "n2", "n3", "n4", "n5"}
	inWorld(t, five, 5, func(t *testing.T, w *world) {
		w.start(five...)
		w.formed(5, 5)
		w.topic("t", []meta.NodeID{"n1", "n2", "n3"}, []meta.NodeID{"n5", "n4", "n3"})
		w.sleep(3 * time.Second)
		for _, name := range []string{"n1", "n5"} {
			if err := w.kill(name); err != nil {
				t.Fatal(err)
			}
		}
		took := w.await("others lead", func() bool {
			a, b := w.partition("n3", "t", 0).Leader, w.partition("n3", "t", 1).Leader
			return a != "" && a != "n1" && b != "" && b != "n5"
		})
		if took > time.Second {
			t.Errorf("took %v", took)
		}
		w.start("n1", "n5")
		w.formed(5, 5)
	})
}

func TestNoRegistrationWithoutMajority(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		for _, name := range three {
			if err := w.kill(name); err != nil {
				t.Fatal(err)
			}
		}
		w.start("n1")
		p := w.process("n1")
		w.sleep(time.Minute)
		select {
		case <-p.opened:
			t.Error("opened without a majority")
		default:
		}
		w.start("n2")
		<-p.opened
		if p.err != nil {
			t.Error(p.err)
		}
	})
}
