package nodes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// LagTime is after which a node that is paused lags: what was published waits for it. It is less than it
// takes until others consider the node down.
const LagTime = 300 * time.Millisecond

// Of EarlyCommits.
const (
	lookTime   = 150 * time.Millisecond // within which the others answer
	lagRounds  = 3
	lagBetween = 200 * time.Millisecond
)

// partitionCopies are the copies of a partition, as their nodes report them.
type partitionCopies struct {
	Leader string
	Copies []struct {
		Node         string
		Answered     bool
		CommittedEnd uint64 `json:"committed_end"`
		LogEnd       uint64 `json:"log_end"`
	}
}

// EarlyCommits pauses a node several times while messages are published to a topic with a replica on
// each of three nodes. What the leader and the other follower hold is not committed then. It returns an error if a
// follower considers it committed every time, or if no follower of a leader ever held any.
func (c *Cluster) EarlyCommits(ctx context.Context, topic string, lags *Node) error {
	t, err := c.Topic(ctx, topic)
	if err != nil {
		return err
	}
	early, held := map[int]int{}, map[string]bool{}
	for range lagRounds {
		parts, err := c.copiesWhile(ctx, topic, len(t.Partitions), lags)
		if err != nil {
			return err
		}
		for i, p := range parts {
			var committed uint64
			for _, copied := range p.Copies {
				if copied.Node == p.Leader {
					committed = copied.CommittedEnd
				}
			}
			for _, copied := range p.Copies {
				if copied.Node == p.Leader || copied.Node == lags.ID || p.Leader == lags.ID || !copied.Answered {
					continue
				}
				if copied.LogEnd > committed {
					held[p.Leader] = true
				}
				if copied.CommittedEnd > committed {
					early[i]++
				}
			}
		}
		select {
		case <-time.After(lagBetween):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for i, times := range early {
		if times == lagRounds {
			err = errors.Join(err, fmt.Errorf("a follower of partition %d of %s considers committed what its leader does not", i, topic))
		}
	}
	if err == nil && len(held) < 2 {
		err = &Late{fmt.Errorf("void: followers held what was not committed of these leaders only: %v", held)}
	}
	return err
}

// copiesWhile pauses a node and asks the others for the copies of all partitions meanwhile. It gets the answers once
// the node continues.
func (c *Cluster) copiesWhile(ctx context.Context, topic string, partitions int, lags *Node) ([]partitionCopies, error) {
	if err := lags.Pause(); err != nil {
		return nil, err
	}
	parts, errs := make([]partitionCopies, partitions), make([]error, partitions+1)
	time.Sleep(LagTime)
	var asked sync.WaitGroup
	for i := range parts {
		asked.Go(func() {
			errs[i] = c.Ask(ctx, http.MethodGet, fmt.Sprintf("/v1/topics/%s/partitions/%d", topic, i), nil, &parts[i])
		})
	}
	time.Sleep(lookTime)
	errs[partitions] = lags.Resume()
	asked.Wait()
	return parts, errors.Join(errs...)
}
