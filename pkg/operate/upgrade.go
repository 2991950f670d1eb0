package operate

import (
	"context"
	"fmt"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Upgrader finishes upgrades: it raises the feature level of the cluster.
type Upgrader struct{ Node *Node }

// Upgrade returns the progress of an upgrade.
func (o *Upgrader) Upgrade() api.Upgrade {
	s := o.Node.Meta.View()
	level, target := s.Cluster().Level, level.Supported().Max
	u := api.Upgrade{Level: uint32(level), Target: uint32(target), Lagging: []string{}, Unregistered: []string{}, Finalized: target <= level}
	if u.Finalized {
		return u
	}
	for _, n := range meta.Lagging(s, target) {
		u.Lagging = append(u.Lagging, fmt.Sprintf("%s (%s, supports %v)", n.ID, n.Version, n.Levels))
	}
	for _, m := range o.Node.members().Members {
		if s.Node(m.ID) == nil {
			u.Unregistered = append(u.Unregistered, string(m.ID))
		}
	}
	return u
}

// Finalize raises the feature level to what this node's program supports, and returns the new
// state. It is refused with failure.FeatureLevel while a node does not support that, or a member's support
// is unknown.
func (o *Upgrader) Finalize(ctx context.Context) (api.Upgrade, error) {
	u := o.Upgrade()
	if len(u.Unregistered) > 0 {
		return u, fmt.Errorf("%w: level %v: unknown whether %v, which never registered, supports it", failure.FeatureLevel, level.Level(u.Target), u.Unregistered)
	}
	if u.Finalized {
		return u, nil
	}
	if _, err := o.Node.host.Propose(ctx, meta.FinalizeUpgrade{Level: level.Level(u.Target)}); err != nil {
		return u, err
	}
	return o.Upgrade(), nil
}
