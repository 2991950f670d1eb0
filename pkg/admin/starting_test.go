package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
)

func teapot(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }

func TestFrontAnswersBeforeNodeIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Front
		get := func(path string) (code int, body string, took time.Duration) {
			began := time.Now()
			w := httptest.NewRecorder()
			f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			return w.Code, w.Body.String(), time.Since(began)
		}
		for _, test := range []struct {
			path string
			want int
			wait time.Duration
		}{
			{"/livez", 200, 0},
			{"/readyz", 503, 0},
			{"/startupz", 503, 0},
			{"/ping", 200, startTimeout},
			{"/v1/topics", 503, startTimeout},
			{"/pub?topic=t", 503, startTimeout},
		} {
			code, body, took := get(test.path)
			if code != test.want || took != test.wait {
				t.Errorf("%s: %d %s after %v, want %d after %v", test.path, code, body, took, test.want, test.wait)
			}
			if code == 503 && !strings.Contains(body, `"starting"`) {
				t.Errorf("%s does not say that the node is starting: %s", test.path, body)
			}
		}
		f.Open(http.HandlerFunc(teapot))
		if code, _, _ := get("/readyz"); code != http.StatusTeapot {
			t.Errorf("an open front answers %d by itself", code)
		}
	})
}

// waitingNode knows a little, and what it waits for.
type waitingNode struct{}

func (waitingNode) Cluster() api.Cluster {
	return api.Cluster{ClusterID: "c", Self: "n1", Nodes: []api.Node{{ID: "n1", State: "up"}, {ID: "n2", State: "down", Silent: true}}}
}

func (waitingNode) Unregistered(context.Context) []api.UnregisteredNode { return nil }

func (waitingNode) ClusterHealth(context.Context) health.Report { return health.Report{} }

func (waitingNode) Raft(context.Context) api.Raft { return api.Raft{Tolerance: -1} }

func (waitingNode) Topics() []*meta.Topic {
	return []*meta.Topic{{Name: "t", Partitions: []meta.Partition{{Replicas: []meta.NodeID{"n1", "n2"}}}}}
}

func (waitingNode) Ready() []health.Reason {
	return []health.Reason{{Code: "metadata_quorum", Count: 1, What: "no answer from n2"}}
}

func TestWaitingNodeAnswersOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Front
		f.Wait(waitingNode{})
		get := func(path string) (code int, body string, took time.Duration) {
			began := time.Now()
			w := httptest.NewRecorder()
			f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			return w.Code, w.Body.String(), time.Since(began)
		}
		if _, _, took := get("/v1/cluster"); took != startTimeout {
			t.Errorf("a node that has only just started is waited for %v", took)
		}
		for _, test := range []struct {
			path string
			code int
			want string
			wait time.Duration
		}{
			{"/readyz", 503, `"metadata_quorum"`, 0},
			{"/livez", 200, `"ok":true`, 0},
			{"/v1/cluster", 200, `"n2"`, 0},
			{"/v1/cluster/health", 200, `"healthy":false`, 0},
			{"/v1/cluster/raft", 200, `"tolerance":-1`, 0},
			{"/v1/nodes", 200, `"silent":true`, 0},
			{"/v1/partitions", 200, `"topic":"t"`, 0},
			{"/v1/topics", 503, "no answer from n2", startTimeout},
			{"/pub?topic=t", 503, "no answer from n2", startTimeout},
		} {
			code, body, took := get(test.path)
			if code != test.code || took != test.wait || !strings.Contains(body, test.want) {
				t.Errorf("%s: %d %s after %v, want %d with %s after %v", test.path, code, body, took, test.code, test.want, test.wait)
			}
		}
	})
}

// newNode waits for its cluster and has no metadata.
type newNode struct{ waitingNode }

func (newNode) Cluster() api.Cluster { return api.Cluster{Self: "n1", Nodes: []api.Node{}} }

// An empty list of nodes or partitions would look like the answer of a cluster that has none.
func TestNodeWithoutMetadataSaysThatThereIsNoCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Front
		f.Wait(newNode{})
		for _, path := range []string{"/v1/cluster", "/v1/nodes", "/v1/partitions", "/v1/cluster/raft"} {
			w := httptest.NewRecorder()
			f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if text := w.Body.String(); w.Code != 503 || !strings.Contains(text, `"starting"`) || !strings.Contains(text, "node n1 has no cluster yet: no answer from n2") {
				t.Errorf("%s: %d %s", path, w.Code, text)
			}
		}
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/cluster/health", nil))
		if w.Code != 200 {
			t.Errorf("health: %d %s", w.Code, w.Body)
		}
	})
}

// TestPingDuringStartIsAnsweredByNode: clients ping until there is an
// answer, and publish.
func TestPingDuringStartIsAnsweredByNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Front
		began := time.Now()
		time.AfterFunc(startTimeout/2, func() { f.Open(http.HandlerFunc(teapot)) })
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ping", nil))
		if took := time.Since(began); w.Code != http.StatusTeapot || took != startTimeout/2 {
			t.Errorf("%d after %v", w.Code, took)
		}
	})
}

func TestCancelledRequestDoesNotWaitForNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Front
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		f.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/ping", nil))
		if took := time.Since(began); took != 0 {
			t.Errorf("waited %v", took)
		}
	})
}
