package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stall"
)

const (
	// leadCheck is the longest time between two comparisons of the node's leaderships with the
	// metadata; leadPause is the shortest.
	leadCheck = time.Second
	leadPause = 250 * time.Millisecond
	// RaceWindow and raceEpochs define when a leadership keeps changing: its epoch grew by
	// raceEpochs within RaceWindow. A restart of each replica with transfers before and after
	// stays below that.
	RaceWindow = 10 * time.Second
	raceEpochs = 10
	// racesEnd is the time after the last change of the metadata after which no race continues.
	racesEnd = 2*RaceWindow + leadCheck
)

// leadWatch finds partitions that this node should lead and does not, and held partitions whose
// leadership keeps changing, whatever the reason. Each is a stall, and is therefore reported in the
// log, health and a metric. One goroutine uses it.
type leadWatch struct {
	o        *Options
	topics   *Topics
	failures *roleErrors
	stalls   *stall.Board
	open     map[stall.Key]bool
	races    map[meta.PartitionID]race

	index   uint64    // index of the metadata at the last round,
	changed time.Time // and when it was first seen
}

// race is the growth of a partition's epoch.
type race struct {
	from  seq.Epoch
	since time.Time
	fast  bool // raceEpochs within the last whole window, or within this one
}

func newLeadWatch(n *Host) *leadWatch {
	return &leadWatch{o: n.o, topics: n.Topics, failures: n.failures, stalls: n.Stalls, open: map[stall.Key]bool{}, races: map[meta.PartitionID]race{}}
}

// run compares after each change of the metadata, and periodically, until ctx ends.
func (w *leadWatch) run(ctx context.Context) {
	timer := time.NewTimer(leadCheck)
	defer timer.Stop()
	for {
		changed := w.o.Meta.Changed()
		w.round(w.o.Meta.View(), time.Now())
		if !beat.Pause(ctx, leadPause) {
			return
		}
		timer.Reset(leadCheck - leadPause)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timer.C:
		}
	}
}

// round visits every partition that the metadata assigns to this node.
func (w *leadWatch) round(s *meta.State, now time.Time) {
	if s.Index() != w.index {
		w.index, w.changed = s.Index(), now
	}
	// If no epoch has changed for racesEnd, every window has ended without a race, and so would the
	// next.
	rest := now.Sub(w.changed) > racesEnd
	found := map[stall.Key]string{}
	races := make(map[meta.PartitionID]race, len(w.races))
	if rest {
		races = w.races
	}
	meta.EachPartition(s, func(t *meta.Topic, i int, p *meta.Partition) {
		if !slices.Contains(p.Replicas, w.o.Self) {
			return
		}
		var r race
		if !rest {
			key := meta.PartitionID{Topic: t.Name, Incarnation: t.Incarnation, Partition: i}
			r = w.races[key].after(p.Epoch, now)
			races[key] = r
		}
		h := w.topics.Lookup(t.Name)
		leads := h != nil && h.Incarnation == t.Incarnation && h.leads(i, p.Epoch)
		switch {
		case p.Leader == w.o.Self && !leads:
			found[stall.Key{Kind: stall.Lead, Topic: t.Name, Partition: i}] = w.whyNot(h, i)
		case r.fast && !leads:
			found[stall.Key{Kind: stall.Lead, Topic: t.Name, Partition: i}] = fmt.Sprintf("leadership keeps changing: epoch %d", p.Epoch)
		}
	})
	w.races = races
	for key := range w.open {
		if _, still := found[key]; !still {
			delete(w.open, key)
			w.stalls.End(key)
		}
	}
	for key, why := range found {
		w.open[key] = true
		w.stalls.Begin(key, now, why)
	}
}

// after returns the race of a partition whose epoch is now e.
func (r race) after(e seq.Epoch, now time.Time) race {
	switch over := now.Sub(r.since) >= RaceWindow; {
	case r.since.IsZero():
		return race{from: e, since: now}
	case e-r.from >= raceEpochs:
		r.fast = true
		if over {
			r.from, r.since = e, now
		}
	case over:
		return race{from: e, since: now}
	}
	return r
}

// leads reports whether partition i is led here in an epoch.
func (h *Topic) leads(i int, e seq.Epoch) bool {
	lp := h.Led(i)
	return lp != nil && lp.Term.Epoch() == e
}

// whyNot returns the known reason why this node does not lead a partition.
func (w *leadWatch) whyNot(h *Topic, i int) string {
	if h == nil {
		return "topic not open yet"
	}
	if err := w.failures.reason(h, i); err != nil {
		return err.Error()
	}
	hp := h.Held(i)
	if hp == nil {
		return "log not open yet"
	}
	switch condition(hp.state.Load()) {
	case missing:
		return "its data is missing on disk"
	case outdated:
		return "its data is of another disk or an older copy"
	case damaged:
		return "its data is corrupt"
	case suspected:
		return "it may have lost acknowledged messages"
	case intact:
	}
	return "role change in progress"
}
