package broker

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
)

// converge makes what this node holds of a topic match the metadata: at least as of
// now, in every partition.
func (n *hosting) converge(name string) error {
	parts, err := n.topics.ask(name).wait()
	errs := []error{err}
	for _, f := range parts {
		_, err := f.wait()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// read returns what metadata says of a topic and of the nodes that hold it.
func (n *shelf) read(name string) (t *meta.Topic, nodes nodesByID) {
	nodes = nodesByID{}
	n.o.Meta.Read(func(s *meta.State) {
		if t = s.Topic(name); t == nil {
			return
		}
		for i := range t.Partitions {
			for _, id := range t.Partitions[i].Replicas {
				if _, known := nodes[id]; !known {
					nodes[id] = s.Node(id)
				}
			}
		}
	})
	return t, nodes
}

// none is the result of a run that has only an error.
type none struct{}

// heldAt names a partition of a topic as this node has it.
type heldAt struct {
	h *hostedTopic
	i int
}

// converger makes what the node holds match the metadata, in lanes: for each topic,
// where it is begun and ended, and for each of its partitions.
type converger struct {
	*hosting
	places places
}

// topic begins a topic that is new, ends one that is gone, and asks for work on those
// of its partitions where something has changed. It waits for none of them.
func (c converger) topic(name string) ([]*outcome[none], error) {
	// What is read in a lane is never older than what was read in the run before.
	want, nodes := c.read(name)
	h := c.lookup(name)
	if h != nil && (want == nil || want.Incarnation != h.incarnation) {
		c.hosted.Delete(name)
		c.byIncarnation.Delete(h.incarnation)
		if err := c.discard(h); err != nil {
			c.log.Error("cleanup of deleted topic failed", "topic", name, "error", err)
			return nil, err
		}
		if want == nil {
			c.deleted.add(deletion{name, ""}, time.Now())
		}
		h = nil
	}
	if want == nil {
		return nil, nil
	}
	if h == nil {
		h = c.newTopic(want)
		c.hosted.Store(name, h)
		c.byIncarnation.Store(h.incarnation, h)
	}
	h.grow(len(want.Partitions))
	c.deleted.compare(h.config.Swap(want), want, time.Now())
	var asked []*outcome[none]
	for i := range want.Partitions {
		if !c.matches(h, want, i, nodes) {
			asked = append(asked, c.parts.ask(heldAt{h, i}))
		}
	}
	return asked, nil
}

// matches tells whether nothing is to be done about a partition.
func (c converger) matches(h *hostedTopic, t *meta.Topic, i int, nodes nodesByID) bool {
	hp := h.at(i)
	if hp == nil {
		return !slices.Contains(t.Partitions[i].Replicas, c.o.Self)
	}
	m := hp.matched.Load()
	return m != nil && m.topic == t && m.defaults == c.o.Meta.Settings().ChannelDefaults() &&
		sameView(m.view, c.viewOf(t, i, nodes)) && !hp.untreated()
}

// part makes one partition what metadata says that it is to this node now, or closes
// it if its topic has ended here.
func (c converger) part(at heldAt) (none, error) {
	return none{}, c.places.in(func() error {
		key := stallKey{stallRole, at.h.name, at.i, ""}
		c.stalls.begin(key, time.Now(), "role change still in progress, probably waiting for the disk")
		defer c.stalls.end(key)
		if err := c.takeRole(at.h, at.i); err != nil {
			return fmt.Errorf("partition %d: %w", at.i, err)
		}
		return nil
	})
}

func (c converger) takeRole(h *hostedTopic, i int) error {
	if reason := h.ended.Load(); reason != nil {
		return c.shut(h, i, *reason)
	}
	defaults := c.o.Meta.Settings().ChannelDefaults()
	t, nodes := c.read(h.name)
	if t == nil || t.Incarnation != h.incarnation {
		return nil // the topic ends here
	}
	err := c.adoptPartition(h, t, i, nodes)
	hp := h.at(i)
	if hp != nil && err == nil {
		if lp := hp.led.Load(); lp != nil {
			err = lp.adopt(h, t, defaults)
		}
	}
	if hp != nil {
		limit, share := boundsOf(&t.Config)
		commitlog.Bound(hp.replica.Log(), cmp.Or(limit, share))
	}
	if hp != nil && err == nil {
		hp.matched.Store(&matched{t, hp.view, defaults})
	}
	switch changed := c.roles.note(h, i, err); {
	case changed && err != nil:
		c.log.Error("cannot apply metadata to replica; retrying", "topic", h.name, "partition", i, "error", err)
	case changed:
		c.log.Info("metadata applied to replica", "topic", h.name, "partition", i)
	}
	return err
}

// shut closes a replica for good.
func (c converger) shut(h *hostedTopic, i int, reason error) error {
	hp := h.at(i)
	if hp == nil {
		return nil
	}
	h.hold(i, nil)
	return errors.Join(c.resign(h, hp, reason), hp.replica.Close())
}

// close ends a topic here: its partitions have no role any more, and their logs are
// closed, when it returns.
func (n *hosting) close(h *hostedTopic, reason error) error {
	h.ended.CompareAndSwap(nil, &reason)
	var asked []*outcome[none]
	for i := range h.partitions() {
		asked = append(asked, n.parts.ask(heldAt{h, i}))
	}
	var errs []error
	for _, f := range asked {
		_, err := f.wait()
		errs = append(errs, err)
	}
	h.memory.Close()
	return errors.Join(errs...)
}
