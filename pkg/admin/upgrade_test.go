package admin

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// fakeUpgrades is a cluster of level 1 whose node supports level 2.
type fakeUpgrades struct {
	level   uint32 // 0: 1
	lagging []string
}

func (f *fakeUpgrades) Upgrade() api.Upgrade {
	return api.Upgrade{Level: max(f.level, 1), Target: 2, Lagging: f.lagging, Unregistered: []string{}, Finalized: f.level >= 2}
}

func (f *fakeUpgrades) Finalize(context.Context) (api.Upgrade, error) {
	if len(f.lagging) > 0 {
		return api.Upgrade{}, fmt.Errorf("%w: level 2 is not supported by %s", failure.FeatureLevel, f.lagging)
	}
	f.level = 2
	return f.Upgrade(), nil
}

func TestUpgradeIsFinalizedOnceAllNodesSupportIt(t *testing.T) {
	f := &fakeUpgrades{lagging: []string{"n3"}}
	c, ctx := clientOf(t, newFake(), func(o *Options) { o.V1.Upgrades = f }), t.Context()
	if u, err := c.Upgrades.Finalize(ctx, api.FinalizeUpgrade{DryRun: true}); err != nil || u.Level != 1 || u.Target != 2 || u.Finalized || len(u.Lagging) != 1 || u.Unregistered == nil {
		t.Errorf("dry run: %+v, %v", u, err)
	}
	if _, err := c.Upgrades.Finalize(ctx, api.FinalizeUpgrade{}); api.CodeOf(err) != failure.Precondition || !strings.Contains(err.Error(), "n3") {
		t.Errorf("while n3 lags: %v", err)
	}
	f.lagging = nil
	if u, err := c.Upgrades.Finalize(ctx, api.FinalizeUpgrade{DryRun: true}); err != nil || u.Finalized || f.level != 0 {
		t.Errorf("dry run: %+v, %v, level %v", u, err, f.level)
	}
	if u, err := c.Upgrades.Finalize(ctx, api.FinalizeUpgrade{}); err != nil || !u.Finalized || u.Level != 2 {
		t.Errorf("%+v, %v", u, err)
	}
}
