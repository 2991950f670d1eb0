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
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Deferrals are the deferred messages of channels.
type Deferrals struct{ node *Node }

// DeferralsOf returns the deferred messages of the channels of a node's cluster.
func DeferralsOf(o *Node) Deferrals { return Deferrals{o} }

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

// deferredArgs asks the leader of a partition.
type deferredArgs struct {
	Topic     string        `json:"topic"`
	Channel   string        `json:"channel"`
	Partition int           `json:"partition"`
	Since     time.Time     `json:"since"`
	Until     time.Time     `json:"until"`
	After     time.Time     `json:"after"`
	From      seq.Offset    `json:"from"`
	Max       int           `json:"max"`
	Named     []seq.Offset  `json:"named,omitempty"`
	Verb      deferral.Verb `json:"verb,omitempty"`
	DryRun    bool          `json:"dry_run,omitempty"`
}

// deferredPage is the answer to a list request.
type deferredPage struct {
	Found bool          `json:"found"` // the channel exists
	Page  deferral.Page `json:"page"`
}

// deferredDone is the answer to a change.
type deferredDone struct {
	Found bool          `json:"found"`
	Done  deferral.Done `json:"done"`
}

// here returns the requested partition and channel; the channel is nil if it does not exist.
func (a *deferredArgs) here(o *Node) (*topic.Partition, *topic.Channel, error) {
	part, err := o.ledPart(a.Topic, a.Partition)
	if err != nil {
		return nil, nil, err
	}
	return part, part.Channel(a.Channel), nil
}

var askDeferred = question[deferredArgs, deferredPage]{"deferred", func(o *Node, _ context.Context, a deferredArgs) (deferredPage, error) {
	part, c, err := a.here(o)
	if err != nil || c == nil {
		return deferredPage{}, err
	}
	page := channel.DeferredPage{Window: channel.Window{Since: a.Since, Until: a.Until}, After: a.After, From: a.From, Max: a.Max}
	return deferredPage{true, deferral.List(part, c, page)}, nil
}}

var askReschedule = question[deferredArgs, deferredDone]{"reschedule", func(o *Node, ctx context.Context, a deferredArgs) (deferredDone, error) {
	part, c, err := a.here(o)
	if err != nil || c == nil {
		return deferredDone{}, err
	}
	of := deferral.Selection{Offsets: a.Named, Window: channel.Window{Since: a.Since, Until: a.Until}}
	done, err := deferral.Apply(ctx, part, c, a.Verb, of, a.DryRun)
	return deferredDone{true, done}, err
}}

// List returns a page of the deferred messages of a channel in all partitions.
func (d Deferrals) List(ctx context.Context, l ListDeferred) (out DeferredList, err error) {
	t, err := d.node.topics.Topic(l.Topic)
	if err != nil {
		return out, err
	}
	pages := make([]deferredPage, len(t.Partitions))
	err = d.everywhere(t, func(i int) (found bool, err error) {
		a := deferredArgs{Topic: l.Topic, Channel: l.Channel, Partition: i, Since: l.Since, Until: l.Until, Max: min(l.Max, deferral.MaxPage)}
		a.After, a.From = l.After.from(i)
		pages[i], err = atLeader(ctx, d.node, askDeferred, l.Topic, i, a)
		return pages[i].Found, err
	})
	if err != nil {
		return out, err
	}
	for i, p := range pages {
		out.Total += p.Page.Total
		for _, m := range p.Page.Messages {
			out.Messages = append(out.Messages, DeferredMessage{i, m})
		}
	}
	slices.SortFunc(out.Messages, func(a, b DeferredMessage) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	out.Messages = out.Messages[:min(len(out.Messages), l.Max)]
	return out, nil
}

// everywhere is the function of that name, with an error for a channel that is in no partition.
func (d Deferrals) everywhere(t *meta.Topic, f func(i int) (found bool, err error)) error {
	found, err := everywhere(t, f)
	if err == nil && !found {
		return failure.ChannelNotFound
	}
	return err
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
	t, err := d.node.topics.Topic(r.Topic)
	if err != nil {
		return nil, err
	}
	all := make([]Rescheduled, len(t.Partitions))
	var unsure atomic.Bool
	err = d.everywhere(t, func(i int) (bool, error) {
		all[i].Partition = i
		named := r.Named[i]
		if r.Named != nil && len(named) == 0 {
			return false, nil
		}
		a := deferredArgs{
			Topic: r.Topic, Channel: r.Channel, Partition: i, Since: r.Since, Until: r.Until, Named: named, Verb: r.Verb, DryRun: r.DryRun,
		}
		done, err := atLeader(ctx, d.node, askReschedule, r.Topic, i, a)
		all[i].Done = done.Done
		if err != nil && !r.DryRun && fate.Of(err) == fate.Uncertain {
			unsure.Store(true)
		}
		return done.Found, err
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
