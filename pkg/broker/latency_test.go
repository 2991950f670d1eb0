package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

// TestLatenciesCoverTheCluster finishes messages of two leaders some time after
// they were published, at the first attempt and at the second.
func TestLatenciesCoverTheCluster(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprint("ordered ", ordered), func(t *testing.T) { latenciesOf(t, ordered) })
	}
}

func latenciesOf(t *testing.T, ordered bool) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, func(o *Options) { o.LatencyWindow = time.Minute }, "n1", "n2")
		l.spread("t", "n1", "n2")
		if err := l.at("n1").Directory.CreateChannel(t.Context(), "t", "c", ordered); err != nil {
			t.Fatal(err)
		}
		consumers := []*consumer{l.subscribe("t", "c", 0), l.subscribe("t", "c", 1)}
		kept := func() *latency.Histogram {
			for _, id := range []meta.NodeID{"n1", "n2"} {
				if got := l.at(id).Contents.ClusterStats(t.Context(), "t", "", false)[0].Channels[0].Latency; got == nil {
					t.Fatalf("%s keeps nothing", id)
				}
			}
			return l.at("n1").Contents.ClusterStats(t.Context(), "t", "", false)[0].Channels[0].Latency
		}
		near := func(what string, q float64, want time.Duration) {
			t.Helper()
			if got := kept().Quantile(q); (got - want).Abs() > want/16 {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		finish := func(c *consumer, d topic.Delivery) {
			t.Helper()
			if err := c.Finish(d.ID); err != nil {
				t.Fatal(err)
			}
		}
		if n := kept().Count(); n != 0 {
			t.Errorf("%d before there was a message", n)
		}
		began := time.Now()
		l.mustPut("t", 0, "a")
		l.mustPut("t", 1, "b")
		took := map[string]topic.Delivery{}
		for _, c := range consumers {
			d := c.takeSome(1)[0]
			took[string(d.Body)] = d
		}
		time.Sleep(2*time.Second - time.Since(began))
		finish(consumers[0], took["a"])
		near("one", 1, 2*time.Second)
		if err := consumers[1].Requeue(took["b"].ID, 0); err != nil {
			t.Fatal(err)
		}
		if n := kept().Count(); n != 1 {
			t.Errorf("%d after one was finished and one requeued", n)
		}
		again := consumers[1].takeSome(1)[0]
		time.Sleep(10*time.Second - time.Since(began))
		finish(consumers[1], again)
		near("both", 1, 10*time.Second)
		near("the quicker one", 0.5, 2*time.Second)
		time.Sleep(2 * time.Minute)
		if n := kept().Count(); n != 0 {
			t.Errorf("%d behind the window", n)
		}
	})
}

func TestLatenciesAreKeptOnlyOnRequest(t *testing.T) {
	n := newNode(t)
	n.put("t", "a")
	n.subscribe("t", "c").take(1)
	if got := n.Node.TopicStats("t", "", false)[0].Channels[0].Latency; got != nil {
		t.Errorf("%d are kept", got.Count())
	}
}
