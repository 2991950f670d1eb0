package v1

import (
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
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
	web.ActOf(r.Context()).DryRun = req.DryRun
	u := v.of.Upgrade()
	if !req.DryRun {
		var err error
		if u, err = v.of.Finalize(r.Context()); err != nil {
			return answer{}, err
		}
	}
	return success(u)
}
