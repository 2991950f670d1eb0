package bundle

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// journal is how many audit entries and events a bundle holds.
const journal = 10_000

// Questioner knows the questions to ask.
type Questioner struct {
	Client  *api.Client   // of the cluster
	HTTP    *http.Client  // for nodes by themselves
	Timeout time.Duration // of an answer
	Secure  bool          // nodes are asked at their HTTPS addresses
	Profile time.Duration // how long processors are profiled; 0: not at all
}

// asked is a request of /v1 whose answer becomes a file of JSON.
func asked[T any](q *Questioner, name string, f func(context.Context) (T, error)) Question {
	return Question{Name: name, Timeout: q.Timeout, Ask: func(ctx context.Context, max int) ([]byte, bool, error) {
		v, err := f(ctx)
		if err != nil {
			return nil, false, err
		}
		text, err := json.MarshalIndent(v, "", "  ")
		return text[:min(len(text), max)], len(text) > max, err
	}}
}

// Cluster returns questions about the cluster for any node.
func (q *Questioner) Cluster() Source {
	c := q.Client
	last := api.JournalOptions{Max: journal}
	return Source{Name: "cluster", Questions: []Question{
		asked(q, "cluster/health.json", c.Health),
		asked(q, "cluster/info.json", c.Cluster),
		asked(q, "cluster/raft.json", c.Raft),
		asked(q, "cluster/balance.json", c.Balance),
		asked(q, "cluster/topics.json", c.Topics),
		asked(q, "cluster/channels.json", func(ctx context.Context) (*api.Lag, error) { return c.Insights.Lag(ctx, "", "") }),
		asked(q, "cluster/deleted.json", c.Trash.Topics),
		asked(q, "cluster/events.json", func(ctx context.Context) (*api.EventLog, error) { return c.Insights.Events(ctx, last) }),
		asked(q, "cluster/audit.json", func(ctx context.Context) (*api.AuditLog, error) { return c.Insights.Audit(ctx, last) }),
	}}
}

// Node returns questions to one node about itself, and to another about it.
func (q *Questioner) Node(ctx context.Context, n *api.Node) Source {
	address := n.URL(q.Secure)
	detail := func(ctx context.Context) (*api.NodeDetail, error) { return q.Client.Node(ctx, n.ID) }
	get := func(name, path string, runs time.Duration) Question {
		return Question{Name: n.ID + "/" + name, Runs: runs, Timeout: q.Timeout, Ask: func(ctx context.Context, max int) ([]byte, bool, error) {
			return api.Fetch(ctx, q.HTTP, address, path, max)
		}}
	}
	probe := func(name, path string) Question {
		return asked(q, n.ID+"/"+name, func(ctx context.Context) (*api.Probe, error) { return api.AskProbe(ctx, q.HTTP, address, path) })
	}
	s := Source{Name: n.ID, Questions: []Question{
		probe("live.json", api.ProbeLive),
		probe("ready.json", api.ProbeReady),
		get("diagnosis.json", api.PathDiagnosis, 0),
		get("metrics.txt", "/metrics", 0),
		get("stats.json", "/stats?format=json&include_clients=true", 0),
		asked(q, n.ID+"/node.json", detail),
	}}
	if q.Profile > 0 {
		seconds := max(1, int(q.Profile.Seconds()))
		s.Questions = append(s.Questions,
			get("cpu.pprof", fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds), time.Duration(seconds)*time.Second),
			get("heap.pprof", "/debug/pprof/heap", 0))
	}
	return s
}
