package operate

import (
	"context"
	"fmt"

	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Upgrader finishes upgrades: it raises the feature level of the cluster.
type Upgrader struct{ node *Node }

// NewUpgrader returns the Upgrader of a node.
func NewUpgrader(n *Node) *Upgrader { return &Upgrader{n} }

// Upgrade is how far an upgrade has come, as this node sees it.
type Upgrade struct {
	Level  level.Level // of the cluster
	Target level.Level // that this node's program supports at most
	Nodes  []NodeInfo
	// Lagging are the nodes whose programs do not support Target. Unregistered are the
	// members of the metadata of which it is not known.
	Lagging, Unregistered []string
}

// Upgrade returns how far an upgrade has come.
func (o *Upgrader) Upgrade() Upgrade {
	s := o.node.Meta.View()
	u := Upgrade{Level: meta.LevelOf(s), Target: level.Supported().Max}
	for n := range s.Nodes() {
		m, _ := o.node.members().Find(n.ID)
		u.Nodes = append(u.Nodes, nodeInfo(n, m.Voter, nodeLoad{}).seen(o.node.answers(n.ID), true))
	}
	if u.Target > u.Level {
		for _, n := range meta.Lagging(s, u.Target) {
			u.Lagging = append(u.Lagging, fmt.Sprintf("%s (%s, supports %v)", n.ID, n.Version, n.Levels))
		}
		for _, m := range o.node.members().Members {
			if s.Node(m.ID) == nil {
				u.Unregistered = append(u.Unregistered, string(m.ID))
			}
		}
	}
	return u
}

// Finalize raises the feature level to what this node's program supports, and returns how
// it is then. It is refused with meta.ErrLevel while a node does not support that, or it is
// not known of a member.
func (o *Upgrader) Finalize(ctx context.Context) (Upgrade, error) {
	u := o.Upgrade()
	if len(u.Unregistered) > 0 {
		return u, fmt.Errorf("%w: level %v: it is not known whether it is supported by %v, which never registered", meta.ErrLevel, u.Target, u.Unregistered)
	}
	if u.Target <= u.Level {
		return u, nil
	}
	if _, err := o.node.host.Propose(ctx, meta.FinalizeUpgrade{Level: u.Target}); err != nil {
		return u, err
	}
	return o.Upgrade(), nil
}
