package coord_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// TestProposedJoinerCounts: once the joiner is proposed, nothing is
// committed without it, even while the outcome of the proposal is unknown.
func TestProposedJoinerCounts(t *testing.T) {
	for _, answer := range []error{nil, errors.New("timed out"), fate.Refuse("never sent")} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, "a", "b")
			c.decide = func(coord.ISRChange) (bool, error) { return false, answer }
			c.net.Kill("c")
			term := c.elect("a", "a", "b", "c")
			tick(term, time.Second)
			r := c.nodes["c"].replica
			c.net.Serve("c", func(_ meta.NodeID, kind uint8, p []byte, reply func([]byte)) { r.Handle(nil, kind, p, reply) })
			<-time.After(100 * time.Millisecond)
			c.mu.Lock()
			if len(c.asked) == 0 || c.asked[0].Joiner != "c" || c.asked[0].Incarnation != 1 {
				t.Fatalf("asked for %+v", c.asked)
			}
			c.mu.Unlock()
			c.net.SetCut("a", "c", true)
			told := put(term, "m")
			go tick(term, 1900*time.Millisecond) // and c has not kept up for long enough not to be asked in again
			err := within(1800*time.Millisecond, told)
			if withdrawn := fate.Of(answer) == fate.Refused && answer != nil; withdrawn != (err == nil) {
				t.Errorf("answered %v: %v", answer, err)
			}
			c.mu.Lock()
			c.decide = nil
			c.mu.Unlock()
			c.tellTerm(term, func(v *coord.View) { v.ISR = []meta.NodeID{"a", "b"} })
			go tick(term, 500*time.Millisecond)
			if !errors.Is(err, errWaiting) {
				told = put(term, "m")
			}
			if err := within(400*time.Millisecond, told); err != nil { // c may be awaited for a moment
				t.Errorf("answered %v, metadata has moved on without it: %v", answer, err)
			}
			<-time.After(2 * time.Second)
			c.close()
		})
	}
}

// tellTerm alters the metadata and updates a term.
func (c *cluster) tellTerm(t *coord.Term, f func(*coord.View)) { t.Update(c.alter(f)) }

// TestUncertainProposalIsResolved: a joiner that died before any node knew
// whether it had joined does not hold the partition up.
func TestUncertainProposalIsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		lost := true
		c.decide = func(coord.ISRChange) (bool, error) {
			if lost {
				lost = false
				return false, errors.New("timed out")
			}
			return true, nil
		}
		term := c.elect("a", three...)
		<-time.After(10 * time.Millisecond)
		c.net.Kill("c")
		told := put(term, "m")
		go tick(term, 3*time.Second)
		if err := within(3*time.Second, told); err != nil {
			t.Error(err)
		}
		<-time.After(3 * time.Second)
		c.close()
	})
}

func TestJoinersIncarnationIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		first := true
		c.decide = func(coord.ISRChange) (bool, error) {
			if first { // it has returned with less
				first = false
				c.replicaLocked("c").Incarnation = 2
			}
			return true, nil
		}
		term := c.elect("a", three...)
		tick(term, 2*time.Second)
		if got := c.isr(); len(got) != 2 {
			t.Errorf("another life of c joined: %v", got)
		}
		term.Update(c.current())
		tick(term, 2*time.Second)
		if got := c.isr(); len(got) != 3 {
			t.Errorf("c did not join: %v", got)
		}
		c.mu.Lock()
		if last := c.asked[len(c.asked)-1]; last.Incarnation != 2 {
			t.Errorf("joined by %+v", last)
		}
		c.mu.Unlock()
		c.close()
	})
}

// words is a list of reports.
type words struct {
	mu   sync.Mutex // guards said
	said []string
}

func (w *words) add(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *words) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

func TestPositionsComeBeforeJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		c.net.SetCut("a", "c", true)
		term := c.elect("a", three...)
		var shared words
		note := func(text string) func(error) {
			return func(err error) { shared.add(fmt.Sprint(text, err)) }
		}
		term.SharePositions([]byte("old"), note("old"))
		term.ShareAdvance([]byte("lost"), note("lost"))
		term.SharePositions([]byte("new"), note("new"))
		term.ShareAdvance([]byte("x"), note("x"))
		term.ShareAdvance([]byte("y"), note("y"))
		<-time.After(time.Second)
		if got := fmt.Sprint(shared.all()); got != "[old<nil> lost<nil> new<nil> x<nil> y<nil>]" {
			t.Errorf("shared %v", got)
		}
		c.net.SetCut("a", "c", false)
		c.mu.Lock()
		c.decide = func(coord.ISRChange) (bool, error) {
			if got := c.nodes["c"].kept.String(); got != "new[x y]" {
				t.Errorf("c joins with %s", got)
			}
			return true, nil
		}
		c.mu.Unlock()
		tick(term, time.Second)
		if len(c.isr()) != 3 {
			t.Error("c did not join")
		}
		// Now the joiner counts.
		c.net.SetCut("a", "c", true)
		term.ShareAdvance([]byte("z"), note("z"))
		<-time.After(time.Second)
		if got := shared.all(); len(got) != 5 {
			t.Errorf("done without c: %v", got)
		}
		if err := c.nodes["a"].replica.StopLeading(); err != nil {
			t.Error(err)
		}
		if got, want := shared.all(), "z"+failure.Unconfirmed.Error(); len(got) != 6 || got[5] != want {
			t.Errorf("after the term: %v", got)
		}
		c.close()
	})
}

