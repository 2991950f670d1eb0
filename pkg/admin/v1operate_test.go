package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/failure"
)

func TestOperatorReadsMatchGoldens(t *testing.T) {
	h := serverOf(t, orders()).Handler()
	for name, target := range map[string]string{
		"v1-node.json":      "/v1/nodes/n1",
		"v1-partition.json": "/v1/topics/orders/partitions/1",
		"v1-repair.json":    "/v1/topics/orders/partitions/0/repair",
		"v1-balance.json":   "/v1/cluster/balance",
		"v1-raft.json":      "/v1/cluster/raft",
	} {
		w := ask(h, http.MethodGet, target, "")
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d", target, w.Code)
		}
		goldenText(t, name, indented(t, w.Body.Bytes()))
	}
}

func TestOperatorChangesReachBroker(t *testing.T) {
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 []string
	}{
		{"POST", "/v1/nodes/n1/drain", "", 200, []string{"drain n1 force=false stopping=false"}},
		{"POST", "/v1/nodes/n1/drain", `{"force":true,"stopping":true}`, 200, []string{"drain n1 force=true stopping=true"}},
		{"POST", "/v1/nodes/n1/drain", `{"dry_run":true}`, 200, nil},
		{"POST", "/v1/nodes/n1/undrain", "", 200, []string{"undrain n1"}},
		{"POST", "/v1/nodes/n1/decommission", `{"force":true}`, 200, []string{"decommission n1 force=true"}},
		{"DELETE", "/v1/nodes/n9", "", 204, []string{"remove n9 lose=false dry=false"}},
		{"DELETE", "/v1/nodes/n9?lose_deleted=true&dry_run=true", "", 204, []string{"remove n9 lose=true dry=true"}},
		{"DELETE", "/v1/nodes/n9?lose_deleted=perhaps", "", 400, nil},
		{"GET", "/v1/nodes/n9", "", 404, nil},
		{"POST", "/v1/topics/orders/partitions/0/transfer", `{"to":"n2"}`, 200, []string{`transfer orders/0 to "n2"`}},
		{"POST", "/v1/topics/orders/partitions/0/transfer", "", 200, []string{`transfer orders/0 to ""`}},
		{"POST", "/v1/topics/orders/partitions/0/elect", `{"to":"n2","unclean":true}`, 200, []string{`elect orders/0 to "n2" unclean=true`}},
		{"POST", "/v1/topics/orders/partitions/0/elect", `{"unclean":true}`, 400, nil},
		{"POST", "/v1/topics/orders/partitions/0/move", `{"replicas":["n2","n3"]}`, 200, []string{"move orders/0 to [n2 n3]"}},
		{"POST", "/v1/topics/orders/partitions/0/move", `{"replicas":["n2","n3"],"dry_run":true}`, 200, nil},
		{"POST", "/v1/nodes/n1/decommission", `{"dry_run":true}`, 200, nil},
		{"POST", "/v1/topics/orders/partitions/0/move", "", 400, nil},
		{"DELETE", "/v1/topics/orders/partitions/0/move", "", 200, []string{"cancel the move of orders/0"}},
		{"POST", "/v1/topics/orders/partitions/0/repair", `{"node":"n1","discard":"orders.9.0.4"}`, 200, []string{`discard orders.9.0.4 of orders/0 on n1`}},
		{"POST", "/v1/topics/orders/partitions/0/repair", `{"node":"n1","accept_loss":true}`, 200, []string{`accept the loss of orders/0 on n1`}},
		{"POST", "/v1/topics/orders/partitions/0/repair", `{"node":"n1"}`, 400, nil},
		{"POST", "/v1/topics/orders/partitions/0/repair", `{"discard":"orders.9.0.4"}`, 400, nil},
		{"POST", "/v1/topics/orders/partitions/0/repair", `{"node":"n1","discard":"orders.9.0.4","accept_loss":true}`, 400, nil},
		{"GET", "/v1/topics/orders/partitions/7", "", 404, nil},
		{"GET", "/v1/topics/orders/partitions/x", "", 400, nil},
		{"GET", "/v1/topics/or%20ders/partitions/0", "", 400, nil},
		{"POST", "/v1/cluster/balance", `{"leaders":true,"limit":3}`, 200, []string{"balance leaders=true replicas=false limit=3"}},
		{"POST", "/v1/cluster/balance", `{"leaders":true,"dry_run":true}`, 200, nil},
		{"POST", "/v1/cluster/balance", `{}`, 400, nil},
		{"POST", "/v1/cluster/balance", `{"replicas":true,"limit":-1}`, 400, nil},
		{"PATCH", "/v1/topics/orders", `{"replicas":3}`, 200, []string{"alter orders", "fit the replicas of orders"}},
		{"PATCH", "/v1/topics/orders", `{"replicas":1}`, 200, []string{"alter orders", "fit the replicas of orders"}},
		{"PATCH", "/v1/topics/orders", `{"min_isr":1}`, 200, []string{"alter orders"}},
		{"POST", "/v1/cluster/raft/transfer", "", 200, []string{"transfer the controller"}},
		{"POST", "/v1/cluster/raft", "", 405, nil},
	} {
		t.Run(c.method+" "+c.target+" "+c.body, func(t *testing.T) {
			f := orders()
			w := ask(serverOf(t, f).Handler(), c.method, c.target, c.body)
			if w.Code != c.status {
				t.Errorf("status %d, want %d: %s", w.Code, c.status, w.Body)
			}
			if diff := cmp.Diff(c.want, f.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOperatorRefusalsHaveCodes(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   failure.Code
	}{
		{&controller.DrainError{Node: "n1", Troubles: []controller.Trouble{{Kind: controller.TroubleDrain}}}, 409, "precondition_failed"},
		{fmt.Errorf("node n9: %w", failure.NodeNotFound), 404, "not_found"},
		{fmt.Errorf("n2: %w", failure.NoSetAside), 404, "not_found"},
		{failure.NoLoss, 409, "precondition_failed"},
		{failure.NodeInUse, 409, "precondition_failed"},
		{failure.NodeActive, 409, "precondition_failed"},
		{failure.NotController, 503, "unavailable"},
		{failure.LastVoter, 409, "precondition_failed"},
		{failure.Unreachable, 503, "unavailable"},
	} {
		f := orders()
		f.fail = c.err
		w := ask(serverOf(t, f).Handler(), http.MethodPost, "/v1/nodes/n1/drain", "")
		var got api.ErrorAnswer
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Error == nil {
			t.Errorf("%v: answered %q: %v", c.err, w.Body, err)
			continue
		}
		if w.Code != c.status || got.Error.Code != c.code || got.Error.Fate != "refused" {
			t.Errorf("%v: %d %+v, want %d %s", c.err, w.Code, got.Error, c.status, c.code)
		}
	}
}
