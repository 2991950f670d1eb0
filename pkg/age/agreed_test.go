package age

import (
	"fmt"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
)

// agreedNode is a node with a wall clock that is off.
type agreedNode struct {
	name string
	off  time.Duration
	*Agreed
}

// agreedCluster is some nodes, and the time that has passed on all monotonic clocks.
type agreedCluster struct {
	now    time.Time
	nodes  []*agreedNode
	leader *agreedNode
	trip   time.Duration // of a question and its answer
}

func newAgreedCluster(offs ...time.Duration) *agreedCluster {
	c := &agreedCluster{now: time.Now(), trip: 4 * time.Millisecond}
	for i, off := range offs {
		n := &agreedNode{name: fmt.Sprint("n", i+1), off: off}
		c.nodes = append(c.nodes, n)
		c.restart(i, off)
	}
	c.leader = c.nodes[0]
	return c
}

// restart begins a process with another clock.
func (c *agreedCluster) restart(i int, off time.Duration) {
	n := c.nodes[i]
	n.off = off
	n.Agreed = NewAgreed(func(now time.Time) int64 { return now.UnixNano() + int64(n.off) })
}

// run lets every node ask the leader, for a while.
func (c *agreedCluster) run(d time.Duration) {
	for end := c.now.Add(d); c.now.Before(end); c.now = c.now.Add(200 * time.Millisecond) {
		c.leader.Lead(len(c.nodes), c.now)
		for _, n := range c.nodes {
			if n == c.leader {
				continue
			}
			r := n.Report(c.leader.name)
			x := c.leader.Answer(n.name, r, len(c.nodes), c.now.Add(c.trip/2))
			n.Heard(c.leader.name, c.now, c.now.Add(c.trip), x)
		}
	}
}

// check checks that every node's time is off by the same, and that of the right one.
func (c *agreedCluster) check(t *testing.T, when string, want time.Duration) {
	t.Helper()
	for _, n := range c.nodes {
		got := time.Duration(n.Read(c.now) - c.now.UnixNano())
		if !n.Known() || (got-want).Abs() > agreeTolerance+c.trip {
			t.Errorf("%s: the time of %s is %v off, known: %v; want %v", when, n.name, got, n.Known(), want)
		}
		if skew := n.Skew(c.now); (skew - n.off + want).Abs() > agreeTolerance+c.trip {
			t.Errorf("%s: %s is off by %v, and says %v", when, n.name, n.off-want, skew)
		}
	}
	for name, skew := range c.leader.Skews(c.now) {
		for _, n := range c.nodes {
			if n.name == name && (skew-n.off+want).Abs() > agreeTolerance+c.trip {
				t.Errorf("%s: the leader says that %s is off by %v", when, name, skew)
			}
		}
	}
}

func TestOneWrongClockChangesNothing(t *testing.T) {
	const wrong = 2 * time.Hour
	for _, off := range []time.Duration{wrong, -wrong, 61 * time.Second} {
		for leader := range 3 {
			for bad := range 3 {
				t.Run(fmt.Sprintf("%v at n%d, n%d leads", off, bad+1, leader+1), func(t *testing.T) {
					offs := []time.Duration{0, 0, 0}
					offs[bad] = off
					c := newAgreedCluster(offs...)
					c.leader = c.nodes[leader]
					c.run(2 * time.Second)
					c.check(t, "all started", 0)
					c.run(5 * time.Minute)
					c.check(t, "later", 0)
					c.leader = c.nodes[bad]
					c.run(5 * time.Minute)
					c.check(t, "the wrong one leads", 0)
				})
			}
		}
	}
}

// All processes but one restart with other clocks, and one of those leads: the time of the one that ran goes on.
func TestTheAgreedTimeOutlivesRestarts(t *testing.T) {
	c := newAgreedCluster(0, 0, 0)
	c.run(2 * time.Second)
	c.restart(0, 2*time.Hour)
	c.restart(1, 2*time.Hour)
	c.leader = c.nodes[0]
	c.run(2 * time.Second)
	for _, n := range c.nodes {
		if got := time.Duration(n.Read(c.now) - c.now.UnixNano()); got.Abs() > c.trip {
			t.Errorf("the time of %s jumped by %v at a restart", n.name, got)
		}
	}
	c.run(2 * agreeAfter) // two of three clocks stay there
	c.check(t, "followed", 2*time.Hour)
}

