package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

// split separates elections for partitions without a leader, which are urgent, from those that a
// living leader can prepare.
func split(s *meta.State, all []meta.Election) (urgent, gentle []meta.Election) {
	for _, e := range all {
		if leader := leaderOf(s, e); leader != nil && leader.State != meta.NodeDown && leader.ID != e.Leader && e.Leader != "" && !e.Unclean {
			gentle = append(gentle, e)
			continue
		}
		urgent = append(urgent, e)
	}
	return urgent, gentle
}

// leaderOf returns the node that leads the partition of an election, or nil.
func leaderOf(s *meta.State, e meta.Election) *meta.Node {
	t := s.Topic(e.Topic)
	if t == nil || e.Partition < 0 || e.Partition >= len(t.Partitions) {
		return nil
	}
	return s.Node(t.Partitions[e.Partition].Leader)
}

// elect proposes elections. Living leaders are first asked for a graceful transfer, so that no
// publish fails; those that refuse are deposed. Transfers that a leader had no time for are left
// to the next decision.
func (c *chair) elect(ctx context.Context, command meta.ElectLeaders) (meta.Result, error) {
	state := c.store.View()
	urgent, gentle := split(state, command.Elections)
	var r meta.Result
	var err error
	if len(urgent) > 0 {
		r, err = c.propose(ctx, meta.ElectLeaders{Elections: urgent})
	}
	if len(gentle) == 0 {
		return r, err
	}
	if refused := c.handOver(ctx, state, gentle); len(refused) > 0 {
		return c.propose(ctx, meta.ElectLeaders{Elections: refused})
	}
	if c.store.Applied() == state.Index() { // leaders that accepted did nothing; ask them again, but not at once
		beat.Pause(ctx, askAgain)
	}
	return r, err
}

// handOver asks leaders for graceful transfers, and returns the elections that they could not or
// did not prepare. It stops when a connection to a node breaks, because an election after a
// failure must not wait.
func (c *chair) handOver(ctx context.Context, state *meta.State, elections []meta.Election) (refused []meta.Election) {
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	defer c.onAlarm(cancel)()
	var mu sync.Mutex // guards refused
	var next atomic.Int64
	var asking sync.WaitGroup
	for range min(handoverLimit, len(elections)) {
		asking.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(elections) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				err := c.askHandover(ctx, state, elections[i])
				if err == nil || ctx.Err() != nil || passes(err) {
					continue
				}
				c.log.Warn("graceful leadership transfer failed; electing a new leader", "topic", elections[i].Topic, "partition", elections[i].Partition, "error", err)
				mu.Lock()
				refused = append(refused, elections[i])
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return refused
}

// passes reports whether a leader refused for what is over in a moment: it transfers the leadership for
// another request, or one of both had not applied yet what the other knew. The next decision asks again.
// A leader that is deposed fails what it has in progress.
func passes(err error) bool {
	return errors.Is(err, failure.Moving) || errors.Is(err, failure.StaleVersion) || errors.Is(err, failure.NotInISR)
}

func (c *chair) askHandover(ctx context.Context, state *meta.State, e meta.Election) error {
	p := state.Topic(e.Topic).Partitions[e.Partition]
	_, err := forward.TransferLeader.Ask(ctx, forward.Caller{Remote: c.calls}, p.Leader, forward.Transfer{
		Topic: e.Topic, Incarnation: e.Incarnation, Partition: e.Partition, Epoch: p.Epoch, To: e.Leader, Reason: e.Reason,
	})
	return err
}

// onAlarm calls f when a connection to a member breaks, until the returned function is called.
func (c *chair) onAlarm(f func()) (stop func()) {
	over := make(chan struct{})
	alarm := c.alarm.Wait()
	c.work.start(func() {
		select {
		case <-alarm:
			f()
		case <-over:
		}
	})
	return func() { close(over) }
}
