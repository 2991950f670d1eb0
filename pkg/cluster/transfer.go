package cluster

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
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
// to the next decision, but not for longer than leaderTransferGiveUp.
func (c *controllerRole) elect(ctx context.Context, command meta.ElectLeaders) (meta.Result, error) {
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
	if refused := c.requestTransfers(ctx, state, gentle); len(refused) > 0 {
		return c.propose(ctx, meta.ElectLeaders{Elections: refused})
	}
	if c.store.Applied() == state.Index() { // leaders that accepted did nothing; ask them again, but not at once
		beat.Pause(ctx, askAgain)
	}
	return r, err
}

// requestTransfers asks leaders for graceful transfers, and returns the elections that they could not or
// did not prepare, or for which requests have failed for too long. It stops when a
// connection to a node breaks, because an election after a failure must not wait.
func (c *controllerRole) requestTransfers(ctx context.Context, state *meta.State, elections []meta.Election) (refused []meta.Election) {
	ctx, cancel := context.WithTimeout(ctx, leaderTransferTimeout)
	defer cancel()
	defer c.work.onClose(c.alarm.Wait(), cancel)()
	var mu sync.Mutex // guards refused
	var next atomic.Int64
	var asking sync.WaitGroup
	for range min(leaderTransferLimit, len(elections)) {
		asking.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(elections) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				err := c.requestTransfer(ctx, state, elections[i])
				if !c.transferTries.ends(ctx, err, askOf(state, elections[i]), time.Now()) {
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
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		refused = append(refused, c.unasked(state, elections, int(next.Load()))...)
	}
	return refused
}

// unasked returns the elections, from the first one on that was not asked for, whose leaders have not
// answered anything for too long.
func (c *controllerRole) unasked(state *meta.State, elections []meta.Election, first int) (silent []meta.Election) {
	for _, e := range elections[min(first, len(elections)):] {
		if c.transferTries.over(ask{leader: askOf(state, e).leader}, time.Now()) {
			silent = append(silent, e)
		}
	}
	if len(silent) > 0 {
		c.log.Warn("leaders do not answer requests for graceful leadership transfers; electing new leaders", "partitions", len(silent))
	}
	return silent
}

// ask is a request for a transfer. One with only a leader stands for all requests to that leader.
type ask struct {
	leader meta.NodeID
	of     meta.PartitionID
	epoch  seq.Epoch
}

func askOf(s *meta.State, e meta.Election) ask {
	p := &s.Topic(e.Topic).Partitions[e.Partition]
	return ask{p.Leader, meta.PartitionID{Topic: e.Topic, Incarnation: e.Incarnation, Partition: e.Partition}, p.Epoch}
}

// transferTries bounds for how long leaders are asked again. A leader that always refuses for what should be
// over in a moment, or that does not answer, would otherwise keep a leadership forever that it must
// give up, and a drain would never end. The zero value is ready for use by many goroutines.
type transferTries struct {
	mu     sync.Mutex // guards failed
	failed map[ask]tries
}

// tries are the times of the first and the last of consecutive failed requests.
type tries struct{ first, last time.Time }

// ends reports whether the outcome of a request means that the leader is deposed instead.
func (p *transferTries) ends(ctx context.Context, err error, a ask, now time.Time) bool {
	whole := ask{leader: a.leader}
	switch {
	case err == nil || ctx.Err() == nil && retryable(err): // if the transfer took place, a is not asked again
		p.forget(whole)
		return p.tried(a, now)
	case errors.Is(ctx.Err(), context.DeadlineExceeded): // no answer
		node, partition := p.tried(whole, now), p.tried(a, now)
		return node || partition
	}
	return ctx.Err() == nil // else the request was interrupted
}

// tried counts a failed request, and reports whether it was one too many.
func (p *transferTries) tried(a ask, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.failed, func(_ ask, t tries) bool { return now.Sub(t.last) > leaderTransferGiveUp })
	t, ok := p.failed[a]
	if !ok {
		t.first = now
	}
	if t.last = now; p.failed == nil {
		p.failed = map[ask]tries{}
	}
	p.failed[a] = t
	return now.Sub(t.first) >= leaderTransferGiveUp
}

// over reports whether requests have failed for too long.
func (p *transferTries) over(a ask, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.failed[a]
	return ok && now.Sub(t.first) >= leaderTransferGiveUp && now.Sub(t.last) <= leaderTransferGiveUp
}

func (p *transferTries) forget(a ask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failed, a)
}

// retryable reports whether a leader refused for a temporary reason: it transfers the leadership for
// another request, or one of both had not applied yet what the other knew. The next decision asks again:
// see transferTries. A leader that is deposed fails what it has in progress.
func retryable(err error) bool {
	return errors.Is(err, failure.Moving) || errors.Is(err, failure.StaleVersion) || errors.Is(err, failure.NotInISR)
}

func (c *controllerRole) requestTransfer(ctx context.Context, state *meta.State, e meta.Election) error {
	p := state.Topic(e.Topic).Partitions[e.Partition]
	_, err := forward.TransferLeader.Ask(ctx, forward.Caller{Remote: c.calls}, p.Leader, forward.Transfer{
		Topic: e.Topic, Incarnation: e.Incarnation, Partition: e.Partition, Epoch: p.Epoch, To: e.Leader, Reason: e.Reason,
	})
	return err
}
