package raftstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/internal/peertest"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

// testCluster is a group of stores in one process, in virtual time.
type testCluster struct {
	t    *testing.T
	net  *peertest.Network
	mu   sync.Mutex // guards open
	open map[meta.NodeID]*Store
	dirs map[meta.NodeID]string // "": in memory
	disk map[meta.NodeID]*badDisk
}

// inBubble runs a test on a cluster that its first node has created.
func inBubble(t *testing.T, test func(t *testing.T, c *testCluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &testCluster{t: t, net: peertest.NewNetwork(), open: map[meta.NodeID]*Store{}, dirs: map[meta.NodeID]string{}}
		t.Cleanup(func() {
			for _, id := range c.ids() {
				c.stop(id)
			}
		})
		test(t, c)
	})
}

func (c *testCluster) ids() []meta.NodeID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []meta.NodeID
	for id := range c.open {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (c *testCluster) store(id meta.NodeID) *Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[id]
}

func (c *testCluster) start(id meta.NodeID, bootstrap bool) *Store {
	c.t.Helper()
	name := string(id)
	o := Options{
		NodeID: id, Address: name, Bootstrap: bootstrap, Dir: c.dirs[id], InMemory: c.dirs[id] == "", ReserveBytes: -1,
		Stream: c.stream(name), Forward: c.forward(name), Ask: c.ask(name),
	}
	open := func() (*Store, error) { return Open(o) }
	if disk := c.disk[id]; disk != nil {
		open = func() (*Store, error) {
			return openWith(o.withDefaults(), &parts{log: disk, close: func() error { return nil }, snapshots: raft.NewInmemSnapshotStore()})
		}
	}
	s, err := open()
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[id] = s
	return s
}

// stream connects to other nodes by their names.
func (c *testCluster) stream(name string) *Stream {
	c.t.Helper()
	l, err := c.net.Listen(name + ":1")
	if err != nil {
		c.t.Fatal(err)
	}
	return &Stream{Listener: l, Dial: func(ctx context.Context, _ meta.NodeID, to string, _ time.Duration) (net.Conn, error) {
		return c.net.Dial(ctx, name, to+":1")
	}}
}

func (c *testCluster) reaches(from, to string) bool {
	return !c.net.Unplugged(from) && !c.net.Unplugged(to)
}

func (c *testCluster) stop(id meta.NodeID) {
	c.t.Helper()
	c.mu.Lock()
	s := c.open[id]
	delete(c.open, id)
	c.mu.Unlock()
	if err := s.Close(); err != nil {
		c.t.Errorf("close %s: %v", id, err)
	}
}

// forward loses an answer if the leader stops while it works.
func (c *testCluster) forward(from string) Forward {
	return func(ctx context.Context, leader meta.NodeID, command []byte) ([]byte, error) {
		s := c.store(leader)
		if s == nil || !c.reaches(from, string(leader)) {
			return nil, fate.Refuse("not reachable")
		}
		answer, err := s.HandleForwarded(ctx, command)
		if !c.reaches(from, string(leader)) {
			return nil, errors.New("connection broke")
		}
		return answer, err
	}
}

// sleep lets virtual time pass.
func (c *testCluster) sleep(d time.Duration) { time.Sleep(d) }

