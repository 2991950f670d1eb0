package host

import (
	"log/slog"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stall"
)

func TestEpochRaceIsReported(t *testing.T) {
	now := time.Now()
	var r race
	step := func(d time.Duration, e seq.Epoch, fast bool) {
		t.Helper()
		now = now.Add(d)
		if r = r.after(e, now); r.fast != fast {
			t.Errorf("epoch %d: %+v", e, r)
		}
	}
	step(0, 1000, false) // the first that is seen
	step(RaceWindow/2, 1000+raceEpochs-1, false)
	step(RaceWindow/2, 1000+raceEpochs-1, false)
	step(RaceWindow/2, 1000+2*raceEpochs-1, true)
	step(RaceWindow/2, 1000+2*raceEpochs-1, true)
	step(RaceWindow-1, 1000+2*raceEpochs, true) // until a whole window has passed
	step(1, 1000+2*raceEpochs, false)
	if coord.StallAfter >= 5*time.Second {
		t.Errorf("a stall is said after %v", coord.StallAfter)
	}
}

// TestEpochRaceIsSeenAfterLongRest has a partition whose epoch grows slowly, then not at all, and then
// fast.
func TestEpochRaceIsSeenAfterLongRest(t *testing.T) {
	var state meta.State
	index := uint64(0)
	apply := func(c meta.Command) {
		t.Helper()
		index++
		if r := meta.ApplyAt(&state, index, 0, c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for _, id := range []meta.NodeID{"n1", "n2"} {
		apply(meta.NodeStarted{Node: meta.Node{ID: id, State: meta.NodeUp}})
	}
	apply(meta.CreateTopic{Name: "t", Config: meta.TopicConfig{Replicas: 2, Partitions: 1}.WithDefaults(2, true), Assignment: [][]meta.NodeID{{"n2", "n1"}}})
	w := &leadWatch{
		o: &Options{Self: "n1"}, topics: &Topics{}, failures: &roleErrors{all: map[meta.PartitionID]error{}},
		stalls: stall.New(slog.New(slog.DiscardHandler), time.Hour), open: map[stall.Key]bool{}, races: map[meta.PartitionID]race{},
	}
	now := time.Now()
	elect := func(times int) {
		for range times {
			p := state.Topic("t").Partitions[0]
			next := meta.NodeID("n1")
			if p.Leader == next {
				next = "n2"
			}
			apply(meta.ElectLeaders{Elections: []meta.Election{{Topic: "t", Version: p.Version, Leader: next}}})
		}
	}
	rounds := func(d time.Duration, races bool) {
		t.Helper()
		for end := now.Add(d); now.Before(end); now = now.Add(leadCheck) {
			w.round(state.Snapshot(), now)
		}
		if got := len(w.open) > 0; got != races {
			t.Fatalf("epoch %d, %v after the last change: %v", state.Topic("t").Partitions[0].Epoch, now.Sub(w.changed), w.open)
		}
	}
	rounds(time.Second, false)
	elect(raceEpochs - 2)
	rounds(time.Hour, false)
	elect(2)
	rounds(time.Minute, false)
	elect(raceEpochs)
	rounds(RaceWindow, true)
	rounds(2*racesEnd, false)
}
