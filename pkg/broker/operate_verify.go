package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// copyArgs asks a node for its copy of a partition.
type copyArgs struct {
	Topic       string           `json:"topic"`
	Incarnation meta.Incarnation `json:"incarnation"`
	Partition   int              `json:"partition"`
	From        seq.Offset       `json:"from,omitempty"` // of a digest
	End         seq.Offset       `json:"end,omitempty"`
}

// extent is how far a copy goes.
type extent struct {
	LogStart     seq.Offset `json:"log_start"`
	CommittedEnd seq.Offset `json:"committed_end"`
	LogEnd       seq.Offset `json:"log_end"`
	Bytes        int64      `json:"bytes"`
}

var askExtent = question[copyArgs, extent]{"extent", func(o *desk, _ context.Context, a copyArgs) (extent, error) {
	l, err := o.logHere(a)
	if err != nil {
		return extent{}, err
	}
	// The start last: it only grows, and all of the digest must be there.
	e := extent{CommittedEnd: l.CommittedEnd(), LogEnd: l.End(), Bytes: l.Bytes()}
	e.LogStart = l.Start()
	return e, nil
}}

var askDigest = question[copyArgs, string]{"digest", func(o *desk, ctx context.Context, a copyArgs) (string, error) {
	l, err := o.logHere(a)
	if err != nil {
		return "", err
	}
	return digest(ctx, l, a.From, a.End)
}}

// digestChunk is how much of a log is read at a time.
const digestChunk = 1 << 20

// digest returns the SHA-256 of a log's batches from the one that begins at
// from to the last that ends at or before end, in hexadecimal.
func digest(ctx context.Context, l *commitlog.Log, from, end seq.Offset) (string, error) {
	h := sha256.New()
	var buf []byte
	for o := from; o < end; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		raw, err := l.ReadRaw(o, digestChunk, buf)
		if err != nil {
			return "", err
		}
		for rest := raw; len(rest) > 0; {
			b, err := commitlog.Decode(rest)
			if err != nil {
				return "", err
			}
			if o = b.End(); o > end {
				break
			}
			h.Write(b.Raw())
			rest = rest[b.Size():]
		}
		buf = raw
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Digest returns the digests of a topic's partitions, on every replica that can
// be asked, over what all in-sync ones have: from the latest start to the least
// committed end. A replica that is not in sync and has not come that far is left
// out.
func (o *contents) Digest(ctx context.Context, name string) ([]PartitionDigest, error) {
	t, err := o.d.Topic(name)
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
func (o *contents) compare(ctx context.Context, t *meta.Topic, i int) PartitionDigest {
	p := &t.Partitions[i]
	out := PartitionDigest{Partition: i, Digests: map[string]string{}}
	a := copyArgs{Topic: t.Name, Incarnation: t.Incarnation, Partition: i}
	same := func(meta.NodeID) copyArgs { return a }
	extents := askAll(ctx, &o.desk, askExtent, o.copiesOf(p), same)
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
	together(numbers, func(k int) { answers[k].digest, answers[k].err = askDigest.ask(ctx, &o.desk, answers[k].node, a) })
	for _, x := range answers {
		if x.err != nil {
			o.d.log.Warn("a replica could not be verified", "topic", t.Name, "partition", i, "node", x.node, "error", x.err)
			continue
		}
		out.Digests[string(x.node)] = x.digest
	}
	return out
}

// copiesOf returns the replicas of a partition that are not known to be down.
func (o *desk) copiesOf(p *meta.Partition) []meta.NodeID {
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

// logHere returns this node's copy of a partition.
func (o *desk) logHere(a copyArgs) (*commitlog.Log, error) {
	h := o.d.lookup(a.Topic)
	if h == nil || a.Incarnation != 0 && h.incarnation != a.Incarnation {
		return nil, ErrTopicNotFound
	}
	if l := h.log(a.Partition); l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("%s/%d: %w", a.Topic, a.Partition, ErrPartitionNotFound)
}