// grow makes a cluster of n voters, starting with one.
func (c *testCluster) grow(n int) {
	c.t.Helper()
	first := c.start("n1", true)
	c.leader()
	if _, err := first.Init(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	for i := 2; i <= n; i++ {
		id := meta.NodeID(fmt.Sprint("n", i))
		if err := first.Members().AddNonvoter(c.t.Context(), id, string(id)); err != nil {
			c.t.Fatal(err)
		}
		c.start(id, false)
		if err := first.Members().Promote(c.t.Context(), id); err != nil {
			c.t.Fatal(err)
		}
	}
}

// leader waits until one of the reachable stores leads.
func (c *testCluster) leader() *Store {
	c.t.Helper()
	for range 1000 {
		for _, id := range c.ids() {
			s := c.store(id)
			if s.IsLeader() && !c.net.Unplugged(string(id)) && s.VerifyLeader(c.t.Context()) == nil {
				return s
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("no leader")
	return nil
}

// settle waits until all stores have applied the same.
func (c *testCluster) settle() {
	c.t.Helper()
	for range 3000 {
		want, same := c.leader().Applied(), true
		for _, id := range c.ids() {
			same = same && c.store(id).Applied() == want
		}
		if same {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("stores differ")
}

func TestLoneVoterGrowsWhileItRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		began := time.Now()
		s := c.start("n1", true)
		if err := s.WaitLeader(t.Context()); err != nil || time.Since(began) > 100*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		c.stop("n1")
		c.grow(3)
		propose(t, c.store("n1"), meta.NodeStarted{Node: meta.Node{ID: "n1", Levels: level.Supported()}})
		c.settle()
		want := Configuration{[]Member{{"n1", "n1", true}, {"n2", "n2", true}, {"n3", "n3", true}}}
		for _, id := range c.ids() {
			if diff := cmp.Diff(want, c.store(id).Members().Configuration()); diff != "" {
				t.Errorf("%s: %s", id, diff)
			}
		}
	})
}

func TestCommandMayBeProposedOnAnyNode(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.grow(3)
		s := c.store("n3")
		began := time.Now()
		r := propose(t, s, meta.NodeStarted{Node: meta.Node{ID: "n1", Zone: "z", Levels: level.Supported()}})
		if r.Node == nil || r.Node.Zone != "z" || s.Node("n1") != r.Node || r.Index == 0 {
			t.Errorf("%+v", r)
		}
		t.Logf("forwarded and applied here in %v", time.Since(began))
		propose(t, s, topic("t"))
		if r, err := s.Propose(t.Context(), topic("t")); err != nil || !r.Existed || r.Topic == nil {
			t.Errorf("again: %+v, %v", r, err)
		}
		other := topic("t")
		other.Config.Ordered = true
		if r, err := s.Propose(t.Context(), other); !errors.Is(err, failure.TopicExists) || fate.Of(err) != fate.Refused || r.Index == 0 {
			t.Errorf("refused: %+v, %v", r, err)
		}
	})
}

// The times in the metadata are those of the metadata leader: a node whose clock is wrong would
// otherwise delete topics that expire at once, or never.
func TestForwardedCommandHasTheTimeOfTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.grow(3)
		s := c.store("n1")
		propose(t, s, meta.NodeStarted{Node: meta.Node{ID: "n1", Levels: level.Supported()}})
		for i, wrong := range []time.Duration{-48 * time.Hour, 1000 * time.Hour} {
			name := fmt.Sprint("t", i)
			propose(t, s, topic(name))
			command, err := meta.EncodeCommandAt(meta.DeleteTopic{Name: name}, time.Now().Add(wrong).UnixNano())
			if err != nil {
				t.Fatal(err)
			}
			sent := bytes.Clone(command)
			if _, err := s.HandleForwarded(t.Context(), command); err != nil || !bytes.Equal(sent, command) {
				t.Errorf("%v; the caller's bytes have changed: %v", err, !bytes.Equal(sent, command))
			}
		}
		s.Read(func(state *meta.State) {
			n := 0
			for d := range meta.TrashOf(state).All() {
				if off := time.Since(time.Unix(0, d.At)); off < 0 || off > time.Minute {
					t.Errorf("%s was deleted %v ago", d.Topic.Name, off)
				}
				n++
			}
			if n != 2 {
				t.Errorf("%d deleted topics", n)
			}
		})
	})
}

func TestLeaderIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.grow(3)
		var gaps []time.Duration
		for range 20 {
			was := c.leader()
			changed := c.store("n1").LeaderChanged()
			c.net.Unplug(string(was.opts.NodeID))
			began := time.Now()
			now := c.leader()
			gaps = append(gaps, time.Since(began))
			if now == was {
				t.Fatal("the same")
			}
			<-changed
			if time.Since(was.QuorumContact()) < time.Since(began)-was.opts.LeaderLease {
				t.Errorf("cut off for %v, in contact %v ago", time.Since(began), time.Since(was.QuorumContact()))
			}
			if err := was.VerifyLeader(t.Context()); err == nil {
				t.Error("a leader that is cut off was confirmed")
			}
			c.net.Plug(string(was.opts.NodeID))
			propose(t, c.store("n1"), meta.NodeStarted{Node: meta.Node{ID: "n1", Levels: level.Supported()}})
			c.settle()
			time.Sleep(was.opts.LeaderLease)
			for _, id := range c.ids() {
				if since := time.Since(c.store(id).QuorumContact()); since > 2*was.opts.LeaderLease {
					t.Errorf("%s: contact %v ago", id, since)
				}
			}
		}
		slices.Sort(gaps)
		t.Logf("cut to new leader: p50 %v, max %v", gaps[len(gaps)/2], gaps[len(gaps)-1])
		if gaps[len(gaps)/2] > 1500*time.Millisecond {
			t.Errorf("half of them took over %v", gaps[len(gaps)/2])
		}
	})
}

func TestMinorityRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.grow(3)
		alone := c.store("n3")
		if c.leader() == alone {
			t.Fatal("n1 did not lead")
		}
		c.net.Unplug("n3")
		time.Sleep(2 * time.Second)
		began := time.Now()
		_, err := alone.Propose(t.Context(), topic("t"))
		if !errors.Is(err, failure.NotController) || fate.Of(err) != fate.Refused || time.Since(began) > 2*DefaultApplyTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		c.net.Plug("n3")
		propose(t, alone, meta.NodeStarted{Node: meta.Node{ID: "n1", Levels: level.Supported()}})
	})
}

// While leaders change, each proposed command is applied once, or refused, or
// reported with an unknown outcome.
func TestForwardedCommandsAreDoneOnceOrUncertain(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	inBubble(t, func(t *testing.T, c *testCluster) {
		rng := rand.New(rand.NewPCG(seed, 0))
		c.grow(3)
		var mu sync.Mutex // guards the counts
		var done, refused, unknown int
		var wg sync.WaitGroup
		for w := range 6 {
			s := c.store(meta.NodeID(fmt.Sprint("n", w%3+1)))
			wg.Go(func() {
				node := meta.NodeID(fmt.Sprint("w", w)) // each command adds one to its incarnation
				var sure, maybe uint64
				for range 60 {
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					r, err := s.Propose(ctx, meta.NodeStarted{Node: meta.Node{ID: node, Levels: level.Supported()}})
					cancel()
					mu.Lock()
					switch {
					case err == nil:
						done++
						sure++
						if in := r.Node.Incarnation; in < sure || in > sure+maybe {
							t.Errorf("%s: incarnation %d after %d done and %d unknown", node, in, sure, maybe)
						}
					case fate.Of(err) == fate.Refused:
						refused++
					default:
						unknown++
						maybe++
					}
					mu.Unlock()
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		for range 8 {
			id := string(c.leader().opts.NodeID)
			time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
			c.net.Unplug(id)
			time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
			c.net.Plug(id)
		}
		wg.Wait()
		t.Logf("%d done, %d refused, %d unknown", done, refused, unknown)
		c.settle()
	})
}

func TestMembersChangeOnTheLeaderOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.grow(3)
		ctx := t.Context()
		lead, follower := c.store("n1").Members(), c.store("n2").Members()
		for _, test := range []struct {
			name string
			err  error
			want error
		}{
			{"add voter", follower.AddVoter(ctx, "x", "x"), failure.NotController},
			{"add node", follower.AddNonvoter(ctx, "x", "x"), failure.NotController},
			{"promote", follower.Promote(ctx, "n3"), failure.NotController},
			{"remove", follower.Remove(ctx, "n3"), failure.NotController},
			{"transfer", follower.Transfer(ctx), failure.NotController},
			{"promote a stranger", lead.Promote(ctx, "x"), failure.NodeNotFound},
			{"remove a stranger", lead.Remove(ctx, "x"), failure.NodeNotFound},
			{"no name", lead.AddVoter(ctx, "", "x"), failure.InvalidName},
		} {
			if !errors.Is(test.err, test.want) || fate.Of(test.err) != fate.Refused {
				t.Errorf("%s: %v", test.name, test.err)
			}
		}
		if err := lead.Transfer(ctx); err != nil {
			t.Fatal(err)
		}
		s := c.leader()
		if s == c.store("n1") {
			t.Error("n1 still leads")
		}
		lead = s.Members()
		for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
			if id == s.opts.NodeID {
				continue
			}
			if err := lead.Remove(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		if err := lead.Remove(ctx, s.opts.NodeID); !errors.Is(err, failure.LastVoter) {
			t.Error(err)
		}
		if err := lead.Transfer(ctx); !errors.Is(err, failure.LastVoter) {
			t.Error(err)
		}
	})
}

func TestRestartedClusterGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		for i := range 3 {
			c.dirs[meta.NodeID(fmt.Sprint("n", i+1))] = t.TempDir()
		}
		if ok, err := Exists(c.dirs["n2"], "n2"); ok || err != nil {
			t.Fatal(ok, err)
		}
		c.grow(3)
		populate(t, c.store("n2"), 3)
		c.settle()
		for _, id := range c.ids() {
			c.stop(id)
		}
		for _, id := range []meta.NodeID{"n3", "n2", "n1"} {
			if ok, err := Exists(c.dirs[id], id); !ok || err != nil {
				t.Errorf("%s: %v, %v", id, ok, err)
			}
			if _, err := Exists(c.dirs[id], "x"); !errors.Is(err, ErrOtherNode) {
				t.Errorf("%s: %v", id, err)
			}
			c.start(id, false)
		}
		propose(t, c.store("n3"), topic("another"))
		c.settle()
		if n := len(c.store("n1").Topics()); n != 4 {
			t.Errorf("%d topics", n)
		}
	})
}

