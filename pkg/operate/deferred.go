package operate

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/deferral"
	"github.com/brokerd/brokerd/pkg/fate"
)

// Deferrals are the deferred messages of channels.
type Deferrals struct{ Node *Node }

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
func (d Deferrals) List(ctx context.Context, q deferral.Query) (deferral.Found, error) {
	t, err := d.Node.topics.Topic(q.Topic)
	if err != nil {
		return deferral.Found{}, err
	}
	pages := make([]deferral.Page, len(t.Partitions))
	err = everywhere(partitionsOf(t), func(i int) (err error) {
		pages[i], err = readAtLeader(ctx, d.Node, askDeferred, q.Topic, i, deferredArgs{channelAt{q.Topic, q.Channel, i}, q.In(i)})
		return err
	})
	if err != nil {
		return deferral.Found{}, err
	}
	return q.Merge(pages), nil
}

// Reschedule cancels or advances messages in all affected partitions. If it fails, some may be
// done: repeating the call does the rest.
func (d Deferrals) Reschedule(ctx context.Context, c deferral.Change) ([]deferral.Changed, error) {
	t, err := d.Node.topics.Topic(c.Topic)
	if err != nil {
		return nil, err
	}
	all := make([]deferral.Changed, len(t.Partitions))
	for i := range all {
		all[i].Partition = i
	}
	partitions := slices.DeleteFunc(partitionsOf(t), func(i int) bool { return !c.Touches(i) })
	var unsure atomic.Bool
	err = everywhere(partitions, func(i int) (err error) {
		a := rescheduleArgs{channelAt{c.Topic, c.Channel, i}, c.In(i), c.Verb, c.DryRun}
		all[i].Done, err = tryAtLeader(ctx, d.Node, askReschedule, partitionAt{c.Topic, i}, a, c.DryRun)
		if err != nil && !c.DryRun && fate.Of(err) == fate.Uncertain {
			unsure.Store(true)
		}
		return err
	})
	changed := 0
	for _, p := range all {
		changed += p.Count
	}
	if err != nil && !c.DryRun && (changed > 0 || unsure.Load()) {
		err = c.Partly(changed, err)
	}
	return all, err
}
