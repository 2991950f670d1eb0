package broker

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/route"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// send publishes one message and does not wait. It overwrites the body
// afterwards, like a connection that reuses its buffer.
func (n *meshNode) send(name string, partition int, body string, done func(topic.Receipt)) {
	p := publish.Request{Topic: name, Partition: partition, Messages: []topic.Message{{Body: []byte(body)}}, Done: done}
	n.Router.Publish(n.t.Context(), p)
	clear(p.Messages[0].Body)
}

// log returns the bodies in a partition, in order, as its leader has them.
func (n *meshNode) log(name string, partition int) []string {
	n.t.Helper()
	var bodies []string
	for {
		all, err := n.Node.PeekHere(n.t.Context(), operate.Peek{Topic: name, Partition: partition, From: new(seq.Offset(len(bodies))), Max: operate.MaxPeek})
		if err != nil {
			n.t.Fatal(err)
		}
		for _, m := range all {
			bodies = append(bodies, string(m.Body))
		}
		if len(all) < operate.MaxPeek {
			return bodies
		}
	}
}

func TestPublishGoesToCurrentLeader(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2", "n1", "n2")
	a := m.nodes["n1"]
	r := a.publish(publish.Request{Topic: "t", Partition: 2, Messages: []topic.Message{
		{Body: []byte("one")}, {Body: []byte("two"), TraceID: 7, Header: []byte(`{"k":1}`), Delay: time.Hour},
	}})
	if r.Err != nil || r.Partition != 2 || r.First != 0 || r.Count != 2 || r.RawSize == 0 {
		t.Fatalf("got %+v", r)
	}
	got, err := m.nodes["n2"].Node.PeekHere(t.Context(), operate.Peek{Topic: "t", Partition: 2, From: new(seq.Offset(0)), Max: 10})
	if err != nil || len(got) != 2 {
		t.Fatalf("got %v, %v", got, err)
	}
	if m := got[1]; string(m.Body) != "two" || m.TraceID != 7 || string(m.Header) != `{"k":1}` || m.DeliverAt.Sub(m.Timestamp) != time.Hour {
		t.Errorf("got %+v", m)
	}
	for range 4 { // a partition led here is preferred
		if r := a.publish(publish.Request{Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("x")}}}); r.Err != nil || r.Partition != 1 {
			t.Errorf("got %+v", r)
		}
	}
	if r := a.publish(publish.Request{Topic: "t", Partition: 3}); !errors.Is(r.Err, failure.PartitionNotFound) {
		t.Errorf("got %+v", r)
	}
	seen := map[int]bool{}
	for i := range 20 {
		key := []byte(strconv.Itoa(i))
		r := a.publish(publish.Request{Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{{Body: key, Key: key}}})
		if r.Err != nil || r.Partition != route.PartitionOfKey(key, 3) {
			t.Errorf("key %s: %+v", key, r)
		}
		seen[r.Partition] = true
	}
	if len(seen) != 3 {
		t.Errorf("keys went to %v", seen)
	}
}

func TestLeadersRefusalIsPassedOn(t *testing.T) {
	disks := map[meta.NodeID]*small{"n1": {FS: vfs.NewMem(), free: 1 << 40}, "n2": {FS: vfs.NewMem(), free: 1 << 40}}
	m := newMeshWith(t, func(o *Options) { o.FS, o.DiskInterval = disks[o.Self], 20*time.Millisecond }, "n1", "n2")
	m.create("t", "n2")
	if err := m.nodes["n1"].Directory.AlterTopic(t.Context(), "t", func(c *meta.TopicConfig) { c.MaxMessage = 4 }); err != nil {
		t.Fatal(err)
	}
	m.converge("t")
	big := publish.Request{Topic: "t", Messages: []topic.Message{{Body: []byte("12345")}}}
	if r := m.nodes["n1"].publish(big); !errors.Is(r.Err, failure.MessageTooBig) {
		t.Errorf("got %+v", r)
	}
	disks["n2"].set(0)
	eventually(t, m.nodes["n2"].Host.Disk.Low)
	r := m.nodes["n1"].publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: []byte("1")}}})
	if !errors.Is(r.Err, failure.DiskFull) || r.Err.Error() != failure.DiskFull.Error() || fate.Of(r.Err) != fate.Refused {
		t.Errorf("got %+v", r)
	}
	disks["n2"].set(1 << 40)
	disks["n1"].set(0) // not the disk that it is written to
	eventually(t, func() bool { return m.nodes["n1"].Host.Disk.Low() && !m.nodes["n2"].Host.Disk.Low() })
	if r := m.nodes["n1"].publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: []byte("1")}}}); r.Err != nil {
		t.Errorf("got %+v", r)
	}
}