// Without this, the library would wait up to ten seconds.
func TestReturningMemberCatchesUpAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.dirs["n3"] = t.TempDir()
		c.grow(3)
		for i := range 5 {
			c.stop("n3")
			for k := range 20 {
				propose(t, c.leader(), meta.NodeStarted{Node: meta.Node{ID: meta.NodeID(fmt.Sprint("m", k)), Levels: level.Supported()}})
				time.Sleep(3 * time.Second)
			}
			want := c.leader().Applied()
			began := time.Now()
			c.start("n3", false)
			for c.store("n3").Applied() < want {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(began); took > 600*time.Millisecond {
				t.Errorf("heard after %v", took)
			}
			time.Sleep(time.Duration(i) * 1234 * time.Millisecond)
		}
	})
}

func TestLeaderWithStalledDiskIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.disk = map[meta.NodeID]*badDisk{}
		for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
			c.disk[id] = &badDisk{InmemStore: raft.NewInmemStore()}
		}
		c.grow(3)
		sick := c.leader()
		free := make(chan struct{})
		c.disk[sick.opts.NodeID].block.Store(&free)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var hung sync.WaitGroup
		hung.Go(func() {
			_, _ = sick.Propose(ctx, meta.NodeStarted{Node: meta.Node{ID: "m", Levels: level.Supported()}})
		})
		began := time.Now()
		for took := time.Duration(0); ; took = time.Since(began) {
			if slices.ContainsFunc(c.ids(), func(id meta.NodeID) bool {
				s := c.store(id)
				return s != sick && s.IsLeader() && s.VerifyLeader(t.Context()) == nil
			}) {
				t.Logf("replaced after %v", took)
				break
			}
			if took > 5*time.Second {
				t.Error("not replaced")
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if since, ok := sick.Writing(); !ok || time.Since(since) < stalledAfter || sick.Stats().Stalled < stalledAfter {
			t.Errorf("a write since %v, %v", since, ok)
		}
		cancel()
		close(free)
		hung.Wait()
		time.Sleep(time.Second) // it answers what has waited
	})
}

func logEntry(index uint64, command []byte) *raft.Log {
	return &raft.Log{Index: index, Type: raft.LogCommand, Data: command}
}
