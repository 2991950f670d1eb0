package formation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/meta"
)

// founding is a world of nodes without metadata. A node is done when it may bootstrap a cluster.
type founding struct {
	mu       sync.Mutex // guards the fields below
	rng      *rand.Rand
	nodes    map[string]*Node
	cut      map[[2]string]bool
	lossy    bool
	stopped  map[string]time.Time    // until when a node is paused
	bonds    map[identity][]identity // bootstrap node: the nodes bound to it
	founders map[identity]bool       // that may bootstrap
	cancel   map[string]context.CancelFunc
	running  sync.WaitGroup
	sessions uint64
}

// delay returns the delay of a message, and whether it is lost.
func (f *founding) delay(from, to string) (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := time.Duration(f.rng.Int64N(int64(20 * time.Millisecond)))
	if f.lossy && f.rng.IntN(20) == 0 { // as after a pause
		d += time.Duration(f.rng.Int64N(int64(20 * time.Second)))
	}
	d += max(0, time.Until(f.stopped[to]))
	return d, f.cut[[2]string{from, to}] || f.lossy && f.rng.IntN(8) == 0
}

func (f *founding) call(from string) func(context.Context, meta.NodeID, string, []byte) ([]byte, error) {
	return func(ctx context.Context, _ meta.NodeID, to string, text []byte) ([]byte, error) {
		if from == to {
			return nil, ErrSelf
		}
		// A paused process notices its timeouts later.
		f.mu.Lock()
		pause := time.Until(f.stopped[from])
		if f.lossy && bytes.Contains(text, []byte(askBond)) && f.rng.IntN(4) == 0 { // the worst moment
			pause = max(pause, time.Duration(f.rng.Int64N(int64(3*promiseTime))))
			f.stopped[from] = time.Now().Add(pause)
		}
		f.mu.Unlock()
		time.Sleep(pause)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		// A call that timed out may still be carried out.
		type result struct {
			text []byte
			err  error
		}
		done := make(chan result, 1)
		f.running.Go(func() {
			out, err := f.carry(from, to, text)
			done <- result{out, err}
		})
		select {
		case r := <-done:
			return r.text, r.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (f *founding) carry(from, to string, text []byte) ([]byte, error) {
	d, lost := f.delay(from, to)
	time.Sleep(d)
	f.mu.Lock()
	n := f.nodes[to]
	f.mu.Unlock()
	if lost || n == nil {
		return nil, errors.New("lost")
	}
	out, err := n.Handle(context.Background(), meta.NodeID(from), text)
	if err != nil {
		return nil, err
	}
	f.note(n, text, out)
	d, lost = f.delay(to, from)
	time.Sleep(d)
	if lost {
		return nil, errors.New("answer lost")
	}
	return out, nil
}

// note records which process is bound to which bootstrap node, whether or not the latter learns of
// it.
func (f *founding) note(n *Node, asked, told []byte) {
	var r request
	var a answer
	if errors.Join(json.Unmarshal(asked, &r), json.Unmarshal(told, &a)) != nil || r.Kind != askBond || !a.Granted {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bonds[r.From] = append(f.bonds[r.From], n.self)
}

func (f *founding) start(name string, join []string, expect int) {
	f.mu.Lock()
	f.sessions++
	n := New(Options{Node: meta.NodeID(name), Address: name, Session: f.sessions, Join: join, Expect: expect, Call: f.call(name)})
	f.nodes[name] = n
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel[name] = cancel
	f.mu.Unlock()
	f.running.Go(func() {
		if founder, err := n.form(ctx); err == nil && founder {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.founders[n.self] = true
		}
	})
}

func (f *founding) upset(names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := names[f.rng.IntN(len(names))]
	switch f.rng.IntN(3) {
	case 0:
		to := names[f.rng.IntN(len(names))]
		f.cut[[2]string{name, to}] = !f.cut[[2]string{name, to}]
	case 1:
		f.stopped[name] = time.Now().Add(time.Duration(f.rng.Int64N(int64(15 * time.Second))))
	case 2:
		f.lossy = !f.lossy
	}
}

// check verifies that no process is bound to two nodes that may bootstrap.
func (f *founding) check(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	of := map[identity]identity{}
	for founder := range f.founders {
		for _, bound := range append(slices.Clone(f.bonds[founder]), founder) {
			if other, ok := of[bound]; ok && other != founder {
				t.Errorf("%v is bound to %v and %v, and both may found", bound, other, founder)
			}
			of[bound] = founder
		}
	}
}

// Groups of nodes with overlapping address lists never form two clusters that have a node in
// common, whatever is lost, delayed, cut or paused.
func TestOverlappingHalvesNeverFormTwoClusters(t *testing.T) {
	first, count := testrand.Seed(t), uint64(randomWorlds)
	founded := 0
	for seed := first; seed < first+count; seed++ {
		synctest.Test(t, func(t *testing.T) {
			founded += foundAtRandom(t, seed)
		})
		if t.Failed() {
			t.Fatalf("in the world of seed %d", seed)
		}
	}
	t.Logf("%d clusters in %d worlds", founded, count)
	if founded == 0 {
		t.Error("none was founded")
	}
}

func foundAtRandom(t *testing.T, seed uint64) int {
	rng := rand.New(rand.NewPCG(seed, 1))
	f := &founding{
		rng: rand.New(rand.NewPCG(seed, 2)), nodes: map[string]*Node{}, cut: map[[2]string]bool{},
		stopped: map[string]time.Time{}, bonds: map[identity][]identity{}, founders: map[identity]bool{},
		cancel: map[string]context.CancelFunc{},
	}
	var names []string
	for i := range 5 + rng.IntN(2) {
		names = append(names, fmt.Sprint("n", i))
	}
	expect := 3
	for _, name := range names {
		join := slices.DeleteFunc(slices.Clone(names), func(string) bool { return rng.IntN(3) == 0 })
		f.start(name, join, expect)
	}
	for range 40 {
		f.upset(names)
		time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Second))))
		f.check(t)
	}
	for _, cancel := range f.cancel {
		cancel()
	}
	f.running.Wait()
	f.check(t)
	return len(f.founders)
}

// Undisturbed, nodes that know of each other form exactly one cluster, even if there are more of
// them than expected.
func TestManyNodesFormOneCluster(t *testing.T) {
	for n := 3; n <= 7; n++ {
		synctest.Test(t, func(t *testing.T) {
			f := &founding{
				rng: rand.New(rand.NewPCG(uint64(n), 0)), nodes: map[string]*Node{}, cut: map[[2]string]bool{},
				stopped: map[string]time.Time{}, bonds: map[identity][]identity{}, founders: map[identity]bool{},
				cancel: map[string]context.CancelFunc{},
			}
			var names []string
			for i := range n {
				names = append(names, fmt.Sprint("n", i))
			}
			for _, name := range slices.Backward(names) {
				f.start(name, names, 3)
			}
			time.Sleep(time.Minute)
			for _, cancel := range f.cancel {
				cancel()
			}
			f.running.Wait()
			f.check(t)
			if len(f.founders) != 1 || n == 3 && !f.founders[identity{"n0", "n0", 3}] {
				t.Errorf("%d nodes: founders %v", n, f.founders)
			}
		})
	}
}
