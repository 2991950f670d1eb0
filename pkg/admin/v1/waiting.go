package v1

import (
	"context"
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/api"
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
	v, w := &API{mux: http.NewServeMux()}, waiting{of}
	clusterAPI{of}.route(v)
	v.handle("GET /v1/cluster/raft", w.raft)
	v.handle("GET /v1/partitions", w.partitions)
	return v
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
