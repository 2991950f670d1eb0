package v1

import (
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
)

// clusterAPI is the cluster and its nodes.
type clusterAPI struct{ of ClusterReader }

func (v clusterAPI) route(t *API) {
	t.handle("GET /v1/cluster", v.cluster)
	t.handle("GET /v1/cluster/health", v.health)
	t.handle("GET /v1/nodes", v.nodes)
}

func (v clusterAPI) cluster(*http.Request) (answer, error) {
	return success(v.of.Cluster())
}

func (v clusterAPI) nodes(r *http.Request) (answer, error) {
	return success(api.NodeList{Nodes: v.of.Cluster().Nodes, Unregistered: v.of.Unregistered(r.Context())})
}

// health answers 200 whatever the health: the question was answered.
func (v clusterAPI) health(r *http.Request) (answer, error) {
	return success(v.of.ClusterHealth(r.Context()))
}

// upgradeAPI is the feature level of the cluster.
type upgradeAPI struct{ of Upgrades }

func (v upgradeAPI) route(t *API) {
	t.handle("POST /v1/cluster/finalize-upgrade", with(readOptionalJSON, v.finalize))
}

// finalize raises the feature level. A body is not required.
func (v upgradeAPI) finalize(r *http.Request, req api.FinalizeUpgrade) (answer, error) {
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

// Snapshot returns the metadata as this node knows it.
type Snapshot func() (api.MetadataSnapshot, error)

func (s Snapshot) route(t *API) {
	t.handle("GET "+api.PathSnapshot, func(*http.Request) (answer, error) {
		if s == nil {
			return answer{}, api.Errorf(failure.NotFound, "this node provides no snapshot")
		}
		out, err := s()
		if err != nil {
			return answer{}, err
		}
		return success(out)
	})
}

// Diagnose returns diagnostic data of a node's process.
type Diagnose func() api.Diagnosis

func (d Diagnose) route(t *API) {
	t.handle("GET "+api.PathDiagnosis, func(*http.Request) (answer, error) {
		if d == nil {
			return answer{}, api.Errorf(failure.NotFound, "this node provides no diagnosis")
		}
		return success(d())
	})
}
