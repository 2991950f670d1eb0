package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// Access changes access control. Certificates means that the node's listeners verify client
// certificates: otherwise a user with only a certificate does not count as an administrator.
type Access struct {
	Node         *Node
	Certificates bool
	// Open reports whether any process that reaches the cluster port could join; nil: none could.
	Open func() bool
	// NewSecret creates a cluster secret that other nodes must have from then on, and returns its file.
	// nil: the node creates none.
	NewSecret func() (file string, err error)
}

// PortOpen reports whether any process that reaches the cluster port of this node could join: then
// access control, which nodes are not subject to, protects nothing.
func (o *Access) PortOpen() bool { return o.Open != nil && o.Open() }

// ClosePort creates a cluster secret if the cluster port is open, and returns its file; "": the port was
// closed. It is refused with failure.ClusterPortOpen if there are other members: they could not connect
// any longer.
func (o *Access) ClosePort() (file string, err error) {
	if !o.PortOpen() {
		return "", nil
	}
	if err := o.open(); len(o.Node.members().Members) > 1 || o.NewSecret == nil {
		return "", err
	}
	return o.NewSecret()
}

// open returns why access control cannot be enabled while the cluster port is open, and how to close it.
func (o *Access) open() error {
	if len(o.Node.members().Members) == 1 && o.NewSecret != nil {
		return fmt.Errorf("%w: run brokerctl access enable --new-cluster-secret, which creates a secret in the data directory, in a file of mode 0600, that nodes which join later name as cluster-secret-file", failure.ClusterPortOpen)
	}
	return fmt.Errorf("%w: create a secret with (umask 077; openssl rand -base64 32 > FILE), stop all nodes, set cluster-secret-file of each to a copy of that file, and start them", failure.ClusterPortOpen)
}

// Directory returns the access control directory as known on this node.
func (o *Access) Directory() *access.Directory { return raftstore.AccessOf(o.Node.Meta) }

// Administrator reports whether there is an administrator with a credential that is valid at this
// node and does not expire.
func (o *Access) Administrator() bool { return o.Directory().HasAdmin(o.Certificates) }

// Change changes access control, and returns once every node that is not down has applied it. A change that takes
// rights away fails with failure.AccessUnconfirmed, which names the nodes that do not answer: until they apply it,
// they permit what they did before. A repetition of it succeeds, is unconfirmed again, or fails because what it takes
// away is gone, which is then confirmed. It is refused with failure.FeatureLevel while nodes of older releases may be in
// the cluster: they would not enforce it. Access control cannot be switched on if no administrator could switch it
// off at this node: failure.LastAdmin; nor while any process could join as a node: failure.ClusterPortOpen.
func (o *Access) Change(ctx context.Context, c access.Change) error {
	if l := o.Node.Meta.View().Cluster().Level; !l.Has(level.AccessControl) {
		return fmt.Errorf("%w: feature level %v has no access control: run brokerctl cluster finalize-upgrade once no older release will run again", failure.FeatureLevel, l)
	}
	if d := o.Directory(); c.Verb == access.Enable && !o.Administrator() && d.HasAdmin(true) {
		return fmt.Errorf("%w: the only ones are known by client certificates, which this node does not verify (tls-client-auth-policy): create a token for one", failure.LastAdmin)
	}
	if c.Verb == access.Enable && o.PortOpen() {
		return o.open()
	}
	r, err := o.Node.host.Propose(ctx, meta.ChangeAccess{Change: c})
	if gone := failure.Of(err); c.Takes() && (gone == failure.UserNotFound || gone == failure.TokenNotFound || gone == failure.RuleNotFound) {
		return confirmGone(ctx, o, c, err)
	}
	if err != nil {
		return err
	}
	if late := unapplied(ctx, o.Node, r.Index); len(late) > 0 && c.Takes() {
		return fmt.Errorf("%w: not by %s", failure.AccessUnconfirmed, strings.Join(texts(late), ", "))
	}
	return nil
}

// confirmGone completes the error of a change that takes away what is not there. It may repeat one that was not
// confirmed: the events tell. A name that they do not have, as a mistyped one, is not there on any node.
func confirmGone(ctx context.Context, o *Access, c access.Change, err error) error {
	index := meta.JournalOf(o.Node.Meta.View()).Took(c)
	if index == 0 {
		return err
	}
	if late := unapplied(ctx, o.Node, index); len(late) > 0 {
		return fmt.Errorf("%w: %s, but its removal is not applied by %s", failure.AccessUnconfirmed, err.Error(), strings.Join(texts(late), ", "))
	}
	return fmt.Errorf("%w; all nodes that are not down have applied its removal", err)
}

// appliedArgs is an index of the metadata.
type appliedArgs struct {
	Index uint64 `json:"index"`
}

// askApplied is answered once the node has applied the metadata up to an index.
var askApplied = question[appliedArgs, forward.Nothing]{"applied", func(o *Node, ctx context.Context, a appliedArgs) (forward.Nothing, error) {
	return forward.Nothing{}, o.host.WaitApplied(ctx, a.Index)
}}

// unapplied waits until all nodes that are not down have applied the metadata up to an index, for at most askTimeout, and
// returns those that have not. A node that cannot be asked is asked again: it may be back, or found to be down, soon.
func unapplied(ctx context.Context, o *Node, index uint64) []meta.NodeID {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	applied := map[meta.NodeID]bool{}
	late := func() []meta.NodeID {
		return slices.DeleteFunc(o.present(), func(id meta.NodeID) bool { return applied[id] })
	}
	for nodes := late(); len(nodes) > 0; nodes = late() {
		for id := range askAll(ctx, o, askApplied, nodes, func(meta.NodeID) appliedArgs { return appliedArgs{index} }) {
			applied[id] = true
		}
		if len(late()) > 0 && !beat.Pause(ctx, askPause) {
			break
		}
	}
	return late()
}
