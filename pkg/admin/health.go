package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/broker"
)

// The reasons for which /ping and /stats say NOK.
const (
	reasonDiskFailed = "disk_failed"
	reasonDiskFull   = "disk_full"
	reasonLogCorrupt = "log_corrupt"
)

// health is the word or two that nsqd gives on its health: whether this node's
// disk takes what is written.
func (s *reports) health() string {
	for _, r := range s.o.Broker.Ready() {
		switch r.Code {
		case reasonDiskFailed, reasonDiskFull, reasonLogCorrupt:
			return "NOK - " + r.What
		}
	}
	return "OK"
}

// ping says that the process answers and that its disk takes what is written.
func (s *reports) ping(*http.Request) (any, error) {
	if h := s.health(); h != "OK" {
		return nil, &nsqError{http.StatusInternalServerError, h}
	}
	return "OK", nil
}

// probe is the answer of a health endpoint.
type probe struct {
	OK      bool         `json:"ok"`
	Reasons []api.Reason `json:"reasons"`
	Percent *int         `json:"percent,omitempty"` // of the start
}

// livez says whether the process should be left alone. It asks no other node.
func (s *reports) livez(w http.ResponseWriter, _ *http.Request) {
	answerProbe(w, probe{Reasons: apiReasons(s.o.Live())})
}

// readyz says whether the node should get clients. The parameter exclude names
// reasons, by comma, that are not to count.
func (s *reports) readyz(w http.ResponseWriter, r *http.Request) {
	excluded := strings.Split(r.URL.Query().Get("exclude"), ",")
	reasons := slices.DeleteFunc(apiReasons(s.o.Broker.Ready()), func(r api.Reason) bool {
		return slices.Contains(excluded, r.Code)
	})
	answerProbe(w, probe{Reasons: reasons})
}

// startupz says whether the node has read what it had on disk.
func (s *reports) startupz(w http.ResponseWriter, _ *http.Request) {
	percent := int(100 * min(max(s.o.Startup(), 0), 1))
	p := probe{Percent: &percent, Reasons: []api.Reason{}}
	if percent < 100 {
		p.Reasons = append(p.Reasons, api.Reason{Code: "starting", Count: 1, What: "log recovery in progress"})
	}
	answerProbe(w, p)
}

// answerProbe answers 503 for a probe with reasons.
func answerProbe(w http.ResponseWriter, p probe) {
	p.OK = len(p.Reasons) == 0
	status := http.StatusOK
	if !p.OK {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, status, p)
}

func apiReasons(reasons []broker.HealthReason) []api.Reason {
	out := make([]api.Reason, 0, len(reasons))
	for _, r := range reasons {
		out = append(out, api.Reason{Code: r.Code, Count: r.Count, What: r.What})
	}
	return out
}
