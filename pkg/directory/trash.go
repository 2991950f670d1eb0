package directory

import (
	"context"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Trash is the deleted topics that can be restored.
type Trash struct{ d *Directory }

// Trash returns the trash of the cluster.
func (d *Directory) Trash() Trash { return Trash{d} }

// Deleted returns the topics in the trash, the last deleted first. They are shared and must
// not be changed.
func (t Trash) Deleted() []*meta.Deleted {
	all := slices.Collect(meta.TrashOf(t.d.o.Meta.View()).All())
	slices.Reverse(all)
	return all
}

// Restore restores a topic from the trash, with its messages, channels and positions.
func (t Trash) Restore(ctx context.Context, c meta.RestoreTopic) (*meta.Topic, error) {
	name := c.Name
	if err := t.fits(c); err != nil {
		return nil, err
	}
	r, err := t.d.host.Propose(ctx, c)
	if err != nil {
		return nil, host.OfThisIncarnation(err)
	}
	t.d.leaders.spread(ctx, name, r.Index)
	return r.Topic, notApplied(t.d.host.Converge(name))
}

// fits returns failure.LimitReached if a node would hold too many partitions with those of a topic that is restored.
func (t Trash) fits(c meta.RestoreTopic) error {
	s := t.d.o.Meta.View()
	if c.Replaces != 0 && s.Topic(c.Name) != nil {
		return nil // in the place of another topic
	}
	var assignment [][]meta.NodeID
	for d := range meta.TrashOf(s).All() {
		if d.Topic.Name == c.Name && (c.Incarnation == 0 || c.Incarnation == d.Topic.Incarnation) {
			for i := range d.Topic.Partitions {
				assignment = append(assignment, d.Topic.Partitions[i].Replicas)
			}
			break
		}
	}
	return fits(s, assignment)
}

// Purge permanently deletes a topic: the current one (0), or the one of an incarnation, which
// may be in the trash. A repeated call never affects an older topic of the name.
func (t Trash) Purge(ctx context.Context, name string, in meta.Incarnation) error {
	s := t.d.o.Meta.View()
	if is := s.Topic(name); is != nil && (in == 0 || in == is.Incarnation) {
		return t.d.Change(ctx, name, meta.DeleteTopic{Name: name, Incarnation: is.Incarnation, Purge: true})
	}
	switch {
	case in == 0:
		return fmt.Errorf("%w: %s; deleted topics are purged by their incarnation", failure.TopicNotFound, name)
	case !meta.TrashOf(s).Holds(name, in):
		return fmt.Errorf("topic %s: %w", name, failure.NotInTrash)
	}
	_, err := t.d.host.Propose(ctx, meta.PurgeTopics{Incarnations: []meta.Incarnation{in}})
	return err
}
