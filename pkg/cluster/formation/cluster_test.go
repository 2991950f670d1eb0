package formation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/brokerd/brokerd/internal/peertest"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is one run of a node in a world.
type process struct {
	node  *Node
	id    meta.NodeID
	stop  context.CancelFunc
	done  chan struct{} // closed when everything has stopped
	ready chan struct{} // closed when Start has returned without error

	mu    sync.Mutex // guards the fields below
	store *raftstore.Store
	err   error // of Start or Run
}

// world is a number of nodes in one process, in virtual time, started with the same command line.
type world struct {
	t       *testing.T
	net     *peertest.Network
	dir     string
	join    []string
	expect  int
	exposed bool // the cluster ports are open to any process

	mu       sync.Mutex // guards the fields below
	at       map[string]*process
	cuts     map[[2]string]bool // from an address, or all, to one that is not reached from there
	sessions uint64
	tokens   map[string]string // join token by node
}

func inWorld(t *testing.T, join []string, expect int, test func(t *testing.T, w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: peertest.NewNetwork(), dir: dir, join: join, expect: expect, at: map[string]*process{}, cuts: map[[2]string]bool{}, tokens: map[string]string{}}
		defer func() {
			for _, name := range w.names() {
				w.kill(name)
			}
		}()
		test(t, w)
	})
}

func (w *world) names() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.at {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (w *world) process(address string) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at[address]
}

func (w *world) call(name meta.NodeID, from string) func(context.Context, meta.NodeID, string, []byte) ([]byte, error) {
	return func(ctx context.Context, node meta.NodeID, to string, text []byte) ([]byte, error) {
		if from == to {
			return nil, ErrSelf
		}
		p := w.process(to)
		if p == nil || w.net.Unplugged(from) || w.net.Unplugged(to) || w.isCut(from, to) {
			return nil, fate.Refuse("not reachable")
		}
		if node != "" && p.id != node {
			return nil, fate.Refuse("a different node at this address")
		}
		time.Sleep(time.Millisecond)
		out, err := p.node.Handle(ctx, name, text)
		time.Sleep(time.Millisecond)
		return out, err
	}
}

// cut makes a node at an address unreachable from another one, or from all if that is "", or reachable
// again. It can still reach them.
func (w *world) cut(from, to string, cut bool) {
	w.mu.Lock()
	w.cuts[[2]string{from, to}] = cut
	w.mu.Unlock()
	if cut {
		for _, name := range w.names() {
			if from == "" || name == from {
				w.net.Break(name, to)
			}
		}
	}
}

func (w *world) isCut(from, to string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts[[2]string{from, to}] || w.cuts[[2]string{"", to}]
}

// start runs a node; its name is its address.
func (w *world) start(name string) *process { return w.startAt(name, name, w.dir+"/"+name) }

