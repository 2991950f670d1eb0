package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/flow"
)

// Scripts read the JSON of lag: names, order and null are as documented.
func TestLagAnswers(t *testing.T) {
	f := orders()
	f.stats[0].Channels[0].Rates = flow.Rates{In: 1, Out: 3, InLong: 0.5, OutLong: 0.25}
	f.stats[0].MissingNodes = []string{"n2"}
	h := serverOf(t, f).Handler()
	const bill = `{"topic":"orders","channel":"bill","depth":5,"oldest_age_ms":1500,"in_per_s":1,"out_per_s":3,"in_per_s_15m":0.5,"out_per_s_15m":0.25,` +
		`"drains_in_ms":2500,"in_flight":1,"deferred":2,"paused":false,"missing_nodes":["n2"]}`
	for target, want := range map[string]string{
		"/v1/lag?topic=orders&channel=bill": `{"channels":[` + bill + `]}`,
		"/v1/lag?topic=other":               `{"channels":[]}`,
	} {
		if w := ask(h, http.MethodGet, target, ""); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	for _, target := range []string{"/v1/lag", "/v1/lag?topic=orders"} {
		w := ask(h, http.MethodGet, target, "")
		if body := w.Body.String(); strings.Index(body, `"channel":"away"`) > strings.Index(body, bill) || !strings.Contains(body, bill) || !strings.Contains(body, `"channel":"tail#ephemeral"`) {
			t.Errorf("%s: %d %s", target, w.Code, body)
		}
	}
	f.stats[0].Channels[0].Rates.In = 3
	f.topics["orders"].Partitions[1].Leader = ""
	if w := ask(h, http.MethodGet, "/v1/lag", ""); !strings.Contains(w.Body.String(), `"drains_in_ms":null`) || !strings.Contains(w.Body.String(), `"offline_partitions":1`) {
		t.Errorf("%s", w.Body)
	}
	for target, code := range map[string]int{
		"/v1/lag?channel=bill": http.StatusBadRequest, "/v1/lag?topic=none": http.StatusNotFound, "/v1/lag?topic=orders&channel=none": http.StatusNotFound,
	} {
		if w := ask(h, http.MethodGet, target, ""); w.Code != code {
			t.Errorf("%s: %d, want %d", target, w.Code, code)
		}
	}
	w := ask(h, http.MethodGet, "/v1/consumers", "")
	if !strings.HasPrefix(w.Body.String(), `{"consumers":[{"topic":"orders","channel":"bill","address":"10.0.0.9:1"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
