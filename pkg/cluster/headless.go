package cluster

import (
	"context"
	"log/slog"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// headlessFor is how long the metadata is without a leader before that is logged: longer than an
// ordinary election.
const headlessFor = 3 * time.Second

// leadership reports the metadata leader.
type leadership interface {
	Leader() (id meta.NodeID, known bool)
	// LeaderChanged returns a channel that is closed when the leader changes.
	LeaderChanged() <-chan struct{}
}

// tellHeadless logs when the metadata has had no leader for a while, and when it has one again, once
// each. silent returns the members that do not respond. It ends with ctx.
func tellHeadless(ctx context.Context, log *slog.Logger, of leadership, silent func() []string) {
	for ctx.Err() == nil {
		changed := of.LeaderChanged()
		if _, known := of.Leader(); known {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		since := time.Now()
		if !headless(ctx, of, headlessFor) {
			continue
		}
		log.Warn("no metadata leader: topics cannot be created or changed and partitions cannot change leaders until a majority of the voters responds",
			"for", headlessFor, "silent", silent())
		headless(ctx, of, 0)
		if leader, known := of.Leader(); known {
			log.Info("metadata leader elected", "leader", leader, "after", time.Since(since).Round(time.Millisecond))
		}
	}
}

// headless waits until there is a leader, ctx has ended or limit has passed (0: no limit), and
// reports whether there is still no leader.
func headless(ctx context.Context, of leadership, limit time.Duration) bool {
	var over <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	for {
		changed := of.LeaderChanged()
		if _, known := of.Leader(); known {
			return false
		}
		select {
		case <-changed:
		case <-over:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// twoVotersAfter is how long after its start a node checks whether there are only two voters: while a
// cluster forms, a third one joins within moments.
const twoVotersAfter = 10 * time.Second

// warnOfTwo logs that a cluster has two voters, unless ctx ends first.
func warnOfTwo(ctx context.Context, log *slog.Logger, voters func() []meta.NodeID) {
	if !beat.Pause(ctx, twoVotersAfter) {
		return
	}
	if ids := voters(); len(ids) == 2 {
		log.Warn("a cluster of two nodes tolerates no failure: while either is down, metadata cannot change and no leader can be elected; add a third node",
			"voters", ids)
	}
}

// silentVoters returns the other voters that do not respond, by id.
func silentVoters(c raftstore.Configuration, self meta.NodeID, answers func(meta.NodeID) bool) (ids []string) {
	for _, id := range c.Voters() {
		if id != self && !answers(id) {
			ids = append(ids, string(id))
		}
	}
	return ids
}
