package api

import "context"

// Levels is the range of feature levels that a program supports, inclusive.
type Levels struct {
	Min uint32 `json:"min"`
	Max uint32 `json:"max"`
}

// Upgrade is the progress of an upgrade of the cluster.
type Upgrade struct {
	Level        uint32   `json:"level"`        // the feature level of the cluster
	Target       uint32   `json:"target"`       // that the program of the node that answers supports at most
	Lagging      []string `json:"lagging"`      // nodes that do not support the target level, with their levels
	Unregistered []string `json:"unregistered"` // members with unknown levels
	Finalized    bool     `json:"finalized"`    // the cluster has the target
}

// FinalizeUpgrade raises the feature level to the highest that all nodes support.
type FinalizeUpgrade struct {
	DryRun bool `json:"dry_run,omitempty"` // only look
}

// Upgrades are the requests about upgrades. A Client implements them.
type Upgrades struct{ t *transport }

// Finalize raises the feature level of the cluster; older releases can no longer join.
func (c Upgrades) Finalize(ctx context.Context, req FinalizeUpgrade) (*Upgrade, error) {
	return post[Upgrade](ctx, c.t, path("cluster", "finalize-upgrade"), req)
}
