package operate

import (
	"context"
	"fmt"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// Access changes who may do what.
type Access struct{ node *Node }

// NewAccess returns the Access of a node.
func NewAccess(n *Node) *Access { return &Access{n} }

// Directory returns who may do what, as this node knows it.
func (o *Access) Directory() *access.Directory { return raftstore.AccessOf(o.node.Meta) }

// Change changes who may do what, and returns once this node has it. It is refused with
// meta.ErrLevel while nodes of older releases may be in the cluster: they would not enforce it.
func (o *Access) Change(ctx context.Context, c access.Change) error {
	if l := meta.LevelOf(o.node.Meta.View()); !l.Has(level.AccessControl) {
		return fmt.Errorf("%w: feature level %v has no access control: run brokerctl cluster finalize-upgrade once no older release will run again", meta.ErrLevel, l)
	}
	_, err := o.node.host.Propose(ctx, meta.ChangeAccess{Change: c})
	return err
}
