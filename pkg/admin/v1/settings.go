package v1

import (
	"context"
	"net/http"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Settings are the settings of the nodes. Its methods are safe for concurrent use.
type Settings interface {
	// Settings returns the settings of all nodes (""), or of one.
	Settings(ctx context.Context, only meta.NodeID) (*api.ClusterSettings, error)
	// SetLogLevel changes the log level of a node, for a time or (0) until it restarts or reloads its
	// configuration.
	SetLogLevel(ctx context.Context, id meta.NodeID, level string, lasts time.Duration) (api.LogLevel, error)
}

// settingsAPI is the settings of the nodes, and what can be changed of them while they run.
type settingsAPI struct {
	of   Settings
	from web.Networks // of clients that may change settings without an identity
}

func (v settingsAPI) route(t *API) {
	t.handle("GET /v1/settings", v.settings)
	t.handle("POST /v1/nodes/{node}/log-level", v.setLogLevel)
}

func (v settingsAPI) settings(r *http.Request) (answer, error) {
	return reply(v.of.Settings(r.Context(), meta.NodeID(r.URL.Query().Get("node"))))
}

func (v settingsAPI) setLogLevel(r *http.Request) (answer, error) {
	// With access control, the caller is known and has the right admin.
	if !v.from.Has(r) && !guard.CallerOf(r.Context()).Directory.On() {
		e := api.Errorf(failure.Forbidden, "settings are changed from the networks in allow-config-from-cidr only, while access control is off")
		e.Hint = "run brokerctl on the node itself, or enable access control"
		return answer{}, e
	}
	var req api.SetLogLevel
	if err := readJSON(r, &req); err != nil {
		return answer{}, err
	}
	return reply(v.of.SetLogLevel(r.Context(), nodeOf(r), req.Level, time.Duration(req.ForMS)*time.Millisecond))
}
