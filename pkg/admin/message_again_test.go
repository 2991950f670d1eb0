package admin

import (
	"net/http"
	"testing"

	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/seq"
)

func TestMessageIsRepublished(t *testing.T) {
	f := orders()
	f.topics["orders"].Channels["bill"].Version = 77
	h := serverOf(t, f).Handler()
	ids := seq.NumberingOf("c1", uint64(f.topics["orders"].Incarnation))
	id := ids.ID(seq.NewMessageID(0, 5)).String()
	if w := ask(h, http.MethodPost, "/v1/topics/orders/channels/bill/messages/"+id+"/requeue", ""); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	p := f.published[0]
	a := p.Messages[0].Address
	if p.Topic != "orders" || p.Partition != 0 || a == nil || a.Channel != 77 || a.Offset != 5 || a.Moves || a.Timestamp == 0 || string(p.Messages[0].Body) != "text" {
		t.Errorf("published %+v, address %+v", p, a)
	}
	if w := ask(h, http.MethodPost, "/v1/topics/orders/messages/"+id+"/copy?to=orders", ""); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if p := f.published[1]; p.Topic != "orders" || p.Partition != host.AnyPartition || p.Messages[0].Address != nil || string(p.Messages[0].Body) != "text" {
		t.Errorf("copied %+v", p)
	}
	missing := ids.ID(seq.NewMessageID(0, 6)).String()
	for target, code := range map[string]int{
		"/v1/topics/orders/channels/bill/messages/" + missing + "/requeue": http.StatusNotFound,
		"/v1/topics/orders/channels/none/messages/" + id + "/requeue":      http.StatusNotFound,
		"/v1/topics/orders/messages/" + id + "/copy":                       http.StatusNotFound,
		"/v1/topics/orders/messages/" + id + "/copy?to=none":               http.StatusNotFound,
		"/v1/topics/orders/messages/xyz/copy?to=orders":                    http.StatusBadRequest,
	} {
		if w := ask(h, http.MethodPost, target, ""); w.Code != code {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if len(f.published) != 2 {
		t.Errorf("%d publishes", len(f.published))
	}
}
