package v1

import (
	"context"
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Waiting is the known state of a node that waits for its cluster. Its methods are safe for
// concurrent use.
type Waiting interface {
	ClusterReader
	// Topics returns the topics as far as this node knows them.
	Topics() []*meta.Topic
	Raft(ctx context.Context) api.Raft
	// Ready returns the reasons why this node does not serve.
	Ready() []health.Reason
}

// waiting answers the requests that help an operator find out why a cluster does not form.
type waiting struct{ of Waiting }

// NewWaiting returns the part of the interface that a node serves while it waits for its cluster.
func NewWaiting(of Waiting) *API {
	v, w, c := &API{mux: http.NewServeMux()}, waiting{of}, clusterAPI{of}
	v.handle("GET /v1/cluster/health", c.health)
	v.handle("GET /v1/cluster", w.formed(c.cluster))
	v.handle("GET /v1/nodes", w.formed(c.nodes))
	v.handle("GET /v1/cluster/raft", w.formed(w.raft))
	v.handle("GET /v1/partitions", w.formed(w.partitions))
	return v
}

// formed refuses a request while this node has no metadata: an empty answer would say that the cluster has
// nothing. A client asks another node then.
func (w waiting) formed(do func(*http.Request) (answer, error)) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		c := w.of.Cluster()
		if c.ClusterID != "" {
			return do(r)
		}
		e := api.Errorf(failure.Starting, "node %s has no cluster yet", c.Self)
		if reasons := w.of.Ready(); len(reasons) > 0 {
			e.Message += ": " + reasons[0].What
		}
		e.Hint, e.Fate = "start the other nodes; brokerctl cluster health shows what this node waits for", fate.Refused.String()
		return answer{}, e
	}
}

// Knows reports whether there is an endpoint for a request.
func (v *API) Knows(r *http.Request) bool {
	_, pattern := v.mux.Handler(r)
	return pattern != ""
}

func (w waiting) raft(r *http.Request) (answer, error) {
	return success(w.of.Raft(r.Context()))
}

func (w waiting) partitions(*http.Request) (answer, error) {
	list := api.PartitionList{Partitions: []api.Partition{}}
	for _, t := range w.of.Topics() {
		for _, p := range apiPartitions(t, nil) {
			p.Topic = t.Name
			list.Partitions = append(list.Partitions, p)
		}
	}
	return success(list)
}