func (w *world) startAt(name, address, dir string) *process {
	w.t.Helper()
	id := meta.NodeID(name)
	state, err := raftstore.Exists(dir, id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.sessions++
	p := &process{id: id, done: make(chan struct{}), ready: make(chan struct{})}
	p.node = New(Options{
		Node: id, Address: address, Session: w.sessions, Join: w.join, Expect: w.expect, HasState: state,
		Call: w.call(id, address), Open: func() bool { return w.exposed }, JoinToken: func() (string, error) {
			switch w.token(name) {
			case "gone":
				return "", os.ErrNotExist
			case "unreadable":
				return "", os.ErrPermission
			}
			return w.token(name), nil
		},
	})
	w.at[address] = p
	w.mu.Unlock()
	ctx, stop := context.WithCancel(w.t.Context())
	p.stop = stop
	go func() {
		defer close(p.done)
		err := w.run(ctx, p, address, dir)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = err
	}()
	return p
}

// stream dials other nodes by their names, which are their addresses.
func (w *world) stream(address string) (*raftstore.Stream, error) {
	l, err := w.net.Listen(address + ":1")
	if err != nil {
		return nil, err
	}
	return &raftstore.Stream{Listener: l, Dial: func(ctx context.Context, _ meta.NodeID, to string, _ time.Duration) (net.Conn, error) {
		if w.isCut(address, to) {
			return nil, fate.Refuse("not reachable")
		}
		return w.net.Dial(ctx, address, to+":1")
	}}, nil
}

func (w *world) run(ctx context.Context, p *process, address, dir string) error {
	s, err := p.node.Start(ctx, func(bootstrap bool) (*raftstore.Store, error) {
		stream, err := w.stream(address)
		if err != nil {
			return nil, err
		}
		return raftstore.Open(raftstore.Options{
			NodeID: p.id, Address: address, Dir: dir, Bootstrap: bootstrap, ReserveBytes: -1,
			Stream:  stream,
			Forward: w.forward(address),
		})
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.store = s
	p.mu.Unlock()
	close(p.ready)
	return errors.Join(p.node.Run(ctx), s.Close())
}

func (w *world) forward(from string) raftstore.Forward {
	return func(ctx context.Context, leader meta.NodeID, command []byte) ([]byte, error) {
		for _, name := range w.names() {
			if p := w.process(name); p != nil && p.id == leader && p.open() != nil && !w.net.Unplugged(name) && !w.net.Unplugged(from) {
				return p.open().HandleForwarded(ctx, command)
			}
		}
		return nil, fate.Refuse("not reachable")
	}
}

func (p *process) open() *raftstore.Store {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.store
}

// kill ends the process at an address and returns its error.
func (w *world) kill(address string) error {
	w.mu.Lock()
	p := w.at[address]
	delete(w.at, address)
	w.mu.Unlock()
	p.stop()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// sleep waits in virtual time.
func (w *world) sleep(d time.Duration) { time.Sleep(d) }

// await polls ok for up to a minute.
func (w *world) await(what string, ok func() bool) {
	w.t.Helper()
	for range 600 {
		if ok() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("still not: %s", what)
}

// formed waits until all running nodes are members of one cluster with the given number of voters,
// and returns its id.
func (w *world) formed(nodes, voters int) (id string) {
	w.t.Helper()
	w.await(fmt.Sprintf("%d nodes, %d voters", nodes, voters), func() bool {
		id = ""
		for _, name := range w.names() {
			s := w.process(name).open()
			if s == nil {
				return false
			}
			c := s.Members().Configuration()
			if len(c.Members) != nodes || len(c.Voters()) != voters {
				return false
			}
			cluster := w.process(name).node.cluster()
			if cluster == "" || id != "" && cluster != id {
				return false
			}
			id = cluster
		}
		return w.leader() != nil
	})
	return id
}

func (w *world) leader() *process {
	for _, name := range w.names() {
		if p := w.process(name); p.open() != nil && p.open().IsLeader() && !w.net.Unplugged(name) && p.open().VerifyLeader(w.t.Context()) == nil {
			return p
		}
	}
	return nil
}

func (w *world) propose(name string) {
	w.t.Helper()
	r, err := w.process(name).open().Propose(w.t.Context(), meta.NodeStarted{Node: meta.Node{ID: meta.NodeID(name), Levels: level.Supported()}})
	if err != nil || r.Node == nil {
		w.t.Errorf("propose at %s: %+v, %v", name, r, err)
	}
}

func TestThreeNodesFormInAnyOrder(t *testing.T) {
	three := []string{"n1", "n2", "n3"}
	for _, order := range [][]string{
		{"n1", "n2", "n3"}, {"n1", "n3", "n2"}, {"n2", "n1", "n3"}, {"n2", "n3", "n1"}, {"n3", "n1", "n2"}, {"n3", "n2", "n1"},
	} {
		for _, delay := range []time.Duration{0, 70 * time.Millisecond, 7 * time.Second} {
			t.Run(fmt.Sprint(order, delay), func(t *testing.T) {
				inWorld(t, three, 3, func(t *testing.T, w *world) {
					for _, name := range order {
						w.start(name)
						time.Sleep(delay)
					}
					began := time.Now()
					id := w.formed(3, 3)
					t.Logf("formed %v after the last start", time.Since(began))
					for _, name := range three {
						w.propose(name)
					}
					for _, name := range order { // each restarts with the same command line
						if err := w.kill(name); err != nil {
							t.Fatal(err)
						}
						w.start(name)
						if again := w.formed(3, 3); again != id {
							t.Fatalf("cluster %s became %s", id, again)
						}
						w.propose(name)
					}
					for _, name := range three {
						if err := w.kill(name); err != nil {
							t.Fatal(err)
						}
					}
					for _, name := range order { // all at once
						w.start(name)
					}
					if again := w.formed(3, 3); again != id {
						t.Fatalf("cluster %s became %s", id, again)
					}
				})
			})
		}
	}
}

// TestBootstrapNodeAwaitsTheOthers until they are registered: raft knows them earlier.
func TestBootstrapNodeAwaitsTheOthers(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		for _, name := range w.join {
			w.start(name)
		}
		w.formed(3, 3)
		awaited := func(name string) string { return fmt.Sprint(Awaited(w.process(name).node)) }
		for _, step := range []struct{ registers, want string }{{"n1", "[n2 n3]"}, {"n2", "[n3]"}, {"n3", ""}} {
			w.propose(step.registers)
			w.await("n1 knows of "+step.registers, func() bool { return w.process("n1").open().View().Node(meta.NodeID(step.registers)) != nil })
			if step.want == "" {
				continue // nobody asks before n3 is removed
			}
			if got := awaited("n1"); got != step.want {
				t.Errorf("after %s: awaits %s, not %s", step.registers, got, step.want)
			}
			if got := awaited("n2"); got != "[]" {
				t.Errorf("n2 awaits %s", got)
			}
		}
		time.Sleep(2 * DefaultInterval)
		for _, c := range []meta.Command{meta.SetNodeIntent{ID: "n3", Intent: meta.IntentDecommission}, meta.RemoveNode{ID: "n3"}} {
			if _, err := w.process("n1").open().Propose(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if got := awaited("n1"); got != "[]" {
			t.Errorf("a removed node is awaited: %s", got)
		}
	})
}

func TestLeaderIsKilled(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		for _, name := range w.join {
			w.start(name)
		}
		w.formed(3, 3)
		for range 5 {
			gone := string(w.leader().id)
			if err := w.kill(gone); err != nil {
				t.Fatal(err)
			}
			for _, name := range w.names() {
				w.propose(name)
			}
			w.start(gone)
			w.formed(3, 3)
			w.propose(gone)
		}
	})
}

func TestOneNodeGrowsToSeven(t *testing.T) {
	inWorld(t, nil, 1, func(t *testing.T, w *world) {
		w.start("n1")
		id := w.formed(1, 1)
		w.join = []string{"n1", "n2", "n3"}
		for i := 2; i <= 7; i++ {
			w.start(fmt.Sprint("n", i))
			if again := w.formed(i, min(i, maxVoters)); again != id {
				t.Fatalf("cluster %s became %s", id, again)
			}
			w.propose(fmt.Sprint("n", i))
		}
		c := w.leader().open().Members().Configuration()
		if n := Tolerance(c, func(meta.NodeID) bool { return true }); n != 2 {
			t.Errorf("tolerance %d", n)
		}
		// A voter is lost permanently: another node votes in its place.
		if err := w.leader().open().Members().Remove(t.Context(), "n3"); err != nil {
			t.Fatal(err)
		}
		w.await("the removed node stops", func() bool {
			select {
			case <-w.process("n3").done:
				return true
			default:
				return false
			}
		})
		if err := w.kill("n3"); !errors.Is(err, failure.Removed) {
			t.Errorf("removed: %v", err)
		}
		w.formed(6, maxVoters)
	})
}

func TestMinorityIsNoCluster(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		for _, name := range w.join {
			w.start(name)
		}
		id := w.formed(3, 3)
		cut := string(w.leader().id)
		w.net.Unplug(cut)
		time.Sleep(2 * time.Second)
		_, err := w.process(cut).open().Propose(t.Context(), meta.NodeStarted{Node: meta.Node{ID: "x", Levels: level.Supported()}})
		if !errors.Is(err, failure.NotController) {
			t.Errorf("minority: %v", err)
		}
		for _, name := range w.join {
			if name != cut {
				w.propose(name)
			}
		}
		w.net.Plug(cut)
		if again := w.formed(3, 3); again != id {
			t.Errorf("cluster %s became %s", id, again)
		}
		w.propose(cut)
	})
}

func TestWipedNodeRejoins(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		for _, name := range w.join {
			w.start(name)
		}
		id := w.formed(3, 3)
		if err := w.kill("n2"); err != nil {
			t.Fatal(err)
		}
		w.startAt("n2", "n2", w.dir+"/another")
		w.await("n2 votes again", func() bool {
			m, _ := w.leader().open().Members().Configuration().Find("n2")
			return m.Voter
		})
		if again := w.formed(3, 3); again != id {
			t.Errorf("cluster %s became %s", id, again)
		}
		w.propose("n2")
	})
}

