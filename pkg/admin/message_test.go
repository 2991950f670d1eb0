package admin

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/seq"
)

func TestOneMessageIsShownAndFinished(t *testing.T) {
	f := orders()
	h := serverOf(t, f).Handler()
	ids := seq.NumberingOf("c1", uint64(f.topics["orders"].Incarnation))
	id := func(partition int, o seq.Offset) string { return ids.ID(seq.NewMessageID(partition, o)).String() }
	w := ask(h, http.MethodGet, "/v1/topics/orders/messages/"+id(0, 5), "")
	for _, part := range []string{
		`{"topic":"orders","partition":0,"seq":5,`, `"text":"text"`,
		`"channels":[{"channel":"away","state":"in_flight","attempts":2},{"channel":"bill",`, `{"channel":"tail#ephemeral",`,
	} {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("%d %s lacks %s", w.Code, w.Body, part)
		}
	}
	if w = ask(h, http.MethodGet, "/v1/topics/orders/messages/"+id(0, 5)+"?channel=bill", ""); strings.Contains(w.Body.String(), "away") {
		t.Errorf("%s", w.Body)
	}
	if p := f.peeked; p.Channel != "bill" || p.Partition != 0 || *p.From != 5 || p.Max != 1 {
		t.Errorf("%+v", p)
	}
	want := `{"topic":"orders","channel":"bill","id":"` + id(1, 9) + `","partition":1,"seq":9,"was":"in_flight"}`
	w = ask(h, http.MethodPost, "/v1/topics/orders/channels/bill/messages/"+id(1, 9)+"/finish", "")
	if w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want || !slices.Contains(f.calls, "finish 1/9 of orders/bill") {
		t.Errorf("%d %s %v", w.Code, w.Body, f.calls)
	}
	for target, code := range map[string]int{
		"GET /v1/topics/orders/messages/" + id(0, 6):                              http.StatusNotFound, // the fake has no such message
		"GET /v1/topics/orders/messages/" + id(2, 5):                              http.StatusNotFound, // nor partition
		"GET /v1/topics/orders/messages/0000000000000000":                         http.StatusNotFound,
		"GET /v1/topics/orders/messages/xyz":                                      http.StatusBadRequest,
		"GET /v1/topics/none/messages/" + id(0, 5):                                http.StatusNotFound,
		"POST /v1/topics/orders/channels/bill/messages/" + id(0, 101) + "/finish": http.StatusNotFound,
		"POST /v1/topics/orders/channels/none/messages/" + id(0, 5) + "/finish":   http.StatusNotFound,
		"POST /v1/topics/orders/channels/bill/messages/12/finish":                 http.StatusBadRequest,
	} {
		method, path, _ := strings.Cut(target, " ")
		if w := ask(h, method, path, ""); w.Code != code || !strings.Contains(w.Body.String(), `"fate":"refused"`) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}