// settled collects receipts.
type settled struct {
	sync.WaitGroup
	mu       sync.Mutex // guards receipts
	receipts []topic.Receipt
}

func (s *settled) one() func(topic.Receipt) {
	s.Add(1)
	return func(r topic.Receipt) {
		s.mu.Lock()
		s.receipts = append(s.receipts, r)
		s.mu.Unlock()
		s.Done()
	}
}

// TestOrderSurvivesRefusals moves the leadership to a node and away from it.
func TestOrderSurvivesRefusals(t *testing.T) {
	r := testrand.New(t)
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	a, l, h := m.nodes["n1"], m.link("n1", "n2"), m.nodes["n2"].Host.Lookup("t")
	resume, refused := func() {}, 0
	l.refuse(func(uint8) error {
		if resume(); r.IntN(10) == 0 {
			refused++
			resume = h.Suspend()
		}
		return nil
	})
	var got settled
	var want []string
	for i := range 500 {
		want = append(want, strconv.Itoa(i))
		a.send("t", 0, want[i], got.one())
	}
	got.Wait()
	resume()
	for _, r := range got.receipts {
		if r.Err != nil {
			t.Fatalf("a publish failed: %v", r.Err)
		}
	}
	if log := m.nodes["n2"].log("t", 0); refused == 0 || !slices.Equal(log, want) {
		t.Errorf("after %d refusals the log is %v", refused, log)
	}
	ended(t, a.Broker)
}

// ended waits until no publish is in transit: a forward queue ends after the receipts of its
// last publish.
func ended(t *testing.T, b *Broker) {
	t.Helper()
	eventually(t, func() bool { partitions, bytes := b.Router.Waiting(); return partitions == 0 && bytes == 0 })
}

// TestOrderSurvivesTransfers publishes through a node that sometimes leads,
// while the leadership moves around.
func TestOrderSurvivesTransfers(t *testing.T) {
	r := testrand.New(t)
	ids := []meta.NodeID{"n1", "n2", "n3"}
	l := newLan(t, nil, ids...)
	l.create("t", ids...)
	l.inSync("t", 0, 3)
	window := make(chan struct{}, 64) // the number in transit
	over := make(chan struct{})
	var got settled
	var want []string
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := 0; ; i++ {
			select {
			case window <- struct{}{}:
			case <-over:
				return
			}
			want = append(want, strconv.Itoa(i))
			done := got.one()
			l.at("n1").Router.Publish(t.Context(), publish.Request{
				Topic: "t", Partition: 0, Messages: []topic.Message{{Body: []byte(want[i])}},
				Done: func(r topic.Receipt) {
					<-window
					done(r)
				},
			})
		}
	})
	for range 30 {
		before := got.count()
		l.eventually("publishes", func() bool { return got.count() > before+r.IntN(100) })
		to := ids[r.IntN(3)]
		if err := l.transfer(t.Context(), "t", to); err != nil {
			t.Error(err)
		}
	}
	close(over)
	publishing.Wait()
	got.Wait()
	for _, r := range got.receipts {
		if r.Err != nil {
			t.Fatalf("a publish failed: %v", r.Err)
		}
	}
	n := meshNode{node: &node{Broker: l.leader("t", 0), t: t}}
	if log := n.log("t", 0); !slices.Equal(log, want) {
		t.Errorf("of %d messages the log has %d: %v", len(want), len(log), log)
	}
}

func (s *settled) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.receipts)
}

