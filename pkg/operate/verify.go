package operate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// copyArgs asks a node for its copy of a partition.
type copyArgs struct {
	controller.PartitionID
	From seq.Offset `json:"from,omitempty"` // of a digest
	End  seq.Offset `json:"end,omitempty"`
}

// extent is how far a copy goes.
type extent struct {
	LogStart     seq.Offset `json:"log_start"`
	CommittedEnd seq.Offset `json:"committed_end"`
	LogEnd       seq.Offset `json:"log_end"`
	Bytes        int64      `json:"bytes"`
	Checked      int64      `json:"checked,omitempty"`  // when all of it was last read from disk, ns since 1970; 0: never
	Checking     float64    `json:"checking,omitempty"` // the part that has been read since, 0 to 1
	Damaged      bool       `json:"damaged,omitempty"`
}

var askExtent = question[copyArgs, extent]{"extent", func(o *Node, _ context.Context, a copyArgs) (extent, error) {
	hp, err := o.replicaHere(a.PartitionID)
	if err != nil {
		return extent{}, err
	}
	l := hp.Replica.Log()
	// The start last: it only grows, and all of the digest must be there.
	e := extent{CommittedEnd: l.CommittedEnd(), LogEnd: l.End(), Bytes: l.Bytes(), Damaged: hp.Replica.Damaged()}
	e.LogStart = l.Start()
	e.Checked, e.Checking = o.host.Scrubber.Checked(hp.Name(), hp.Replica.Log())
	return e, nil
}}

var askDigest = question[copyArgs, string]{"digest", func(o *Node, ctx context.Context, a copyArgs) (string, error) {
	hp, err := o.replicaHere(a.PartitionID)
	if err != nil {
		return "", err
	}
	sum, err := DigestOf(ctx, hp.Replica.Log(), a.From, a.End)
	if fate.Of(err) == fate.Corrupt {
		hp.Replica.Spoil(err)
	}
	return sum, err
}}

// digestStep is how much of a log is read at a time.
const digestStep = 1 << 20

// errWhole ends the reading for a digest.
var errWhole = errors.New("log fully read")

// DigestOf returns the SHA-256 of a log's batches, as they are on the disk, from the
// one that holds from to the last that ends at or before end, in hexadecimal.
func DigestOf(ctx context.Context, l *commitlog.Log, from, end seq.Offset) (string, error) {
	h := sha256.New()
	c := commitlog.NewChecker(l, from)
	defer c.Close()
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		_, done, err := c.Step(digestStep, func(b commitlog.Batch) error {
			switch {
			case b.End() > end:
				return errWhole
			case b.End() > from:
				h.Write(b.Raw())
			}
			return nil
		})
		switch {
		case errors.Is(err, errWhole), err == nil && done:
			return hex.EncodeToString(h.Sum(nil)), nil
		case err != nil:
			return "", err
		}
	}
}

// Digest returns the digests of a topic's partitions, on every replica that can
// be asked, over what all in-sync ones have: from the latest start to the least
// committed end. A replica that is not in sync and has not come that far is left
// out.
func (o *Contents) Digest(ctx context.Context, name string) ([]PartitionDigest, error) {
	t, err := o.node.topics.Topic(name)
	if err != nil {
		return nil, err
	}
	all := make([]PartitionDigest, 0, len(t.Partitions))
	for i := range t.Partitions {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		all = append(all, o.compare(ctx, t, i))
	}
	return all, nil
}

// compare has the replicas of a partition read what they hold.
func (o *Contents) compare(ctx context.Context, t *meta.Topic, i int) PartitionDigest {
	p := &t.Partitions[i]
	out := PartitionDigest{Partition: i, Digests: map[string]string{}, Unreadable: map[string]string{}}
	a := copyArgs{PartitionID: idOf(t, i)}
	same := func(meta.NodeID) copyArgs { return a }
	extents := askAll(ctx, o.node, askExtent, o.node.copiesOf(p), same)
	var nodes []meta.NodeID
	if a.From, a.End, nodes = common(extents, p.ISR); len(nodes) == 0 {
		return out
	}
	out.CommittedEnd = a.End
	type answer struct {
		node   meta.NodeID
		digest string
		err    error
	}
	answers := make([]answer, len(nodes))
	for k, id := range nodes {
		answers[k].node = id
	}
	numbers := make([]int, len(nodes))
	for k := range numbers {
		numbers[k] = k
	}
	fan.Out(numbers, askTogether, func(k int) { answers[k].digest, answers[k].err = askDigest.ask(ctx, o.node, answers[k].node, a) })
	for _, x := range answers {
		if x.err != nil {
			o.node.Log.Warn("cannot verify replica", "topic", t.Name, "partition", i, "node", x.node, "error", x.err)
			out.Unreadable[string(x.node)] = x.err.Error()
			continue
		}
		out.Digests[string(x.node)] = x.digest
	}
	return out
}

// copiesOf returns the replicas of a partition that are not known to be down.
func (o *Node) copiesOf(p *meta.Partition) []meta.NodeID {
	return slices.DeleteFunc(o.present(), func(id meta.NodeID) bool { return !slices.Contains(p.Replicas, id) })
}

// common returns what all in-sync replicas hold of a partition, and those that
// hold it.
func common(extents map[meta.NodeID]extent, isr []meta.NodeID) (from, end seq.Offset, nodes []meta.NodeID) {
	first := true
	for id, e := range extents {
		if !slices.Contains(isr, id) {
			continue
		}
		if first || e.CommittedEnd < end {
			end = e.CommittedEnd
		}
		if first || e.LogStart > from {
			from = e.LogStart
		}
		first = false
	}
	if first {
		return 0, 0, nil
	}
	from = min(from, end)
	for id, e := range extents {
		if e.CommittedEnd >= end && e.LogStart <= from {
			nodes = append(nodes, id)
		}
	}
	slices.Sort(nodes)
	return from, end, nodes
}

// replicaHere returns this node's copy of a partition.
func (o *Node) replicaHere(a controller.PartitionID) (*host.Held, error) {
	h := o.host.Lookup(a.Topic)
	if h == nil || a.Incarnation != 0 && h.Incarnation != a.Incarnation {
		return nil, meta.ErrTopicNotFound
	}
	if hp := h.Held(a.Partition); hp != nil {
		return hp, nil
	}
	return nil, fmt.Errorf("%s/%d: %w", a.Topic, a.Partition, meta.ErrPartitionNotFound)
}
