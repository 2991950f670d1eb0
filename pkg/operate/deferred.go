package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/deferral"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Deferrals are the deferred messages of channels.
type Deferrals struct{ Node *Node }

// DeferredPlace is the message after which a list of deferred messages continues.
type DeferredPlace struct {
	Due       time.Time
	Partition int
	Offset    seq.Offset
}

// from returns where the list continues in a partition.
func (p *DeferredPlace) from(partition int) (after time.Time, from seq.Offset) {
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

// ListDeferred is a request for deferred messages by due time.
type ListDeferred struct {
	Topic, Channel string
	channel.Window
	After *DeferredPlace // nil: from the beginning
	Max   int
}

// DeferredMessage is a deferred message.
type DeferredMessage struct {
	Partition int
	deferral.Message
}

// DeferredList is a page of deferred messages.
type DeferredList struct {
	Messages []DeferredMessage
	Total    int // in the window
}

// deferredArgs asks the leader of a partition for deferred messages.
type deferredArgs struct {
	channelAt
	channel.DeferredPage
}

var askDeferred = question[deferredArgs, deferral.Page]{"deferred", func(o *Node, _ context.Context, a deferredArgs) (deferral.Page, error) {
	part, c, err := a.here(o)
	if err != nil {
		return deferral.Page{}, err
	}
	return deferral.List(part, c, a.DeferredPage), nil
}}

// rescheduleArgs asks the leader of a partition to change deferred messages.
type rescheduleArgs struct {
	channelAt
	deferral.Selection
	Verb   deferral.Verb `json:"verb"`
	DryRun bool          `json:"dry_run,omitempty"`
}

var askReschedule = question[rescheduleArgs, deferral.Done]{"reschedule", func(o *Node, ctx context.Context, a rescheduleArgs) (deferral.Done, error) {
	part, c, err := a.here(o)
	if err != nil {
		return deferral.Done{}, err
	}
	return deferral.Apply(ctx, part, c, a.Verb, a.Selection, a.DryRun)
}}

// List returns a page of the deferred messages of a channel in all partitions.
func (d Deferrals) List(ctx context.Context, l ListDeferred) (out DeferredList, err error) {
	t, err := d.Node.topics.Topic(l.Topic)
	if err != nil {
		return out, err
	}
	pages := make([]deferral.Page, len(t.Partitions))
	err = everywhere(partitionsOf(t), func(i int) (err error) {
		a := deferredArgs{channelAt{l.Topic, l.Channel, i}, channel.DeferredPage{Window: l.Window, Max: min(l.Max, deferral.MaxPage)}}
		a.After, a.From = l.After.from(i)
		pages[i], err = atLeader(ctx, d.Node, askDeferred, l.Topic, i, a)
		return err
	})
	if err != nil {
		return out, err
	}
	for i, p := range pages {
		out.Total += p.Total
		for _, m := range p.Messages {
			out.Messages = append(out.Messages, DeferredMessage{i, m})
		}
	}
	slices.SortFunc(out.Messages, func(a, b DeferredMessage) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	out.Messages = out.Messages[:min(len(out.Messages), l.Max)]
	return out, nil
}

// Reschedule cancels or advances deferred messages.
type Reschedule struct {
	Topic, Channel string
	Verb           deferral.Verb
	Named          map[int][]seq.Offset // by partition; nil: those in the window
	channel.Window
	DryRun bool // only count them
}

// Rescheduled is the result in one partition.
type Rescheduled struct {
	Partition int
	deferral.Done
}

// Reschedule cancels or advances messages in all affected partitions. If it fails, some may be
// done: repeating the call does the rest.
func (d Deferrals) Reschedule(ctx context.Context, r Reschedule) ([]Rescheduled, error) {
	t, err := d.Node.topics.Topic(r.Topic)
	if err != nil {
		return nil, err
	}
	all := make([]Rescheduled, len(t.Partitions))
	for i := range all {
		all[i].Partition = i
	}
	partitions := partitionsOf(t)
	if r.Named != nil {
		partitions = slices.DeleteFunc(partitions, func(i int) bool { return len(r.Named[i]) == 0 })
	}
	var unsure atomic.Bool
	err = everywhere(partitions, func(i int) (err error) {
		a := rescheduleArgs{channelAt{r.Topic, r.Channel, i}, deferral.Selection{Offsets: r.Named[i], Window: r.Window}, r.Verb, r.DryRun}
		all[i].Done, err = atLeader(ctx, d.Node, askReschedule, r.Topic, i, a)
		if err != nil && !r.DryRun && fate.Of(err) == fate.Uncertain {
			unsure.Store(true)
		}
		return err
	})
	changed := 0
	for _, p := range all {
		changed += p.Count
	}
	if err != nil && !r.DryRun && (changed > 0 || unsure.Load()) {
		err = partly(r.Verb, changed, err)
	}
	return all, err
}

// partly returns the error of a change that was, or may have been, carried out for some messages,
// whatever the outcome of the others: the error of one partition does not describe the whole.
func partly(verb deferral.Verb, changed int, err error) error {
	return fate.Mark(fmt.Errorf("outcome unknown: %s was confirmed for %d messages, and may have been applied to more; "+
		"repeat the command to apply it to the rest: %v", verb, changed, err), fate.Uncertain)
}
