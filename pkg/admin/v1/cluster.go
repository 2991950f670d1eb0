package v1

import (
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/api"
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

func (v clusterAPI) nodes(*http.Request) (answer, error) {
	return success(api.NodeList{Nodes: v.of.Cluster().Nodes})
}

// health answers 200 whatever the health: the question was answered.
func (v clusterAPI) health(r *http.Request) (answer, error) {
	return success(v.of.ClusterHealth(r.Context()))
}
