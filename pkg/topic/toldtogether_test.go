package topic

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestAbandonedFinishIsNotRecorded: the message is delivered again, and this node, should it be
// started again, must not take it for finished.
func TestAbandonedFinishIsNotRecorded(t *testing.T) {
	s := newSet(t)
	c := s.keyedChannel("c", 1)
	r := s.bench().join(c)
	s.publishKeyed("a1", "b1", "c1", "a2")
	s.line.deliverAll()
	want(t, "first", r.take(9, s.now), "a1 b1 c1")
	r.finish("c1", "a1")
	s.now = s.now.Add(time.Second)
	r.finish("b1")
	s.line.deliver(1)
	s.line.deliver(2) // a1 and b1 are being sent to the other replicas
	s.now = s.now.Add(FinTimeout - time.Second)
	c.Tick(s.now)
	s.line.deliver(1)
	s.line.deliver(2)
	change := func(body string) []byte {
		return advance.Change{Channel: "c", Version: 1, Offset: r.got[body]}.Append(nil)
	}
	if noted := journals(s); bytes.Contains(noted, change("a1")) || !bytes.Contains(noted, change("b1")) {
		t.Errorf("noted: %x, want %x and not %x", noted, change("b1"), change("a1"))
	}
	want(t, "then", r.take(9, s.now), "a1")
	before := len(journals(s))
	r.finish("a1")
	s.now = s.now.Add(FinTimeout)
	c.Tick(s.now)
	s.line.deliverAll()
	if after := len(journals(s)); after != before {
		t.Errorf("%d bytes were noted of finishes that are all given up", after-before)
	}
}

// journals returns what the leader has noted of finishes.
func journals(s *set) (all []byte) {
	s.t.Helper()
	for _, name := range []string{"p/positions.journal.0", "p/positions.journal.1"} {
		data, err := vfs.ReadFile(s.nodes[s.leader].fs, name, 1<<20)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// TestManyFinishesDoNotGrowStack: FINs that arrive while others are being noted are noted next, and so on.
func TestManyFinishesDoNotGrowStack(t *testing.T) {
	faulty := vfstest.NewFaulty(vfs.NewMem())
	b := newBenchOn(t, faulty)
	c, err := b.p.AddChannel("c", 1, ChannelOptions{Order: policy.ByKey})
	if err != nil {
		t.Fatal(err)
	}
	const groups = 5
	r := b.join(c)
	for group := range groups {
		var messages []Message
		for i := range maxGroup {
			messages = append(messages, Message{Key: fmt.Appendf(nil, "k%d-%d", group, i), Body: []byte("x")})
		}
		b.publishAll(messages)
		if got := len(strings.Fields(r.take(maxGroup, b.now))); got != maxGroup {
			t.Fatalf("took %d", got)
		}
	}
	c.mu.Lock()
	for _, o := range c.state.TakenBy(r.id).Offsets() {
		if err := c.state.Holds().Add(o, r.id); err != nil {
			t.Fatal(err)
		}
		c.finishing.add(o, r.Consumer, b.now)
	}
	next := nextLocked(c)
	c.mu.Unlock()
	var depths []int
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpWrite {
			depths = append(depths, runtime.Callers(0, make([]uintptr, 1000)))
		}
		return vfstest.Fault{}
	})
	next.send(c)
	if len(depths) < groups || slices.Max(depths[1:]) > depths[1] {
		t.Errorf("noted at stack depths %v, want %d groups at one depth", depths, groups)
	}
	if got := c.Floor(); got != groups*maxGroup {
		t.Errorf("the channel stands at %d", got)
	}
}

// TestUnselectedMessagesAreNotCounted: not as delivered or finished, nor at the channel's rate;
// and no client gets an error about a message that it never had.
func TestUnselectedMessagesAreNotCounted(t *testing.T) {
	s := newSet(t)
	c := s.keyedChannel("c", 1)
	limit := new(policy.Limit)
	limit.SetRate(10, s.now) // one at once
	RetriesOf(c).SetPolicy(policy.Policy{}, limit)
	filter, err := header.ParseFilter([]byte(`{"type":1,"filter_ext_key":"x","filter_data":"1"}`))
	if err != nil {
		t.Fatal(err)
	}
	r := s.bench().join(c, func(o *ConsumerOptions) {
		o.Filter = filter
		o.Unfinished = func(o seq.Offset, err error) { t.Errorf("the client got an error of %d: %v", o, err) }
	})
	messages := keyedOf("a1", "a2", "-1", "b1")
	messages[3].Header = []byte(`{"x":"1"}`)
	s.p.Publish(messages, func(Receipt) {})
	s.line.deliverAll()
	want(t, "at a rate that allows one", r.take(9, s.now), "b1")
	s.now = s.now.Add(FinTimeout)
	c.Tick(s.now)
	if got := c.Stats().InFlight; got != 1 {
		t.Errorf("%d are in flight when the others have not heard in time, want b1", got)
	}
	want(t, "again", r.take(9, s.now), "")
	s.line.deliverAll()
	want(t, "once the others have heard", r.take(9, s.now), "")
	s.line.deliverAll()
	if x, k := c.Stats(), r.Counts(); x.Delivered != 1 || x.Finished != 0 || k.Delivered != 1 || k.Finished != 0 || x.Floor != 3 || k.InFlight != 1 {
		t.Errorf("%+v, consumer %+v", x, k)
	}
}
