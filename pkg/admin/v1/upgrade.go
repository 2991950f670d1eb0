package v1

import (
	"net/http"
	"slices"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/operate"
)

// upgradeAPI is the feature level of the cluster.
type upgradeAPI struct{ of Upgrades }

func (v upgradeAPI) route(t *API) {
	t.handle("POST /v1/cluster/finalize-upgrade", v.finalize)
}

// finalize raises the feature level. A body is not required.
func (v upgradeAPI) finalize(r *http.Request) (answer, error) {
	var req api.FinalizeUpgrade
	if err := readOptionalJSON(r, &req); err != nil {
		return answer{}, err
	}
	u := v.of.Upgrade()
	if !req.DryRun {
		var err error
		if u, err = v.of.Finalize(r.Context()); err != nil {
			return answer{}, err
		}
	}
	return success(apiUpgrade(u))
}

func apiUpgrade(u operate.Upgrade) api.Upgrade {
	return api.Upgrade{
		Level: uint32(u.Level), Target: uint32(u.Target), Finalized: u.Target <= u.Level,
		Lagging: slices.AppendSeq([]string{}, slices.Values(u.Lagging)), Unregistered: slices.AppendSeq([]string{}, slices.Values(u.Unregistered)),
	}
}
