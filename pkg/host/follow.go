package host

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// followAgain is how long after a replica could not be made as the metadata says
// it is tried again, and after how long leaderships that came and went are summed up
// in the log.
const followAgain = time.Second

// applier makes what a node holds follow the metadata. It waits for no topic and no
// partition.
type applier struct {
	o        *Options
	log      *slog.Logger
	topics   *Topics
	ask      func(topic string) // for work on it
	failures *roleErrors
	shifts   *shifts

	seen *meta.State // as of the last round
}

// run works until ctx ends.
func (f *applier) run(ctx context.Context) {
	again := time.NewTimer(followAgain)
	defer again.Stop()
	for ctx.Err() == nil {
		changed := f.o.Meta.Changed() // before reading: no change is missed
		if f.round() || len(f.failures.topics()) > 0 {
			again.Reset(followAgain)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-again.C:
			for _, name := range f.failures.topics() {
				f.ask(name)
			}
		}
		f.shifts.sumUp(f.log)
	}
}

// round asks for work on what changed since the last one, and returns whether there
// was anything.
func (f *applier) round() (asked bool) {
	s := f.o.Meta.View()
	for name := range due(f.seen, s, f.held) {
		f.ask(name)
		asked = true
	}
	for name := range meta.TrashOf(s).Gone(meta.TrashOf(f.seen)) {
		f.ask(name)
		asked = true
	}
	for _, e := range meta.Membership(f.seen, s) {
		f.log.Info("membership", "node", e.Object, "event", e.Kind, "what", e.What)
	}
	f.seen = s
	return asked
}

// held goes over the topics that this node holds something of.
func (f *applier) held(yield func(string) bool) {
	f.topics.hosted.Range(func(name, _ any) bool { return yield(name.(string)) })
}

// due goes over the topics on which there may be work now that the metadata, which was
// was, is is. Those are the ones that changed; but where a node has changed or the defaults
// of channels, and at first, all that there are and all that are held.
func due(was, is *meta.State, held iter.Seq[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		if meta.SameNodes(was, is) && was.Settings().ChannelDefaults() == is.Settings().ChannelDefaults() {
			for before, after := range is.Changes(was) {
				if !yield(cmp.Or(after, before).Name) {
					return
				}
			}
			return
		}
		for t := range is.Topics() {
			if !yield(t.Name) {
				return
			}
		}
		for name := range held {
			if is.Topic(name) == nil && !yield(name) {
				return
			}
		}
	}
}

// WaitApplied returns once the metadata here is at an index.
func (n *Host) WaitApplied(ctx context.Context, index uint64) error {
	for {
		changed := n.o.Meta.Changed()
		if n.o.Meta.Applied() >= index {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
