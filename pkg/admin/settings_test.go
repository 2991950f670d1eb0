package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// fakeSettings are the settings of the nodes n1 and n2.
type fakeSettings struct {
	set string // the last change of a log level
}

func (f *fakeSettings) Settings(_ context.Context, only meta.NodeID) (*api.ClusterSettings, error) {
	if only == "n9" {
		return nil, fmt.Errorf("node %s: %w", only, failure.NodeNotFound)
	}
	out := &api.ClusterSettings{Nodes: []api.NodeSettings{}}
	for _, id := range []string{"n1", "n2"} {
		if only == "" || string(only) == id {
			out.Nodes = append(out.Nodes, api.NodeSettings{Node: id, Settings: []api.Setting{{Name: "zone", Value: "z", Source: "file"}}})
		}
	}
	return out, nil
}

func (f *fakeSettings) SetLogLevel(_ context.Context, id meta.NodeID, level string, lasts time.Duration) (api.LogLevel, error) {
	f.set = fmt.Sprint(id, " ", level, " ", lasts)
	return api.LogLevel{Node: string(id), Level: level}, nil
}

func TestSettingsOverHTTP(t *testing.T) {
	f := &fakeSettings{}
	here := web.Networks{netip.MustParsePrefix("127.0.0.0/8")}
	c, ctx := clientOf(t, newFake(), func(o *Options) { o.V1.Settings, o.ConfigFrom = f, here }), t.Context()
	if all, err := c.Settings.All(ctx, ""); err != nil || len(all.Nodes) != 2 || all.Nodes[1].Settings[0].Source != "file" {
		t.Errorf("%+v, %v", all, err)
	}
	if one, err := c.Settings.All(ctx, "n2"); err != nil || len(one.Nodes) != 1 || one.Nodes[0].Node != "n2" {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err := c.Settings.All(ctx, "n9"); api.CodeOf(err) != failure.NotFound {
		t.Error(err)
	}
	if l, err := c.Settings.SetLogLevel(ctx, "n2", api.SetLogLevel{Level: "debug", ForMS: 60_000}); err != nil || l.Level != "debug" || f.set != "n2 debug 1m0s" {
		t.Errorf("%+v, %v, %q", l, err, f.set)
	}
}

// TestLogLevelIsSetFromAllowedNetworks: as PUT /config, unless the caller is known to be an administrator.
func TestLogLevelIsSetFromAllowedNetworks(t *testing.T) {
	const path, body = "/v1/nodes/n1/log-level", `{"level":"debug"}`
	f := &fakeSettings{}
	foreign := func(o *Options) { o.V1.Settings, o.ConfigFrom = f, nil }
	if w := ask(serverOf(t, newFake(), foreign).Handler(), "POST", path, body); w.Code != http.StatusForbidden || f.set != "" {
		t.Errorf("from elsewhere: %d %s", w.Code, w.Body)
	}
	s, a, tokens := guardedServer(t, newFake(), foreign)
	if w := askAs(s.Handler(), tokens["ops"], "POST", path, body); w.Code != http.StatusOK || f.set == "" {
		t.Errorf("an administrator: %d %s", w.Code, w.Body)
	}
	if w := askAs(s.Handler(), tokens["reader"], "POST", path, body); w.Code != http.StatusForbidden {
		t.Errorf("a reader: %d", w.Code)
	}
	if err := a.Change(t.Context(), access.Change{Verb: access.Disable}); err != nil {
		t.Fatal(err)
	}
	if w := askAs(s.Handler(), tokens["reader"], "POST", path, body); w.Code != http.StatusForbidden {
		t.Errorf("a reader, while access control is off: %d", w.Code)
	}
}