// TestSharesCompleteInOrder: all concurrent callers get their answers, in
// the order in which the followers get the shares.
func TestSharesCompleteInOrder(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		term := c.elect("a", three...)
		tick(term, time.Second) // until both follow
		var done words
		var sharers sync.WaitGroup
		for who := range 8 {
			sharers.Go(func() {
				for i := range 50 {
					text := fmt.Sprintf("%d.%d", who, i)
					term.ShareAdvance([]byte(text), func(err error) {
						if err != nil {
							t.Error(err)
						}
						done.add(text)
					})
				}
			})
		}
		sharers.Wait()
		synctest.Wait()
		if got, want := "none"+fmt.Sprint(done.all()), c.nodes["b"].kept.String(); len(done.all()) != 400 || got != want {
			t.Errorf("done     %s\nfollower %s", got, want)
		}
	})
}

// TestBusyChannelsDoNotKeepAJoinerOut: there is always a change in progress that
// the joiner has not stored. It needs only the changes that were done before it
// joins.
func TestBusyChannelsDoNotKeepAJoinerOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		c.net.SetDelay(func(_, to meta.NodeID) time.Duration {
			if to == "c" {
				return 7 * time.Millisecond
			}
			return time.Millisecond
		})
		term := c.elect("a", three...)
		var done words
		stop := make(chan struct{})
		var channels sync.WaitGroup
		for range 5 {
			channels.Go(func() {
				for {
					told := make(chan error, 1)
					term.ShareAdvance([]byte("x"), func(err error) { told <- err })
					done.add(fmt.Sprint(<-told))
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		tick(term, time.Second)
		if got := c.isr(); len(got) != 3 {
			t.Errorf("in sync: %v", got)
		}
		close(stop)
		channels.Wait()
		synctest.Wait()
		if got := done.all(); slices.ContainsFunc(got, func(s string) bool { return s != "<nil>" }) {
			t.Errorf("a change was not done")
		}
		c.close()
	})
}

// TestDistantJoinerIsAwaited: it keeps up, but what it holds is always
// behind what the others have committed.
func TestDistantJoinerIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		c.net.SetDelay(func(_, to meta.NodeID) time.Duration {
			if to == "c" {
				return 7 * time.Millisecond
			}
			return time.Millisecond
		})
		term := c.elect("a", three...)
		var producers sync.WaitGroup
		var failed words
		for p := range 8 {
			producers.Go(func() {
				<-time.After(time.Duration(p) * 100 * time.Microsecond)
				for range 300 {
					if err := <-put(term, "m"); err != nil {
						failed.add(err.Error())
					}
				}
			})
		}
		tick(term, 500*time.Millisecond)
		if got := c.isr(); len(got) != 3 {
			t.Errorf("in sync: %v", got)
		}
		tick(term, 6*time.Second)
		producers.Wait()
		if got := failed.all(); len(got) > 0 {
			t.Error(got)
		}
		c.close()
	})
}

// TestFollowersAreAwaitedBriefly: a follower that keeps up and then falls silent
// delays publishers only briefly.
func TestFollowersAreAwaitedBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		c.decide = func(coord.ISRChange) (bool, error) { return false, fate.Refuse("no quorum") }
		term := c.elect("a", three...)
		tick(term, 1500*time.Millisecond)
		c.net.SetCut("a", "c", true)
		slowest := time.Duration(0)
		go tick(term, 3*time.Second)
		for range 100 {
			began := time.Now()
			if err := within(time.Second, put(term, "m")); err != nil {
				t.Fatal(err)
			}
			slowest = max(slowest, time.Since(began))
			<-time.After(20 * time.Millisecond)
		}
		if slowest > 400*time.Millisecond {
			t.Errorf("the slowest publish took %v", slowest)
		}
		<-time.After(3 * time.Second)
		c.close()
	})
}
