package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// registry is the part of raftstore.Store that a registration uses.
type registry interface {
	Propose(context.Context, meta.Command) (meta.Result, error)
	Init(context.Context) (clusterID string, err error)
	Changed() <-chan struct{}
	Applied() uint64
	Read(func(*meta.State))
}

// registration is the registration of one start of the node.
type registration struct {
	store     registry
	marks     marks
	breakdown *breakdown
	work      *tasks
	log       *slog.Logger
	start     *datadir.Start
	command   meta.NodeStarted
}

// run registers this start, and returns when the local metadata includes it.
func (r *registration) run(ctx context.Context) (err error) {
	if r.command.Empty, err = r.marks.has(markUnregistered); err != nil {
		return err
	}
	r.start.Register(&r.command)
	told := false
	for {
		index, err := r.propose(ctx)
		if err == nil {
			err = r.catchUp(ctx, index)
		}
		if err == nil {
			break
		}
		if hopeless(err) || ctx.Err() != nil || r.breakdown.cause() != nil {
			return failedStart(cmp.Or(r.breakdown.cause(), err)) // the cause of err, if it has failed
		}
		switch {
		case !errors.Is(err, failure.MetadataDiskFull):
			r.log.Debug("cannot register node start yet; retrying", "error", err)
		case !told:
			told = true // the error names the node and the disk
			r.log.Error("cannot register node start: the disk of the metadata leader is full; the node serves once space is freed there", "error", err)
		}
		select {
		case <-time.After(registerAgain):
		case <-r.breakdown.failed:
		case <-ctx.Done():
		}
	}
	if _, err := r.store.Init(ctx); err != nil { // a bootstrap node that was killed has not named it
		return fmt.Errorf("initialize cluster id: %w", err)
	}
	r.store.Read(r.tellSoleCopies)
	if err := r.compared(); err != nil {
		return err
	}
	if r.command.Empty {
		return r.marks.clear(markUnregistered)
	}
	return nil
}

// compared records that the start is registered, and what the metadata says about the data directory.
func (r *registration) compared() error {
	var n *meta.Node
	r.store.Read(func(s *meta.State) { n = s.Node(r.command.Node.ID) })
	if n == nil {
		return nil // removed since
	}
	replicas, err := r.start.Registered(n)
	if err != nil || !n.Outdated || replicas == 0 { // an empty directory needs no attention
		return err
	}
	r.log.Error("data directory is not the one that this node used last, or an older copy of it: none of its replicas counts as in sync; "+
		"each is set aside and copied again once another replica leads, and one whose partition has no other stays offline until an operator elects it",
		"path", r.marks.dir, "disk", n.Disk.ID, "replicas", replicas)
	return nil
}

// failedStart returns the error of a start that was not registered. It tells the operator of a removed
// node how the machine can be used again.
func failedStart(err error) error {
	if errors.Is(err, failure.Removed) {
		err = fmt.Errorf("%w: the data here is left unchanged: to join as a new node, move the data directory away and start with an empty one", err)
	}
	return fmt.Errorf("register node start: %w", err)
}

// tellSoleCopies logs the partitions that this node serves although it lost power and may lack
// their last acknowledged messages: no other in-sync replica has more.
func (r *registration) tellSoleCopies(s *meta.State) {
	if n := s.Node(r.command.Node.ID); n == nil || !n.LostPower {
		return
	}
	sole := s.SoleCopies(r.command.Node.ID)
	for _, topic := range slices.Sorted(maps.Keys(sole)) {
		r.log.Warn("power loss with no other in-sync replica: acknowledged messages that were not synced yet may be lost",
			"topic", topic, "partitions", sole[topic])
	}
}

// propose proposes the start until ctx ends or the node fails.
func (r *registration) propose(ctx context.Context) (index uint64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer r.work.onClose(r.breakdown.failed, func() { cancel(r.breakdown.cause()) })()
	done, err := r.store.Propose(ctx, r.command)
	if errors.Is(err, failure.Behind) && done.Index > 0 {
		err = nil // the node was admitted
	}
	return done.Index, err
}

// hopeless reports whether repeating a registration cannot succeed.
func hopeless(err error) bool {
	for _, known := range []error{failure.InvalidName, failure.LimitReached, failure.InvalidConfig, failure.CommandTooLarge, failure.FeatureLevel, failure.Removed} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// catchUp returns when the local metadata has reached index.
func (r *registration) catchUp(ctx context.Context, index uint64) error {
	for {
		changed := r.store.Changed()
		if r.store.Applied() >= index {
			return nil
		}
		select {
		case <-changed:
		case <-r.breakdown.failed:
			return r.breakdown.cause()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