func TestTheAgreedTimeFollowsMostClocks(t *testing.T) {
	c := newAgreedCluster(0, 0, 0)
	c.run(2 * time.Second)
	for _, n := range c.nodes[:2] {
		n.off = -time.Hour
	}
	c.run(agreeAfter / 2)
	if got := time.Duration(c.nodes[2].Read(c.now) - c.now.UnixNano()); got.Abs() > c.trip {
		t.Errorf("followed at once: %v", got)
	}
	if got := c.nodes[2].Skew(c.now); (got - time.Hour).Abs() > time.Second {
		t.Errorf("the one that differs from most is said to be ahead by %v", got)
	}
	for _, n := range c.nodes[:2] {
		n.off = 0 // they were wrong for a while
	}
	c.run(agreeAfter)
	c.check(t, "not followed", 0)
	for _, n := range c.nodes[:2] {
		n.off = time.Hour
	}
	c.run(agreeAfter + 2*time.Second)
	c.check(t, "followed", time.Hour)
}

func TestANodeAloneHasItsOwnClock(t *testing.T) {
	c := newAgreedCluster(2 * time.Hour)
	if c.nodes[0].Known() {
		t.Error("known before it leads")
	}
	c.run(time.Second)
	c.nodes[0].off = 3 * time.Hour
	if got := time.Duration(c.nodes[0].Read(c.now) - c.now.UnixNano()); got != 3*time.Hour {
		t.Errorf("its time is %v off", got)
	}
	if got := c.nodes[0].Skew(c.now); got != 0 {
		t.Errorf("it differs by %v", got)
	}
}

func TestALeaderWithoutAMajorityKnowsNoTime(t *testing.T) {
	c := newAgreedCluster(2*time.Hour, 0, 0)
	c.leader.Lead(3, c.now)
	c.now = c.now.Add(2 * settleAfter)
	c.leader.Lead(3, c.now)
	x := c.leader.Answer("n2", Report{}, 3, c.now)
	if x.Known || c.leader.Known() {
		t.Error("it knows the time by its own clock alone")
	}
	c.nodes[1].Heard("n1", c.now, c.now, x)
	if c.nodes[1].Known() {
		t.Error("a node took the time of a leader that does not know it")
	}
	c.run(time.Second)
	c.check(t, "a majority asked", 2*time.Hour*0)
}

// Reports that compare with a time that was changed since do not change it again.
func TestReportsOfAnEarlierRoundDoNotCount(t *testing.T) {
	c := newAgreedCluster(2*time.Hour, 0, 0)
	c.run(2 * time.Second)
	c.check(t, "agreed", 0)
	stale := Report{Round: c.leader.round - 1, Wall: -2 * time.Hour}
	for range 10 {
		c.leader.Answer("n2", stale, 3, c.now)
		c.leader.Answer("n3", stale, 3, c.now)
	}
	if x := c.leader.Answer("n2", stale, 3, c.now); x.Off.Abs() > agreeTolerance {
		t.Errorf("they count: %v", x.Off)
	}
}

func TestAgreedTimeStaysWithinCorrectClocks(t *testing.T) {
	rnd := testrand.New(t)
	for range 15 {
		size := 3 + 2*rnd.IntN(2)
		offs := make([]time.Duration, size)
		for i := range (size - 1) / 2 { // a minority is wrong
			offs[i] = time.Duration(rnd.Int64N(int64(144*time.Hour))) - 72*time.Hour
		}
		rnd.Shuffle(size, func(i, j int) { offs[i], offs[j] = offs[j], offs[i] })
		c := newAgreedCluster(offs...)
		c.trip = time.Duration(rnd.Int64N(int64(100 * time.Millisecond)))
		for range 10 {
			c.leader = c.nodes[rnd.IntN(size)]
			if i := rnd.IntN(size); rnd.IntN(2) == 0 {
				c.restart(i, c.nodes[i].off)
			}
			c.run(time.Duration(rnd.Int64N(int64(3*time.Minute))) + time.Second)
			c.check(t, fmt.Sprint("clocks ", offs), 0)
		}
		if t.Failed() {
			return
		}
	}
}

func TestTheRoundTripIsHalved(t *testing.T) {
	a := NewAgreed(nil)
	sent := time.Now()
	a.Heard("n1", sent, sent.Add(100*time.Millisecond), Answer{Round: 1, Time: 1_000_000_000, Known: true})
	if got := a.Read(sent.Add(50 * time.Millisecond)); got != 1_000_000_000 {
		t.Errorf("in the middle of the trip it was %d", got)
	}
	a.Heard("n1", sent, sent.Add(time.Second), Answer{Round: 1, Time: 5_000_000_000, Known: true})
	if got := a.Read(sent.Add(50 * time.Millisecond)); got != 1_000_000_000 {
		t.Errorf("a slow answer changed it to %d", got)
	}
}