func TestLeaderAcceptsNothingAfterRefusal(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n1")
	b := m.nodes["n1"]
	in := m.meta.Topic("t").Incarnation
	ask := func(round uint64, incarnation meta.Incarnation) error {
		msg := forward.Publish{Topic: "t", Incarnation: incarnation, Round: round, Messages: []topic.Message{{Body: []byte("x")}}}
		_, err := m.nodes["n2"].Call(t.Context(), "n1", forward.KindPublish, [][]byte{msg.Messages.Append(msg.AppendHead(nil))})
		return forward.FromRemote(err)
	}
	resume := b.Host.Lookup("t").Suspend()
	if err := ask(5, in); !errors.Is(err, failure.NotLeading) {
		t.Errorf("got %v", err)
	}
	resume()
	if err := ask(5, in); !errors.Is(err, failure.NotLeading) || fate.Of(err) != fate.Refused {
		t.Errorf("what overtakes: %v", err)
	}
	if err := ask(6, in); err != nil {
		t.Errorf("the next round: %v", err)
	}
	if err := ask(7, in+1); !errors.Is(err, failure.NotLeading) {
		t.Errorf("another incarnation: %v", err)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); {
		if time.Now().After(end) {
			t.Fatal("it did not come to that")
		}
		tick := time.NewTimer(time.Millisecond)
		<-tick.C
	}
}

func TestPublishWaitsForUnreachableLeader(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	a, l := m.nodes["n1"], m.link("n1", "n2")
	l.cut(true)
	var got settled
	for i := range 3 {
		a.send("t", 0, strconv.Itoa(i), got.one())
	}
	if len(got.receipts) != 0 {
		t.Errorf("got %v", got.receipts)
	}
	l.cut(false)
	got.Wait()
	if log := strings.Join(m.nodes["n2"].log("t", 0), ""); log != "012" {
		t.Errorf("got %q", log)
	}
}

func TestUncertainPublishIsNotSentAgain(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	a, l := m.nodes["n1"], m.link("n1", "n2")
	l.hold(true)
	var got settled
	a.send("t", 0, "x", got.one())
	l.cut(true)
	l.hold(false)
	l.cut(false)
	got.Wait()
	if r := got.receipts[0]; !errors.Is(r.Err, peer.ErrDisconnected) || fate.Of(r.Err) != fate.Uncertain {
		t.Errorf("got %+v", r)
	}
	a.send("t", 0, "y", got.one())
	got.Wait()
	if log := m.nodes["n2"].log("t", 0); !slices.Equal(log, []string{"y"}) {
		t.Errorf("got %v", log)
	}
}

// TestHungLeaderIsAbandonedWhenAnotherLeads has a leader that accepts
// a publish and never answers.
func TestHungLeaderIsAbandonedWhenAnotherLeads(t *testing.T) {
	stuck := make(chan func(), 100)
	l := newLan(t, func(o *Options) {
		if o.Self == "n3" {
			o.Calls.Remote = hanging{o.Calls.Remote, "n1", stuck}
		}
	}, "n1", "n2", "n3")
	l.create("t", "n1", "n2")
	l.inSync("t", 0, 2)
	l.leader("t", 0)
	at := l.at("n3")
	var got settled
	publish := func(body string) {
		at.Router.Publish(t.Context(), publish.Request{Topic: "t", Partition: 0, Messages: []topic.Message{{Body: []byte(body)}}, Done: got.one()})
	}
	publish("a")
	l.elect("t", 0, "n2")
	publish("b") // after it
	got.Wait()
	if r := got.receipts[0]; !errors.Is(r.Err, failure.Unconfirmed) || fate.Of(r.Err) != fate.Uncertain {
		t.Errorf("a: %+v", r)
	}
	if r := got.receipts[1]; r.Err != nil {
		t.Errorf("b: %+v", r)
	}
	(<-stuck)() // the answer arrives last
	ended(t, at)
}

