package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/seq"
)

func (f *fake) FinishMessage(_ context.Context, topic, channel string, partition int, offset seq.Offset) (api.PeekState, error) {
	if offset > 100 {
		return "", failure.MessageNotFound
	}
	return api.PeekInFlight, f.onChannel(fmt.Sprintf("finish %d/%d of", partition, offset), topic, channel)
}

func (f *fake) PlanMove(_ context.Context, topic, channel string, to *operate.SeekTo) ([]api.PartitionMove, error) {
	f.sought = *to
	return []api.PartitionMove{{Partition: 1, Now: 5, Target: 2, Redelivered: 3, Skipped: 1}}, f.fail
}

func (f *fake) ChannelHistory(topic, channel string) ([]*meta.Saved, error) {
	return f.saved, f.fail
}

func (f *fake) UndoChannel(_ context.Context, topic, channel string) (api.UndoneMove, error) {
	if len(f.saved) == 0 {
		return api.UndoneMove{}, failure.NothingToUndo
	}
	return undoneOf(f.saved[0], api.UndonePartition{Partition: 1, Confirmed: 5, Gone: 2}), f.onChannel("undo", topic, channel)
}

func (f *fake) RestoreChannel(_ context.Context, topic, channel string, _ bool) (api.UndoneMove, error) {
	if f.topics[topic].Channels[channel] != nil {
		return api.UndoneMove{}, failure.ChannelThere
	}
	return undoneOf(f.saved[0]), nil
}

func undoneOf(s *meta.Saved, parts ...api.UndonePartition) api.UndoneMove {
	return api.UndoneMove{Topic: s.Topic, Channel: s.Channel, Verb: s.Verb, At: time.Unix(0, s.At).UTC(), Partitions: append([]api.UndonePartition{}, parts...)}
}

func (f *fake) RecordAct(_ context.Context, a meta.Act, outcome fate.Fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fates = append(f.fates, outcome)
	f.journal.Apply(f.journal.Index()+1, meta.RecordAct{Act: a})
}

func (f *fake) Journal() meta.Journal { return meta.JournalOf(&f.journal) }