func TestNodeMovesToAnotherAddress(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		for _, name := range w.join {
			w.start(name)
		}
		id := w.formed(3, 3)
		if err := w.kill("n2"); err != nil {
			t.Fatal(err)
		}
		// When a member's connection breaks, the consensus library logs it, and reads its address
		// without synchronization. Real processes do not move that fast.
		time.Sleep(time.Second)
		w.startAt("n2", "elsewhere", w.dir+"/n2")
		w.await("the others know the address", func() bool {
			l := w.leader()
			if l == nil {
				return false
			}
			m, _ := l.open().Members().Configuration().Find("n2")
			return m.Address == "elsewhere"
		})
		if again := w.formed(3, 3); again != id {
			t.Errorf("cluster %s became %s", id, again)
		}
	})
}

func TestSecondProcessOfANodeIsRefused(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		for _, name := range w.join {
			w.start(name)
		}
		w.formed(3, 3)
		w.startAt("n2", "twin", w.dir+"/twin")
		p := w.process("twin")
		w.await("the twin gives up", func() bool {
			select {
			case <-p.done:
				return true
			default:
				return false
			}
		})
		if err := w.kill("twin"); !errors.Is(err, ErrNodeIDTaken) || fate.Of(err) != fate.Refused {
			t.Error(err)
		}
		w.formed(3, 3)
	})
}

func TestMemberOfAnotherClusterIsRefused(t *testing.T) {
	inWorld(t, nil, 1, func(t *testing.T, w *world) {
		w.start("n1")
		w.formed(1, 1)
		w.start("n2") // also alone
		w.await("two clusters", func() bool { return w.process("n2").open() != nil && w.process("n2").node.cluster() != "" })
		r := w.process("n2").node.ask(t.Context(), "", "n1", request{Kind: askJoin, Levels: level.Supported()})
		if !errors.Is(r.err, ErrOtherCluster) {
			t.Error(r.err)
		}
		w.join = []string{"n1", "n2"}
		w.start("n3")
		p := w.process("n3")
		<-p.done
		if err := w.kill("n3"); !errors.Is(err, ErrTwoClusters) {
			t.Error(err)
		}
	})
}
