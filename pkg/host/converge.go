package host

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/lane"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/repair"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/quota"
	"github.com/brokerd/brokerd/pkg/removal"
	"github.com/brokerd/brokerd/pkg/stall"
)

// Converge makes this node's replicas of a topic match the metadata, in every partition, at least
// as of the time of the call.
func (c *Converger) Converge(name string) error {
	parts, err := c.topics.Ask(name).Wait()
	errs := []error{err}
	for _, f := range parts {
		_, err := f.Wait()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// heldAt identifies a partition of a topic on this node.
type heldAt struct {
	h *Topic
	i int
}

// Converger makes the node's replicas match the metadata. Work runs in lanes: one per topic, which
// opens and closes the topic, and one per partition.
type Converger struct {
	o        *Options
	log      *slog.Logger
	dirs     datadir.Dir
	removal  *removal.Remover
	held     *Topics
	damage   *repair.Known
	stalls   *stall.Board
	failures *roleErrors
	roles    *roles

	topics *lane.Lanes[string, []*lane.Outcome[struct{}]] // the state of a topic changes only in its lane,
	parts  *lane.Lanes[heldAt, struct{}]                  // a replica and its role only in the partition's lane
	places lane.Places
}

// topic opens a new topic, closes a deleted one, whose data may stay until the next start, and requests
// work on partitions that changed. It waits for none of them.
func (c *Converger) topic(name string) (asked []*lane.Outcome[struct{}], err error) {
	// A run in a lane never reads older metadata than the previous run.
	s := c.o.Meta.View()
	want, nodes := readTopic(s, name)
	h := c.held.Lookup(name)
	if h != nil && (want == nil || want.Incarnation != h.Incarnation) {
		c.held.hosted.Delete(name)
		c.held.byIncarnation.Delete(h.Incarnation)
		if err = c.discard(h, s); err != nil {
			c.log.Error("cannot remove the data of a deleted topic, which keeps occupying the disk; retrying at the next start", "topic", name, "error", err)
		}
		if want == nil {
			c.held.deleted.add(deletion{name, ""}, time.Now())
		}
		h = nil
	}
	if err := c.removal.Review(name, s); err != nil {
		c.log.Error("cannot remove the data of a topic that left the trash, which keeps occupying the disk; retrying at the next start", "topic", name, "error", err)
	}
	if want == nil {
		return nil, err
	}
	if h == nil {
		h = c.held.newTopic(want)
		c.held.hosted.Store(name, h)
		c.held.byIncarnation.Store(h)
	}
	h.grow(len(want.Partitions))
	c.held.deleted.compare(h.config.Swap(want), want, time.Now())
	for i := range want.Partitions {
		if !c.matches(h, want, i, nodes) {
			asked = append(asked, c.parts.Ask(heldAt{h, i}))
		}
	}
	return asked, nil
}

// Adopt gives one partition the role that the metadata says. It must run in the partition's lane.
func (c *Converger) Adopt(h *Topic, t *meta.Topic, i int, nodes Nodes) error {
	return c.roles.adopt(h, t, i, nodes)
}

// Stop refuses further work on topics and returns when none is in progress.
func (c *Converger) Stop() { c.topics.Close() }

// matches reports whether a partition needs no work.
func (c *Converger) matches(h *Topic, t *meta.Topic, i int, nodes Nodes) bool {
	hp := h.Held(i)
	if hp == nil {
		return !slices.Contains(t.Partitions[i].Replicas, c.o.Self)
	}
	m := hp.matched.Load()
	return m != nil && m.topic == t && m.defaults == c.o.Meta.Settings().ChannelDefaults() &&
		sameView(m.view, c.roles.viewOf(t, i, nodes)) && !hp.untreated()
}

// part gives one partition the role that the metadata says for this node, or closes it if its topic
// is closed here.
func (c *Converger) part(at heldAt) (struct{}, error) {
	return struct{}{}, c.places.In(func() error {
		key := stall.Key{Kind: stall.Role, Topic: at.h.Name, Partition: at.i}
		c.stalls.Begin(key, time.Now(), "role change still in progress, probably waiting for the disk")
		defer c.stalls.End(key)
		if err := c.applyRole(at.h, at.i); err != nil {
			return fmt.Errorf("partition %d: %w", at.i, err)
		}
		return nil
	})
}

func (c *Converger) applyRole(h *Topic, i int) error {
	if reason := h.ended.Load(); reason != nil {
		return c.shut(h, i, *reason)
	}
	defaults := c.o.Meta.Settings().ChannelDefaults()
	t, nodes := c.Read(h.Name)
	if t == nil || t.Incarnation != h.Incarnation {
		return nil // the topic is closed
	}
	err := c.Adopt(h, t, i, nodes)
	hp := h.Held(i)
	if hp != nil {
		limit, share := quota.Bounds(&t.Config)
		commitlog.Retention{MaxBytes: limit, Share: share}.Bound(hp.Replica.Log())
	}
	if hp != nil && err == nil {
		err = hp.match(h, t, defaults)
	}
	switch changed := c.failures.set(h, i, err); {
	case changed && err != nil:
		c.log.Error("cannot apply metadata to replica; retrying", "topic", h.Name, "partition", i, "error", err)
	case changed:
		c.log.Info("metadata applied to replica", "topic", h.Name, "partition", i)
	}
	return err
}

// shut closes a replica permanently.
func (c *Converger) shut(h *Topic, i int, reason error) error {
	hp := h.Held(i)
	if hp == nil {
		return nil
	}
	h.hold(i, nil)
	return errors.Join(c.roles.resign(h, hp, reason), hp.Replica.Close())
}

// close closes a topic on this node. When it returns, no partition has a role and all logs are
// closed.
func (c *Converger) close(h *Topic, reason error) error {
	h.ended.CompareAndSwap(nil, &reason)
	var asked []*lane.Outcome[struct{}]
	for i := range h.AllHeld() {
		asked = append(asked, c.parts.Ask(heldAt{h, i}))
	}
	var errs []error
	for _, f := range asked {
		_, err := f.Wait()
		errs = append(errs, err)
	}
	h.memory.Close()
	return errors.Join(errs...)
}

// Read returns the metadata of a topic and of the nodes of its replicas.
func (c *Converger) Read(name string) (t *meta.Topic, nodes Nodes) {
	c.o.Meta.Read(func(s *meta.State) { t, nodes = readTopic(s, name) })
	return t, nodes
}

func readTopic(s *meta.State, name string) (t *meta.Topic, nodes Nodes) {
	nodes = Nodes{}
	if t = s.Topic(name); t == nil {
		return nil, nodes
	}
	for i := range t.Partitions {
		for _, id := range t.Partitions[i].Replicas {
			if _, known := nodes[id]; !known {
				nodes[id] = s.Node(id)
			}
		}
	}
	return t, nodes
}

// discard closes a topic that is no longer in the metadata, and removes its data unless it may be
// restored.
func (c *Converger) discard(h *Topic, s *meta.State) error {
	c.failures.forget(h)
	for _, hp := range h.AllHeld() {
		if hp != nil {
			c.held.retire(hp)
		}
	}
	if err := c.close(h, failure.TopicNotFound); err != nil {
		c.log.Warn("cannot close a deleted topic cleanly; if it is restored, recently finished messages may be redelivered", "topic", h.Name, "error", err)
	}
	if h.fs != c.o.FS {
		return nil // an ephemeral topic has no data on disk
	}
	c.damage.Forget(c.dirs.Topic(h.Name, h.Incarnation))
	return c.removal.Deleted(h.Name, h.Incarnation, s)
}
