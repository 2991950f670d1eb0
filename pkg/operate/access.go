package operate

import (
	"context"
	"fmt"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// Access changes access control. Certificates means that the node's listeners verify client
// certificates: otherwise a user with only a certificate does not count as an administrator.
type Access struct {
	Node         *Node
	Certificates bool
}

// Directory returns the access control directory as known on this node.
func (o *Access) Directory() *access.Directory { return raftstore.AccessOf(o.Node.Meta) }

// Administrator reports whether there is an administrator with a credential that is valid at this
// node and does not expire.
func (o *Access) Administrator() bool { return o.Directory().HasAdmin(o.Certificates) }

// Change changes access control, and returns once this node has applied it. It is refused with
// failure.FeatureLevel while nodes of older releases may be in the cluster: they would not enforce it.
// Access control cannot be switched on if no administrator could switch it off at this node:
// failure.LastAdmin.
func (o *Access) Change(ctx context.Context, c access.Change) error {
	if l := meta.LevelOf(o.Node.Meta.View()); !l.Has(level.AccessControl) {
		return fmt.Errorf("%w: feature level %v has no access control: run brokerctl cluster finalize-upgrade once no older release will run again", failure.FeatureLevel, l)
	}
	if d := o.Directory(); c.Verb == access.Enable && !o.Administrator() && d.HasAdmin(true) {
		return fmt.Errorf("%w: the only ones are known by client certificates, which this node does not verify (tls-client-auth-policy): create a token for one", failure.LastAdmin)
	}
	_, err := o.Node.host.Propose(ctx, meta.ChangeAccess{Change: c})
	return err
}
