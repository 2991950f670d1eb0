package broker

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/logtest"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/stall"
)

// complains reports whether a node's readiness and health contain a code with a
// text.
func (l *lan) complains(id meta.NodeID, code, text string) bool {
	b := l.at(id)
	for _, reasons := range [][]health.Reason{b.Node.Ready(), b.Node.Health().Reasons} {
		found := 0
		for _, r := range reasons {
			if r.Code == code && strings.Contains(r.What, text) {
				found++
			}
		}
		if found != 1 {
			return false
		}
	}
	return b.Host.Stalls.Counts(time.Now())[code] == 1
}

// TestIdleLeaderIsReported makes the metadata name a leader that is the
// only in-sync replica and has lost its data: it does not lead, and reports this
// in time.
func TestIdleLeaderIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Journal
		l := newLan(t, func(o *Options) { soon(o); o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, "n1", "n2")
		l.create("t", "n1", "n2")
		l.mustPut("t", 0, "a")
		l.kill("n2")
		l.eventually("n1 to be alone in sync", func() bool { return len(l.store.Topic("t").Partitions[0].ISR) == 1 })
		l.crash("n1")
		l.lose("n1")
		l.start("n1")
		time.Sleep(saysWithin)
		if !l.complains("n1", "partitions_not_led", "t/0 (its data is missing on disk)") {
			t.Errorf("ready %+v, health %+v, counts %v", l.at("n1").Node.Ready(), l.at("n1").Node.Health(), l.at("n1").Host.Stalls.Counts(time.Now()))
		}
		time.Sleep(stall.Check)
		if !log.Has("level=ERROR", "partitions whose assigned leader is not leading", "its data is missing") {
			t.Error("the log does not say it")
		}
		if h := l.at("n1").Operator.ClusterHealth(t.Context()); h.Healthy || h.Degraded {
			t.Errorf("the cluster: %+v", h)
		}
		l.start("n2")
		p := l.store.Topic("t").Partitions[0]
		if r, err := l.store.Propose(t.Context(), meta.ElectLeaders{Elections: []meta.Election{
			{Topic: "t", Version: p.Version, Leader: "n2", Unclean: true},
		}}); err != nil || r.Failed != nil {
			t.Fatal(err, r.Failed)
		}
		l.eventually("no complaint", func() bool { return l.at("n1").Host.Stalls.Counts(time.Now())["partitions_not_led"] == 0 })
	})
}

// TestCirclingLeadershipIsReported elects leaders faster than any of them can
// start to lead.
func TestCirclingLeadershipIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		l.mustPut("t", 0, "a")
		l.inSync("t", 0, 3)
		for end := time.Now().Add(saysWithin); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			for _, id := range []meta.NodeID{"n2", "n3"} {
				l.elect("t", 0, id)
			}
		}
		if !l.complains("n1", "partitions_not_led", "publishes to them wait or fail: t/0 (leadership keeps changing") {
			t.Errorf("ready %+v, health %+v, counts %v", l.at("n1").Node.Ready(), l.at("n1").Node.Health(), l.at("n1").Host.Stalls.Counts(time.Now()))
		}
		time.Sleep(3 * host.RaceWindow)
		if n := l.at("n1").Host.Stalls.Counts(time.Now())["partitions_not_led"]; n != 0 {
			t.Errorf("said though it is over: %+v", l.at("n1").Node.Ready())
		}
	})
}

// saysWithin is the time within which the health report lists a leader that
// does not lead.
const saysWithin = 5 * time.Second