// TestNothingOvertakesUnsentPublishes has a publish fail without a
// connection. The failure is reported only after a connection was made and the
// next publish was sent on it.
func TestNothingOvertakesUnsentPublishes(t *testing.T) {
	l := newLan(t, func(o *Options) {
		if o.Self == "n1" {
			o.Calls.Remote = &reluctant{Remote: o.Calls.Remote}
		}
	}, "n1", "n2")
	l.create("t", "n2")
	l.leader("t", 0)
	var got settled
	want := []string{"a", "b", "c"}
	for _, body := range want {
		l.at("n1").Router.Publish(t.Context(), publish.Request{Topic: "t", Messages: []topic.Message{{Body: []byte(body)}}, Done: got.one()})
	}
	got.Wait()
	for _, r := range got.receipts {
		if r.Err != nil {
			t.Errorf("a publish failed: %v", r.Err)
		}
	}
	n := meshNode{node: &node{Broker: l.at("n2"), t: t}}
	if log := n.log("t", 0); !slices.Equal(log, want) {
		t.Errorf("got %v", log)
	}
}

// reluctant is a forward.Remote that cannot send the first publish, and reports this
// after the answer to the second.
type reluctant struct {
	forward.Remote
	publishes atomic.Int32
	unsent    func([]byte, error)
}

func (r *reluctant) Go(node meta.NodeID, kind uint8, payload [][]byte, done func([]byte, error)) {
	if kind == forward.KindPublish {
		switch r.publishes.Add(1) {
		case 1:
			r.unsent = done
			return
		case 2:
			next := done
			done = func(reply []byte, err error) {
				next(reply, err)
				go r.unsent(nil, &peer.UnreachableError{Node: peer.Node(node), Err: errors.New("connection refused")})
			}
		}
	}
	r.Remote.Go(node, kind, payload, done)
}

// hanging is a forward.Remote that withholds the answers of one node.
type hanging struct {
	forward.Remote
	node  meta.NodeID
	stuck chan func()
}

func (r hanging) Go(node meta.NodeID, kind uint8, payload [][]byte, done func([]byte, error)) {
	if node == r.node && kind == forward.KindPublish {
		r.stuck <- func() { done(nil, peer.ErrDisconnected) }
		return
	}
	r.Remote.Go(node, kind, payload, done)
}

func TestWaitingEndsWithTheLastRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeshWith(t, func(o *Options) {
			if o.Self == "n1" {
				o.PublishTimeout = 50 * time.Millisecond
			}
		}, "n1", "n2")
		m.create("t", "n2")
		a := m.nodes["n1"]
		m.link("n1", "n2").refuse(func(uint8) error { return fmt.Errorf("%w: asked of n2", failure.Moving) })
		r := a.publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: []byte("x")}}})
		if !errors.Is(r.Err, failure.Moving) || !strings.Contains(r.Err.Error(), "asked of n2") || fate.Of(r.Err) != fate.Refused {
			t.Errorf("got %+v", r)
		}
	})
}

func TestWaitingPublishesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that nothing waits for too long
		m := newMesh(t, "n1", "n2")
		m.create("t", "n2")
		a, l := m.nodes["n1"], m.link("n1", "n2")
		l.cut(true)
		body := strings.Repeat("x", 1<<20)
		var got settled
		for range publish.QueueBytes>>20 + 1 {
			a.send("t", 0, body, got.one())
		}
		got.mu.Lock()
		if n := len(got.receipts); n == 0 || !errors.Is(got.receipts[0].Err, failure.QueueFull) || n > 2 {
			t.Errorf("%d are answered: %v", n, got.receipts)
		}
		got.mu.Unlock()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		got.Wait()
	})
}

func TestClosingFailsWaitingPublishes(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	a := m.nodes["n1"]
	m.link("n1", "n2").cut(true)
	var got settled
	a.send("t", 0, "x", got.one())
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	got.Wait()
	if r := got.receipts[0]; !errors.Is(r.Err, failure.ShuttingDown) {
		t.Errorf("got %+v", r)
	}
}

func TestDeletedTopicFailsWaitingPublishes(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	a := m.nodes["n1"]
	m.link("n1", "n2").cut(true)
	var got settled
	a.send("t", 0, "x", got.one())
	if _, err := m.meta.Propose(t.Context(), meta.DeleteTopic{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	got.Wait()
	if r := got.receipts[0]; !errors.Is(r.Err, failure.TopicNotFound) {
		t.Errorf("got %+v", r)
	}
}
