package directory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/peer"
)

// ConvergeTimeout bounds how long the creation of a topic or a channel waits for the leaders of
// its partitions: slightly longer than it takes to remove a failed replica from the in-sync
// set, or to elect another leader.
const ConvergeTimeout = 3 * time.Second

// convergeRetry is the delay before a leader that did not answer is asked again. After a change that
// need not be confirmed, it is asked for as long as spreadRetries: its node may be starting.
const (
	convergeRetry = 50 * time.Millisecond
	spreadRetries = 500 * time.Millisecond
)

// Converge makes the partitions of a topic that this node leads match the metadata, at least as of
// an index. When it returns nil, the starts of the topic's channels are on every in-sync replica of
// these partitions. A topic that no longer exists is no error.
func (d *Directory) Converge(ctx context.Context, name string, index uint64) error {
	if err := d.host.WaitApplied(ctx, index); err != nil {
		return err
	}
	if err := d.host.Converge(name); err != nil {
		return err
	}
	if h := d.host.Lookup(name); h != nil {
		return h.Flush(ctx)
	}
	return nil
}

// leaders makes every leader of a topic apply metadata up to an index.
type leaders struct {
	o          *Options
	host       *host.Host
	complaints *complaint.Book // about changes that clients ask for
}

// converge returns once every leader of a topic has applied metadata up to an index and has
// placed its channels. It fails if a leader failed to, and with failure.ChannelUnconfirmed if one does
// not respond in time and still leads according to the local metadata: messages that it acknowledges
// before it learns of a channel would be skipped. A leader elected later knows the channels from the
// metadata.
func (d leaders) converge(ctx context.Context, name string, index uint64) error {
	h := d.host.Lookup(name)
	if h != nil && h.ConvergedTo() >= index {
		return nil
	}
	if err := d.host.Converge(name); err != nil {
		return err
	}
	if h = d.host.Lookup(name); h == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ConvergeTimeout)
	defer cancel()
	var why error // of the last round that ended in time
	for {
		changed := d.o.Meta.Changed()
		var g errgroup.Group
		g.Go(func() error { return h.Flush(ctx) })
		silent, err := d.ask(ctx, h, index)
		flushed := g.Wait()
		if flushed == nil && len(silent) == 0 && err == nil {
			flushed = h.Flush(ctx) // this node may now lead what another did
		}
		switch {
		case err != nil || flushed != nil && !passes(flushed) && ctx.Err() == nil:
			return errors.Join(err, flushed)
		case flushed != nil:
			silent = append(silent, fmt.Errorf("node %s: %w", d.o.Self, flushed))
		case len(silent) == 0:
			h.SetConverged(index)
			return nil
		}
		if why == nil || ctx.Err() == nil {
			why = errors.Join(silent...)
		}
		// Another may lead soon, or the same may respond.
		select {
		case <-changed:
		case <-time.After(convergeRetry):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", failure.ChannelUnconfirmed, why)
		}
	}
}

// passes reports whether an error of a leader may be over soon: its leadership ended before its
// followers had the positions, and the next leader is to be asked; or its node is starting.
func passes(err error) bool {
	return errors.Is(err, failure.Unconfirmed) || fate.Of(err) == fate.Refused
}

// spread makes the leaders of a topic apply the metadata as of an index, and waits for those that
// do so soon. The others retry on their own.
func (d leaders) spread(ctx context.Context, name string, index uint64) {
	if err := d.host.Converge(name); err != nil {
		return // the caller meets the error again
	}
	if h := d.host.Lookup(name); h != nil {
		ctx, cancel := context.WithTimeout(ctx, ConvergeTimeout)
		defer cancel()
		for began := time.Now(); ; {
			silent, err := d.ask(ctx, h, index)
			if err != nil {
				d.complaints.Warn(d.o.Logger, time.Now(), "leader has not applied the metadata yet; it will retry", "topic", name, "error", err)
			}
			if err != nil || len(silent) == 0 || time.Since(began) >= spreadRetries {
				return
			}
			if !beat.Pause(ctx, convergeRetry) {
				return
			}
		}
	}
}

// ask makes the other leaders of a topic converge, and returns why some did not respond, or may do so
// soon, and the errors of those that could not.
func (d leaders) ask(ctx context.Context, h *host.Topic, index uint64) (silent []error, err error) {
	var g errgroup.Group
	var mu sync.Mutex // guards silent
	for _, node := range d.otherLeaders(h.Config()) {
		g.Go(func() error {
			err := d.o.Calls.Converge(ctx, node, forward.Converge{Topic: h.Name, Index: index})
			if err == nil {
				return nil
			}
			failed := fmt.Errorf("node %s: %w", node, err)
			if Answered(err) && !passes(err) {
				return failed
			}
			mu.Lock()
			silent = append(silent, failed)
			mu.Unlock()
			d.o.Logger.Debug("leader does not respond", "topic", h.Name, "node", node, "error", err)
			return nil
		})
	}
	err = g.Wait()
	return silent, err
}

// otherLeaders returns the nodes that lead a partition of a topic, without this one and those that
// are down.
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

// Answered reports whether an error is another node's answer, and not the lack of one.
func Answered(err error) bool {
	_, is := errors.AsType[*peer.RemoteError](err)
	return is
}
