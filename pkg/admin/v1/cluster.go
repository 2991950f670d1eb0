package v1

import (
	"net/http"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/operate"
)

// clusterAPI is the cluster and its nodes.
type clusterAPI struct{ of ClusterReader }

func (v clusterAPI) route(t *API) {
	t.handle("GET /v1/cluster", v.cluster)
	t.handle("GET /v1/cluster/health", v.health)
	t.handle("GET /v1/nodes", v.nodes)
}

func (v clusterAPI) cluster(*http.Request) (answer, error) {
	info := v.of.Cluster()
	return success(api.Cluster{
		ClusterID:  info.ID,
		Controller: info.Controller,
		Self:       info.Self,
		Nodes:      apiNodes(info.Nodes),
		Level:      uint32(info.Level),
		Attainable: uint32(info.Attainable),
	})
}

func (v clusterAPI) nodes(*http.Request) (answer, error) {
	return success(api.NodeList{Nodes: apiNodes(v.of.Cluster().Nodes)})
}

// health answers 200 whatever the health: the question was answered.
func (v clusterAPI) health(r *http.Request) (answer, error) {
	h := v.of.ClusterHealth(r.Context())
	return success(api.Health{Healthy: h.Healthy, Degraded: h.Degraded, Reasons: web.Reasons(h.Reasons)})
}

func apiNodes(nodes []operate.NodeInfo) []api.Node {
	out := make([]api.Node, 0, len(nodes))
	for _, n := range nodes {
		out = append(out, apiNode(n))
	}
	slices.SortFunc(out, func(a, b api.Node) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func apiNode(n operate.NodeInfo) api.Node {
	return api.Node{
		ID:             n.ID,
		State:          api.NodeState(n.State),
		Silent:         n.Silent,
		Voter:          n.Voter,
		TCPAddress:     n.TCPAddress,
		HTTPAddress:    n.HTTPAddress,
		ClusterAddress: n.ClusterAddress,
		Zone:           n.Zone,
		Version:        n.Version,
		Incarnation:    n.Incarnation,
		Intent:         api.Intent(n.Intent),
		Leaders:        n.Leaders,
		Replicas:       n.Replicas,
		Levels:         api.Levels{Min: uint32(n.Levels.Min), Max: uint32(n.Levels.Max)},
	}
}
