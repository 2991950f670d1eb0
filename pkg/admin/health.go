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

// probe is the answer of a health endpoint.
type probe struct {
	OK      bool         `json:"ok"`
	Reasons []api.Reason `json:"reasons"`
	Percent *int         `json:"percent,omitempty"` // of the start
}

// probes answer health probes.
type probes struct {
	live    func() []health.Reason
	ready   func() []health.Reason
	startup func() float64
}

func (s *probes) route(t *nsqform.Router) {
	t.Handle(http.MethodGet, "/livez", s.livez)
	t.Handle(http.MethodGet, "/healthz", s.livez)
	t.Handle(http.MethodGet, "/readyz", s.readyz)
	t.Handle(http.MethodGet, "/startupz", s.startupz)
}

// livez reports whether the process should be left running. It asks no other node.
func (s *probes) livez(w http.ResponseWriter, _ *http.Request) {
	answerProbe(w, probe{Reasons: s.live()})
}

// readyz reports whether the node should get clients. The parameter exclude names
// reasons, by comma, that are not to count.
func (s *probes) readyz(w http.ResponseWriter, r *http.Request) {
	excluded := strings.Split(r.URL.Query().Get("exclude"), ",")
	reasons := slices.DeleteFunc(slices.Clone(s.ready()), func(r api.Reason) bool {
		return slices.Contains(excluded, r.Code)
	})
	answerProbe(w, probe{Reasons: reasons})
}

// startupz reports whether recovery from disk is complete.
func (s *probes) startupz(w http.ResponseWriter, _ *http.Request) {
	percent := int(100 * min(max(s.startup(), 0), 1))
	p := probe{Percent: &percent, Reasons: []api.Reason{}}
	if percent < 100 {
		p.Reasons = append(p.Reasons, api.Reason{Code: "starting", Count: 1, What: "log recovery in progress"})
	}
	answerProbe(w, p)
}

// answerProbe answers 503 for a probe with reasons.
func answerProbe(w http.ResponseWriter, p probe) {
	if p.OK = len(p.Reasons) == 0; p.OK {
		p.Reasons = []api.Reason{}
	}
	status := http.StatusOK
	if !p.OK {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	web.WriteJSON(w, status, p)
}
