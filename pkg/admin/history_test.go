package admin

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
)

func TestHistoryOfAChannel(t *testing.T) {
	f := orders()
	f.saved = []*meta.Saved{{Index: 7, At: 1e9, Verb: "seek", Topic: "orders", Channel: "bill", Partitions: []meta.SavedPartition{{Partition: 1, Floor: 5, Target: 2}}}}
	h := serverOf(t, f).Handler()
	const bill = "/v1/topics/orders/channels/bill/"
	for _, x := range []struct{ method, target, body, want string }{
		{"GET", bill + "seek?to=start", "", `{"topic":"orders","channel":"bill","partitions":[{"partition":1,"now":5,"target":2,"redelivered":3,"skipped":1}]}`},
		{"GET", bill + "history", "", `{"topic":"orders","channel":"bill","saved":[{"id":7,"at":"1970-01-01T00:00:01Z","verb":"seek","partitions":[{"partition":1,"confirmed":5,"moved_to":2}]}]}`},
		{"POST", bill + "undo", "", `{"topic":"orders","channel":"bill","verb":"seek","at":"1970-01-01T00:00:01Z","partitions":[{"partition":1,"confirmed":5,"gone":2}]}`},
		{"POST", "/v1/topics/orders/channels/none/restore", "", `{"topic":"orders","channel":"bill","verb":"seek","at":"1970-01-01T00:00:01Z","partitions":[]}`},
	} {
		if w := ask(h, x.method, x.target, x.body); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != x.want {
			t.Errorf("%s: %d %s", x.target, w.Code, w.Body)
		}
	}
	if w := ask(h, "POST", bill+"seek", `{"to":"end","partition":1}`); w.Code != http.StatusOK || !f.sought.End || *f.sought.Partition != 1 {
		t.Errorf("%d %+v", w.Code, f.sought)
	}
	if w := ask(h, "POST", bill+"skip", `{"partition":1,"to":9}`); w.Code != http.StatusOK || *f.sought.Offset != 9 || *f.sought.Partition != 1 || !f.sought.Forward {
		t.Errorf("%d %+v", w.Code, f.sought)
	}
	if w := ask(h, "GET", bill+"seek?time=2026-11-21T06:00:00Z&partition=0", ""); w.Code != http.StatusOK || f.sought.Time.Hour() != 6 || *f.sought.Partition != 0 {
		t.Errorf("%d %+v", w.Code, f.sought)
	}
	// A new channel begins at the requested position; an existing one keeps its position.
	ask(h, "POST", "/v1/topics/orders/channels", `{"name":"new","from":{"offset":3}}`)
	ask(h, "POST", "/v1/topics/orders/channels", `{"name":"bill","from":{"offset":4}}`)
	if *f.sought.Offset != 3 || !f.sought.Unsaved || slices.Contains(f.calls[1:], "seek orders/bill") && strings.Count(strings.Join(f.calls, ";"), "seek orders/bill") != 2 {
		t.Errorf("%+v %v", f.sought, f.calls)
	}
	f.saved = nil
	for target, code := range map[string]int{
		"POST " + bill + "undo": http.StatusNotFound, "POST " + bill + "restore": http.StatusConflict,
		"POST /v1/topics/orders/channels/none/undo": http.StatusNotFound, "GET " + bill + "seek": http.StatusBadRequest,
		"GET " + bill + "seek?offset=x": http.StatusBadRequest, "GET " + bill + "seek?time=now": http.StatusBadRequest,
		"GET " + bill + "seek?to=end&partition=x": http.StatusBadRequest, "POST /v1/topics/orders/channels/a+b/restore": http.StatusBadRequest,
	} {
		method, path, _ := strings.Cut(target, " ")
		if w := ask(h, method, path, ""); w.Code != code {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if w := ask(h, "POST", bill+"skip", `{"partition":1,"to":18446744073709551615}`); w.Code != http.StatusBadRequest {
		t.Errorf("%d", w.Code)
	}
}

func TestSeeksToTimesThatCannotBeStoredAreClamped(t *testing.T) {
	f := newFake("orders").withChannel("orders", "bill")
	h := serverOf(t, f).Handler()
	const bill = "/v1/topics/orders/channels/bill/"
	for text, want := range map[string]int64{"9999-12-31T23:59:59Z": math.MaxInt64, "0001-01-01T00:00:01Z": math.MinInt64} {
		for target, body := range map[string]string{"POST " + bill + "seek": `{"time":"` + text + `"}`, "GET " + bill + "seek?time=" + text: ""} {
			method, path, _ := strings.Cut(target, " ")
			if w := ask(h, method, path, body); w.Code != http.StatusOK || f.sought.Time.UnixNano() != want || f.sought.Time.IsZero() {
				t.Errorf("%s %s: %d, %v", target, body, w.Code, f.sought.Time)
			}
		}
	}
}
