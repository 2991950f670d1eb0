package admin

import (
	"context"
	"fmt"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/seq"
)

func (f *fake) FinishMessage(_ context.Context, topic, channel string, partition int, offset seq.Offset) (operate.PeekState, error) {
	if offset > 100 {
		return "", operate.ErrMessageNotFound
	}
	return operate.PeekInFlight, f.onChannel(fmt.Sprintf("finish %d/%d of", partition, offset), topic, channel)
}

func (f *fake) PlanMove(_ context.Context, topic, channel string, to *operate.SeekTo) ([]operate.Move, error) {
	f.sought = *to
	return []operate.Move{{Partition: 1, From: 5, To: 2, Redelivered: 3, Skipped: 1}}, f.fail
}

func (f *fake) ChannelHistory(topic, channel string) ([]*meta.Saved, error) {
	return f.saved, f.fail
}

func (f *fake) UndoChannel(_ context.Context, topic, channel string) (operate.Undone, error) {
	if len(f.saved) == 0 {
		return operate.Undone{}, operate.ErrNothingToUndo
	}
	return operate.Undone{Saved: f.saved[0], Moves: []operate.UndoneMove{{Partition: 1, To: 5, Gone: 2}}}, f.onChannel("undo", topic, channel)
}

func (f *fake) RestoreChannel(_ context.Context, topic, channel string) (operate.Undone, error) {
	if f.topics[topic].Channels[channel] != nil {
		return operate.Undone{}, operate.ErrChannelThere
	}
	return operate.Undone{Saved: f.saved[0]}, nil
}

func (f *fake) RecordAct(_ context.Context, a meta.Act) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.journal.Apply(f.journal.Index()+1, meta.RecordAct{Act: a})
}

func (f *fake) Journal() meta.Journal { return meta.JournalOf(&f.journal) }
