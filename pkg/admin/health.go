package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/health"
)

// probes answer health probes.
type probes struct {
	live  func() []health.Reason
	ready func() []health.Reason
}

func (s *probes) route(t *nsqform.Router) {
	t.Handle(http.MethodGet, "/livez", s.livez)
	t.Handle(http.MethodGet, "/healthz", s.livez)
	t.Handle(http.MethodGet, "/readyz", s.readyz)
	t.Handle(http.MethodGet, "/startupz", s.startupz)
}

// livez reports whether the process should be left running. It asks no other node.
func (s *probes) livez(w http.ResponseWriter, _ *http.Request) {
	answerProbe(w, s.live())
}

// readyz reports whether the node should get clients. The parameter exclude names
// reasons, by comma, that are not to count.
func (s *probes) readyz(w http.ResponseWriter, r *http.Request) {
	excluded := strings.Split(r.URL.Query().Get("exclude"), ",")
	reasons := slices.DeleteFunc(slices.Clone(s.ready()), func(r api.Reason) bool {
		return slices.Contains(excluded, r.Code)
	})
	answerProbe(w, reasons)
}

// startupz reports that recovery from disk is complete. Before, a Front answers.
func (s *probes) startupz(w http.ResponseWriter, _ *http.Request) { answerProbe(w, nil) }

// answerProbe answers a probe: 503 if there are reasons against it.
func answerProbe(w http.ResponseWriter, reasons []api.Reason) {
	p, status := api.Probe{OK: true, Reasons: []api.Reason{}}, http.StatusOK
	if len(reasons) > 0 {
		p, status = api.Probe{Reasons: reasons}, http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	web.WriteJSON(w, status, p)
}
