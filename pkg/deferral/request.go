package deferral

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Place is the message after which a list of deferred messages continues.
type Place struct {
	Due       time.Time
	Partition int
	Offset    seq.Offset
}

// from returns where the list continues in a partition.
func (p *Place) from(partition int) (after time.Time, from seq.Offset) {
	switch {
	case p == nil:
		return time.Time{}, 0
	case partition < p.Partition:
		return p.Due, seq.MaxOffset + 1
	case partition == p.Partition:
		return p.Due, p.Offset + 1
	}
	return p.Due, 0
}

// Query is a request for the deferred messages of a channel in all partitions, by due time.
type Query struct {
	Topic, Channel string
	channel.Window
	After *Place // nil: from the beginning
	Max   int
}

// Found is the answer to a Query.
type Found struct {
	Messages []Located
	Total    int // in the window
}

// Located is a deferred message and its partition.
type Located struct {
	Partition int
	Message
}

// In returns the page to request from a partition.
func (q *Query) In(partition int) channel.DeferredPage {
	page := channel.DeferredPage{Window: q.Window, Max: min(q.Max, MaxPage)}
	page.After, page.From = q.After.from(partition)
	return page
}

// Merge returns the answer, given the page of each partition.
func (q *Query) Merge(pages []Page) (out Found) {
	for i, p := range pages {
		out.Total += p.Total
		for _, m := range p.Messages {
			out.Messages = append(out.Messages, Located{i, m})
		}
	}
	slices.SortFunc(out.Messages, func(a, b Located) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	out.Messages = out.Messages[:min(len(out.Messages), q.Max)]
	return out
}

// Change is a request to cancel or advance deferred messages of a channel in all partitions.
type Change struct {
	Topic, Channel string
	Verb           Verb
	Named          map[int][]seq.Offset // by partition; nil: those in the window
	channel.Window
	DryRun bool // only count them
}

// Changed is the result of a Change in one partition.
type Changed struct {
	Partition int
	Done
}

// In returns what the change selects in a partition.
func (c *Change) In(partition int) Selection {
	return Selection{Offsets: c.Named[partition], Window: c.Window}
}

// Touches reports whether the change selects anything in a partition.
func (c *Change) Touches(partition int) bool {
	return c.Named == nil || len(c.Named[partition]) > 0
}

// Partly returns the error of a change that was, or may have been, carried out for some messages,
// whatever the outcome of the others: the error of one partition does not describe the whole.
func (c *Change) Partly(changed int, err error) error {
	return fate.Mark(fmt.Errorf("outcome unknown: %s was confirmed for %d messages, and may have been applied to more; "+
		"repeat the command to apply it to the rest: %v", c.Verb, changed, err), fate.Uncertain)
}
