package broker

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// changeCounter counts the changes that its node has proposed and reported to
// it.
type changeCounter struct {
	host.Observer
	left, joined, elections atomic.Int32
	refused                 atomic.Int32
}

func (c *changeCounter) ObservePublish(_ time.Duration, err error) {
	if err != nil {
		c.refused.Add(1)
	}
}

func (c *changeCounter) ObserveChange(change meta.Command, _ meta.Result) {
	switch change := change.(type) {
	case meta.ElectLeaders:
		c.elections.Add(1)
	case meta.AlterISR:
		if change.Joiner == "" {
			c.left.Add(1)
		} else {
			c.joined.Add(1)
		}
	}
}

// A leader's changes of the in-sync set, and the elections of a transfer, are observed: the metrics
// count them, and the alert about flapping replicas uses them.
func TestChangesOfTheHostAreObserved(t *testing.T) {
	count := &changeCounter{Observer: host.Deaf{}}
	l := newLan(t, func(o *Options) { o.Observer = count }, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.crash("n3")
	l.mustPut("t", 0, "a")
	l.inSync("t", 0, 2)
	l.start("n3")
	l.inSync("t", 0, 3)
	l.eventually("observed", func() bool { return count.left.Load() == 1 && count.joined.Load() == 1 })
	if err := l.transfer(t.Context(), "t", "n2"); err != nil {
		t.Fatal(err)
	}
	l.eventually("observed", func() bool { return count.elections.Load() == 1 })
}

// A publish that is refused at once counts as one that failed.
func TestRefusedPublishesAreObserved(t *testing.T) {
	count := &changeCounter{Observer: host.Deaf{}}
	l := newLan(t, func(o *Options) { o.Observer = count }, "n1")
	l.create("t", "n1")
	l.mustPut("t", 0, "a")
	if n := count.refused.Load(); n != 0 {
		t.Errorf("%d refusals", n)
	}
	b, done := l.at("n1"), make(chan error, 1)
	for i, r := range []publish.Request{
		{Topic: "t", Partition: 7, Messages: []topic.Message{{Body: []byte("no such partition")}}},
		{Topic: "a b", Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("no such topic")}}},
	} {
		r.Done = func(r topic.Receipt) { done <- r.Err }
		b.Router.Publish(t.Context(), r)
		if err := <-done; err == nil || int(count.refused.Load()) != i+1 {
			t.Errorf("request %d: %v, %d refusals", i, err, count.refused.Load())
		}
	}
}
