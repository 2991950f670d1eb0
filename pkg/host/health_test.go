package host

import (
	"log/slog"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog/repair"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/quarantine"
	"github.com/brokerd/brokerd/pkg/stall"
)

// Each kind of stall is in the health of the node, once: stalls that stop it from serving are among the
// reasons for which it is not ready, the others are separate.
func TestStallsAreInTheHealth(t *testing.T) {
	const after = time.Second
	now := time.Now()
	_, asides := quarantine.New(quarantine.Options{})
	n := &Host{
		o:      &Options{Meta: &raftstore.Store{}},
		Stalls: stall.New(slog.New(slog.DiscardHandler), after), damage: repair.NewKnown(nil), life: &life{}, Disk: &diskspace.Space{},
		roles:      &roles{budget: coord.NewBudget(1 << 20)},
		Quarantine: &Quarantine{o: &Options{Meta: &raftstore.Store{}}, failures: &roleErrors{}, topics: &Topics{}, Asides: asides},
	}
	for kind := range stall.Slow + 1 {
		n.Stalls.Begin(stall.Key{Kind: kind, Topic: "t", Node: "n3"}, now.Add(-after), "")
	}
	seen := map[string]int{}
	for _, r := range append(n.NotReady(now), n.Reasons(now)...) {
		seen[r.Code]++
	}
	counts := n.Stalls.Counts(now)
	for code := range counts {
		if seen[code] != 1 {
			t.Errorf("%s is %d times in %v", code, seen[code], seen)
		}
	}
	if len(counts) != int(stall.Slow)+1 {
		t.Errorf("%d kinds of stalls: test the new one", len(counts))
	}
}
