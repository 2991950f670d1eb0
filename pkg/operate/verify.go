package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/seq"
)

// copyArgs asks a node for its copy of a partition.
type copyArgs struct {
	meta.PartitionID
	From seq.Offset `json:"from,omitempty"` // of a digest
	End  seq.Offset `json:"end,omitempty"`
}

var askCopy = question[copyArgs, api.Copy]{"copy", func(o *Node, _ context.Context, a copyArgs) (api.Copy, error) {
	hp, err := o.replicaHere(a.PartitionID)
	if err != nil {
		return api.Copy{}, err
	}
	l := hp.Replica.Log()
	// Read the start last: it only grows, and the digest must cover everything from it on.
	c := api.Copy{Answered: true, CommittedEnd: uint64(l.CommittedEnd()), LogEnd: uint64(l.End()), Bytes: l.Bytes(), Damaged: hp.Replica.Damaged()}
	c.LogStart = uint64(l.Start())
	checked, part := o.host.Scrubber.Checked(hp.Name(), hp.Replica.Log())
	if c.Checking = part; checked != 0 {
		c.CheckedAt = new(time.Unix(0, checked))
	}
	return c, nil
}}

var askDigest = question[copyArgs, string]{"digest", func(o *Node, ctx context.Context, a copyArgs) (string, error) {
	hp, err := o.replicaHere(a.PartitionID)
	if err != nil {
		return "", err
	}
	c := commitlog.NewChecker(hp.Replica.Log(), a.From)
	defer c.Close()
	sum, err := c.Digest(ctx, a.End)
	if fate.Of(err) == fate.Corrupt {
		hp.Replica.MarkDamaged(err)
	}
	return sum, err
}}

// Digest returns the digests of a topic's partitions, on every replica that responds, over what all
// in-sync ones have: from the latest start to the least committed end. A replica that is not in
// sync and does not reach that end is omitted.
func (o *Contents) Digest(ctx context.Context, name string) ([]api.PartitionDigest, error) {
	t, err := o.node.topics.Topic(name)
	if err != nil {
		return nil, err
	}
	all := make([]api.PartitionDigest, 0, len(t.Partitions))
	for i := range t.Partitions {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		all = append(all, o.compare(ctx, t, i))
	}
	return all, nil
}

// compare asks the replicas of a partition for digests of what they hold.
func (o *Contents) compare(ctx context.Context, t *meta.Topic, i int) api.PartitionDigest {
	p := &t.Partitions[i]
	out := api.PartitionDigest{Partition: i, Digests: map[string]string{}, Unreadable: map[string]string{}}
	a := copyArgs{PartitionID: idOf(t, i)}
	same := func(meta.NodeID) copyArgs { return a }
	copies := askAll(ctx, o.node, askCopy, o.node.copiesOf(p), same)
	out.Longer = o.longer(ctx, p, copies, a)
	var nodes []meta.NodeID
	if a.From, a.End, nodes = common(copies, p.ISR); len(nodes) == 0 {
		out.MissingNodes = unanswered(&out, p.ISR)
		return out
	}
	out.CommittedEnd = uint64(a.End)
	var mu sync.Mutex // guards out
	fan.Out(nodes, askTogether, func(id meta.NodeID) {
		digest, err := askDigest.ask(ctx, o.node, id, a)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, peer.ErrDisconnected), errors.Is(err, failure.Unreachable): // of the replica, nothing is known
		case err != nil:
			o.node.Log.Warn("cannot read a replica to verify it; the report lists it as unreadable", "topic", t.Name, "partition", i, "node", id, "error", err)
			out.Unreadable[string(id)] = err.Error()
		default:
			out.Digests[string(id)] = digest
		}
	})
	out.Identical, out.MissingNodes = identical(out.Digests, p.ISR) && len(out.Longer) == 0, unanswered(&out, p.ISR)
	return out
}

// longer returns the replicas with committed messages that the leader lacks, and their committed ends. The replicas
// were not asked at one moment, so the leader is asked again: its log has by now what another had as committed then.
func (o *Contents) longer(ctx context.Context, p *meta.Partition, copies map[meta.NodeID]api.Copy, a copyArgs) map[string]uint64 {
	leader, answered := copies[p.Leader]
	if !answered || len(beyond(copies, leader.LogEnd)) == 0 {
		return nil
	}
	leader, err := askCopy.ask(ctx, o.node, p.Leader, a)
	if err != nil {
		return nil // the caller names a leader that does not answer
	}
	return beyond(copies, leader.LogEnd)
}

// beyond returns the committed ends above an end; nil if none is.
func beyond(copies map[meta.NodeID]api.Copy, end uint64) map[string]uint64 {
	var out map[string]uint64
	for id, c := range copies {
		if c.CommittedEnd > end {
			if out == nil {
				out = map[string]uint64{}
			}
			out[string(id)] = c.CommittedEnd
		}
	}
	return out
}

// unanswered returns the nodes with an in-sync replica that did not say what they hold.
func unanswered(d *api.PartitionDigest, isr []meta.NodeID) (nodes []string) {
	for _, id := range isr {
		if d.Digests[string(id)] == "" && d.Unreadable[string(id)] == "" {
			nodes = append(nodes, string(id))
		}
	}
	slices.Sort(nodes)
	return nodes
}

// identical reports whether all digests are equal, and none of an in-sync replica is missing.
func identical(digests map[string]string, isr []meta.NodeID) bool {
	first := ""
	for _, d := range digests {
		if first = cmp.Or(first, d); d != first {
			return false
		}
	}
	return first != "" && !slices.ContainsFunc(isr, func(id meta.NodeID) bool { return digests[string(id)] == "" })
}

// copiesOf returns the replicas of a partition that are not known to be down.
func (o *Node) copiesOf(p *meta.Partition) []meta.NodeID {
	return slices.DeleteFunc(o.present(), func(id meta.NodeID) bool { return !slices.Contains(p.Replicas, id) })
}

// common returns the range that all in-sync replicas of a partition hold, and the nodes that hold
// it.
func common(copies map[meta.NodeID]api.Copy, isr []meta.NodeID) (from, end seq.Offset, nodes []meta.NodeID) {
	first := true
	for id, c := range copies {
		if !slices.Contains(isr, id) {
			continue
		}
		if first || seq.Offset(c.CommittedEnd) < end {
			end = seq.Offset(c.CommittedEnd)
		}
		from = max(from, seq.Offset(c.LogStart))
		first = false
	}
	if first {
		return 0, 0, nil
	}
	from = min(from, end)
	for id, c := range copies {
		if seq.Offset(c.CommittedEnd) >= end && seq.Offset(c.LogStart) <= from {
			nodes = append(nodes, id)
		}
	}
	slices.Sort(nodes)
	return from, end, nodes
}

// replicaHere returns this node's copy of a partition.
func (o *Node) replicaHere(a meta.PartitionID) (*host.Held, error) {
	h := o.host.Lookup(a.Topic)
	if h == nil || a.Incarnation != 0 && h.Incarnation != a.Incarnation {
		return nil, failure.TopicNotFound
	}
	if hp := h.Held(a.Partition); hp != nil {
		return hp, nil
	}
	return nil, fmt.Errorf("%s/%d: %w", a.Topic, a.Partition, failure.PartitionNotFound)
}
