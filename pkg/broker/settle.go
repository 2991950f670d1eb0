package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/peer"
)

// settleTimeout bounds how long the creation of a topic or a channel waits for
// the leaders of its partitions: a little longer than it takes until a replica
// that has gone is out of the in-sync set, or another leads in its place.
const settleTimeout = 3 * time.Second

// settleAgain is how long after a leader did not answer it is asked again.
const settleAgain = 50 * time.Millisecond

// errUnsettled is what a channel's creation ends with when a leader of its topic
// does not answer and nobody leads in its place: what it acknowledges before it
// knows of the channel would be skipped.
var errUnsettled = errors.New("channel created, but not confirmed by all leaders of the topic; retry")

// Settle makes what this node leads of a topic match the metadata, at least as
// of an index. When it returns nil, the places where the topic's channels start
// are on every in-sync replica of the partitions led here. A topic that is not
// there any more is no error.
func (d *directory) Settle(ctx context.Context, name string, index uint64) error {
	if err := d.waitApplied(ctx, index); err != nil {
		return err
	}
	if err := d.converge(name); err != nil {
		return err
	}
	if h := d.lookup(name); h != nil {
		return h.flush(ctx)
	}
	return nil
}

// flush has the places of the topic's channels on every in-sync replica of the
// partitions led here.
func (h *hostedTopic) flush(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(openTogether)
	for _, lp := range h.led() {
		if len(lp.part.Channels()) == 0 || !lp.term.Shared() {
			continue // nothing to lose, or adding them has stored them
		}
		g.Go(func() error {
			if err := lp.part.Flush(ctx); err != nil {
				return fmt.Errorf("partition %d: %w", lp.index, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// leaders makes every leader of a topic apply metadata up to an index.
type leaders struct{ *hosting }

// settle returns once every leader of a topic has applied metadata up to an index
// and has placed its channels. A leader that failed to, or that does not answer in
// time and still leads as far as is known here, is an error. A leader elected
// meanwhile knows the channels from the metadata.
func (d leaders) settle(ctx context.Context, name string, index uint64) error {
	h := d.lookup(name)
	if h != nil && h.settled.Load() >= index {
		return nil
	}
	if err := d.converge(name); err != nil {
		return err
	}
	if h = d.lookup(name); h == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { return h.flush(ctx) })
	for {
		changed := d.o.Meta.Changed()
		silent, err := d.ask(ctx, h, index)
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		if len(silent) == 0 {
			// this node may lead by now what another did
			if err := errors.Join(g.Wait(), h.flush(ctx)); err != nil {
				return err
			}
			h.settledAt(index)
			return nil
		}
		// Another may lead soon, or the same may answer.
		select {
		case <-changed:
		case <-time.After(settleAgain):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%w (no answer from %v)", errUnsettled, silent), g.Wait())
		}
	}
}

// spread has the leaders of a topic follow the metadata as of an index, and
// waits for those that do so soon. What they cannot do is for them to try again.
func (d leaders) spread(ctx context.Context, name string, index uint64) {
	if err := d.converge(name); err != nil {
		return // the caller meets it again
	}
	if h := d.lookup(name); h != nil {
		ctx, cancel := context.WithTimeout(ctx, settleTimeout)
		defer cancel()
		if _, err := d.ask(ctx, h, index); err != nil {
			d.log.Warn("leader has not applied metadata yet; it retries", "topic", name, "error", err)
		}
	}
}

// ask has the other leaders of a topic settle, and returns those that did not
// answer, and what those answered that could not.
func (d leaders) ask(ctx context.Context, h *hostedTopic, index uint64) (silent []meta.NodeID, err error) {
	var g errgroup.Group
	var mu sync.Mutex // guards silent
	for _, node := range d.otherLeaders(h.config.Load()) {
		g.Go(func() error {
			err := d.calls.Settle(ctx, node, forward.Settle{Topic: h.name, Index: index})
			switch {
			case err == nil:
				return nil
			case answered(err):
				return fmt.Errorf("node %s: %w", node, err)
			}
			mu.Lock()
			silent = append(silent, node)
			mu.Unlock()
			d.log.Debug("leader does not answer", "topic", h.name, "node", node, "error", err)
			return nil
		})
	}
	err = g.Wait()
	return silent, err
}

// settledAt notes that every leader is at an index.
func (h *hostedTopic) settledAt(index uint64) {
	for {
		was := h.settled.Load()
		if was >= index || h.settled.CompareAndSwap(was, index) {
			return
		}
	}
}

// otherLeaders returns the nodes that lead a partition of a topic, without this
// one and those that are down.
func (d leaders) otherLeaders(t *meta.Topic) []meta.NodeID {
	found := map[meta.NodeID]bool{"": true, d.o.Self: true}
	var all []meta.NodeID
	for i := range t.Partitions {
		id := t.Partitions[i].Leader
		if found[id] {
			continue
		}
		found[id] = true
		if n := d.o.Meta.Node(id); n != nil && n.State != meta.NodeDown {
			all = append(all, id)
		}
	}
	return all
}

// answered says whether an error is another node's answer, and not the lack of
// one.
func answered(err error) bool {
	_, is := errors.AsType[*peer.RemoteError](err)
	return is
}
