package host

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// followAgain is the delay before a failed convergence is retried, and before changed leaderships
// are summed up in the log.
const followAgain = time.Second

// applier makes the node apply changes of the metadata. It waits for no topic and no partition.
type applier struct {
	o        *Options
	log      *slog.Logger
	topics   *Topics
	ask      func(topic string) // requests work on a topic
	failures *roleErrors
	shifts   *shifts

	seen *meta.State // as of the last round
}

// run works until ctx ends.
func (f *applier) run(ctx context.Context) {
	again := time.NewTimer(followAgain)
	defer again.Stop()
	for ctx.Err() == nil {
		changed := f.o.Meta.Changed() // before reading, so that no change is missed
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

// round requests work on everything that changed since the last round, and reports whether anything
// did.
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
		f.log.Info("cluster membership changed", "node", e.Object, "event", e.Kind, "what", e.What)
	}
	f.seen = s
	return asked
}

// held iterates over the topics of which this node holds something.
func (f *applier) held(yield func(string) bool) {
	f.topics.hosted.Range(func(name, _ any) bool { return yield(name.(string)) })
}

// due iterates over the topics that may need work when the metadata changes from was to is. These
// are the changed topics. If a node or the channel defaults changed, and in the first round, they
// are all existing and all held topics.
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

// WaitApplied returns when this node has applied the metadata up to an index.
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
