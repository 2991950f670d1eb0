package broker

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
)

func TestTakenMessagesAreUndeliverableAfterLease(t *testing.T) {
	l := newLan(t, nil, "n1", "n2")
	l.create("t", "n1", "n2")
	c := l.subscribe("t", "c", 0)
	l.mustPut("t", 0, "a", "b")
	later := func() time.Time { return time.Now().Add(host.DefaultLease + time.Second) }
	c.takeSome(1)
	if !c.Deliverable(time.Now()) {
		t.Error("not deliverable at once")
	}
	if !c.Deliverable(later()) {
		t.Error("nothing was taken since, and it may not be written")
	}
	c.takeSome(1)
	if c.Deliverable(later()) {
		t.Error("deliverable past the lease")
	}
	l.mustPut("t", 0, "c")
	c.takeSome(1)
	l.elect("t", 0, "n2")
	l.leader("t", 0)
	l.eventually("the former leader's resignation", func() bool { return c.Sources.Load().Live() == 0 })
	if c.Deliverable(time.Now()) {
		t.Error("deliverable though another node leads")
	}
}

func TestRelayedMessagesAreUndeliverableAfterPause(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	c := m.nodes["n1"].subscribe("t", "c")
	m.nodes["n2"].put("t", "a", "b")
	c.takeSome(1)
	if !c.Deliverable(time.Now()) {
		t.Error("not deliverable at once")
	}
	c.takeSome(1)
	if c.Deliverable(time.Now().Add(host.DefaultLease + time.Second)) {
		t.Error("deliverable after a pause")
	}
}

// slowReader advances the time when a message is taken, like a pause of the
// process between two instructions.
type slowReader struct {
	host.Observer
	pause atomic.Pointer[func()]
}

func (s *slowReader) ObserveDelivery(time.Duration) {
	if f := s.pause.Load(); f != nil {
		(*f)()
	}
}

func TestLeaderSendsRelayNothingAfterLease(t *testing.T) {
	watch := &slowReader{Observer: host.Deaf{}}
	l := newLan(t, func(o *Options) { o.Observer = watch }, "n1")
	l.create("t", "n1")
	lp := l.leader("t", 0).Host.Lookup("t").Led(0)
	b := l.at("n1")
	if err := b.Directory.CreateChannel(t.Context(), "t", "c", false); err != nil {
		t.Fatal(err)
	}
	ask := func(kind uint8, payload []byte) ([]byte, error) {
		type answer struct {
			payload [][]byte
			err     error
		}
		got := make(chan answer, 1)
		b.Calls.HandleForward("n2", 1, kind, payload, func(p [][]byte, err error) { got <- answer{p, err} })
		a := <-got
		return slices.Concat(a.payload...), forward.FromRemote(a.err)
	}
	_, err := ask(forward.KindSubscribe, (&forward.Subscribe{
		Handle: 7, Topic: "t", Incarnation: l.store.Topic("t").Incarnation, Channel: "c", Partitions: []int{0}, MsgTimeout: time.Minute, Credit: 10,
	}).Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	l.mustPut("t", 0, "a", "b")
	fetch := forward.Fetch{Handle: 7, MaxBytes: 1}.Append(nil)
	if p, err := ask(forward.KindFetch, fetch); err != nil || len(p) == 0 {
		t.Fatalf("%d bytes, %v", len(p), err)
	}
	end := func() { lp.Lease.Superseded(math.MaxUint32) }
	watch.pause.Store(&end)
	if p, err := ask(forward.KindFetch, fetch); !errors.Is(err, failure.NotLeased) || len(p) > 0 {
		t.Errorf("%d bytes, %v", len(p), err)
	}
}

func TestRelayEndsAfterPause(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	c := m.nodes["n1"].subscribe("t", "c")
	m.nodes["n2"].put("t", "a")
	c.takeSome(1)
	was := c.Sources.Load().Relays[0]
	m.nodes["n1"].Consumers.Beat(time.Now().Add(time.Hour)) // as if there had been none for so long
	m.nodes["n2"].put("t", "b")
	var got []string
	for _, d := range c.takeSome(2) {
		got = append(got, fmt.Sprint(string(d.Body), d.Attempts))
	}
	slices.Sort(got)
	if strings.Join(got, " ") != "a2 b1" && strings.Join(got, " ") != "a2 b2" {
		t.Errorf("got %q", got)
	}
	if !was.Gone() {
		t.Error("the relay has outlived the pause")
	}
	if c.ended.Load() != nil {
		t.Error("the client was disconnected")
	}
}
