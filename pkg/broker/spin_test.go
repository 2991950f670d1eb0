package broker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// A consumer requeues a message as soon as it gets it: all reports to operators name
// the message until the consumer stops.
func TestSpinningMessageIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2")
		m.create("t", "n2")
		c := m.nodes["n1"].subscribe("t", "c")
		m.nodes["n2"].put("t", "poison")
		named := func() (places []api.SpinningMessage, reasons []string) {
			for _, s := range m.nodes["n2"].Node.TopicStats("t", "c", false) {
				places = append(places, s.Channels[0].Partitions[0].Spinning...)
			}
			for _, r := range m.nodes["n2"].Node.Health().Reasons {
				if r.Code == "messages_spinning" {
					reasons = append(reasons, r.What)
				}
			}
			return places, reasons
		}
		for range 400 {
			if err := c.Requeue(c.takeSome(1)[0].ID, 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		places, reasons := named()
		if len(places) != 1 || places[0].Seq != 0 || places[0].PerSecond < 150 || places[0].PerSecond > 250 {
			t.Errorf("got %+v", places)
		}
		if len(reasons) != 1 || !strings.Contains(reasons[0], "t/c partition 0 seq 0") {
			t.Errorf("health says %q", reasons)
		}
		if h := m.nodes["n2"].Node.Health(); !h.Healthy || h.Degraded {
			t.Errorf("a consumer's doing makes the node %+v", h)
		}
		if err := c.Finish(c.takeSome(1)[0].ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if places, reasons := named(); len(places)+len(reasons) > 0 {
			t.Errorf("afterwards %+v, %q", places, reasons)
		}
	})
}
