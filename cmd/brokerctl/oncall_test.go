package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// Who drains a node intends to stop it: without --stopping, too, is said what that would break.
func TestDrainWarnsOfWhatStoppingTheNodeWouldBreak(t *testing.T) {
	n := leavingNode()
	n.Troubles = nil
	for i := range 12 {
		n.IfStopped = append(n.IfStopped, api.Trouble{Kind: "min_isr", Topic: "t", Partition: i})
	}
	b := newFakeBroker(t)
	b.set("POST /v1/nodes/n2/drain", n)
	b.set("GET /v1/nodes/n2", n)
	const want = "warning: do not stop n2 now: 12 partitions would have no leader or too few in-sync replicas, and refuse messages: t/0 t/1 t/2 and 9 more\n"
	for _, args := range [][]string{{"node", "drain", "n2"}, {"node", "drain", "n2", "--dry-run"}, {"node", "describe", "n2"}} {
		if r := b.brokerctl(t, args...); r.exit != exitOK || !strings.HasSuffix(r.stdout, want) {
			t.Errorf("%q: exit %d, %q", args, r.exit, r.stdout)
		}
	}
	if got := b.changes(); !slices.Equal(got, []string{"POST /v1/nodes/n2/drain {}", `POST /v1/nodes/n2/drain {"dry_run":true}`}) {
		t.Errorf("asked %q", got)
	}
	if r := b.brokerctl(t, "node", "drain", "n2", "--dry-run"); !strings.HasPrefix(r.stdout, "dry run: draining n2 transfers 1 leadership to other nodes\n") {
		t.Errorf("%q", r.stdout)
	}
	if r := b.brokerctl(t, "node", "drain", "n2", "--dry-run", "--wait"); r.exit != failure.ExitUsage {
		t.Errorf("a wait for nothing: exit %d", r.exit)
	}
}

func TestBalanceIsTriedOut(t *testing.T) {
	for _, c := range []struct {
		args string
		exit int
		sent string
	}{
		{"--dry-run", exitOK, `POST /v1/cluster/balance {"leaders":true,"replicas":true,"dry_run":true}`},
		{"--dry-run --replicas --limit 2", exitOK, `POST /v1/cluster/balance {"replicas":true,"limit":2,"dry_run":true}`},
		{"--limit -1", failure.ExitUsage, ""},
		{"--replicas --yes --limit 0", failure.ExitUsage, ""},
		{"--leaders --limit 3", failure.ExitUsage, ""},
		{"", exitOK, ""},
	} {
		b := newFakeBroker(t)
		r := b.brokerctl(t, append([]string{"cluster", "balance"}, strings.Fields(c.args)...)...)
		if got := strings.Join(b.changes(), "; "); r.exit != c.exit || got != c.sent {
			t.Errorf("%s: exit %d, sent %q: %s", c.args, r.exit, got, r.stderr)
		}
	}
}

func TestMapShowsEachRole(t *testing.T) {
	b := newFakeBroker(t)
	partitions := []api.Partition{{
		Topic: "t", Partition: 3, Leader: "n1", Replicas: []string{"n1", "n2", "n4", "n5", "n3"}, ISR: []string{"n1", "n5"}, Adding: []string{"n4"}, Removing: []string{"n5"},
	}, {Topic: "u", Replicas: []string{"n2"}, ISR: []string{"n2"}}}
	var nodes []api.Node
	for _, id := range []string{"n1", "n2", "n3", "n4", "n5"} {
		n := api.Node{ID: id, State: api.NodeUp, Replicas: 1}
		if id == "n3" {
			n.State = api.NodeDown
		}
		nodes = append(nodes, n)
	}
	b.set("GET /v1/partitions", api.PartitionList{Partitions: partitions})
	b.set("GET /v1/nodes", api.NodeList{Nodes: nodes})
	b.set("GET /v1/topics/t", api.Topic{Name: "t"})
	want := "PARTITION  n1  n2  n3  n4  n5\nt/3        L   o   x   a   r\nu/0        .   I   .   .   .\n"
	if r := b.brokerctl(t, "cluster", "map"); r.exit != exitOK || !strings.HasPrefix(r.stdout, want) {
		t.Errorf("exit %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
	if r := b.brokerctl(t, "cluster", "map", "t", "-o", "name"); r.stdout != "t/3\n" {
		t.Errorf("%q %s", r.stdout, r.stderr)
	}
	if r := b.brokerctl(t, "cluster", "map", "none"); r.exit != failure.ExitNotFound {
		t.Errorf("exit %d", r.exit)
	}
}

func TestMessagesAreMadeFromATemplate(t *testing.T) {
	b := newFakeBroker(t)
	if r := b.brokerctl(t, "message", "pub", "orders", "--count", "3", "--batch", "2", "--dedup", "d", `{"n":{{.N}}}`); r.exit != exitOK {
		t.Fatalf("exit %d: %s", r.exit, r.stderr)
	}
	var bodies, dedup []string
	for _, c := range b.changes() {
		var req api.Publish
		_, text, _ := strings.Cut(c, "messages ")
		if err := json.Unmarshal([]byte(text), &req); err != nil {
			t.Fatal(err)
		}
		for _, m := range req.Messages {
			bodies, dedup = append(bodies, string(m.Body)), append(dedup, m.Dedup)
		}
	}
	if want := []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}; !slices.Equal(bodies, want) || !slices.Equal(dedup, []string{"d/0", "d/1", "d/2"}) {
		t.Errorf("%q %q", bodies, dedup)
	}
	before := len(b.changes())
	for _, args := range [][]string{{"--count", "-1", "x"}, {"--count", "0", "x"}, {"--count", "2", "-f", "-"}, {"--count", "1", "{{.X}}"}} {
		if r := b.brokerctl(t, append([]string{"message", "pub", "orders"}, args...)...); r.exit != failure.ExitUsage || len(b.changes()) != before {
			t.Errorf("%q: exit %d, %s", args, r.exit, r.stderr)
		}
	}
}

// A position that a new channel cannot have is not passed over in silence, nor one for a channel that is there.
func TestNewChannelSaysWhereItIs(t *testing.T) {
	b := newFakeBroker(t)
	create := func(from string) result { return b.brokerctl(t, "channel", "create", "orders/invoice", "--from", from) }
	if r := create("9"); r.exit != exitOK || !strings.Contains(r.stderr, "the channel exists, and --from 9 does not move it; to move it: brokerctl channel seek orders/invoice --to 9") {
		t.Errorf("exit %d %s", r.exit, r.stderr)
	}
	b.set("GET /v1/topics/orders/channels/invoice", api.Error{Code: failure.NotFound, Message: "no"})
	if r := create("999999999"); r.exit != exitOK || r.stderr != "note: --from 999999999 is outside the log; the position is 4,833,120 in partition 0, 4,879,961 in partition 1\n" {
		t.Errorf("exit %d %q", r.exit, r.stderr)
	}
	if r := create("start"); r.exit != exitOK || r.stderr != "" {
		t.Errorf("exit %d %q", r.exit, r.stderr)
	}
}

func TestRestoredChannelReplacesAnother(t *testing.T) {
	b := newFakeBroker(t)
	for _, args := range [][]string{{}, {"--replace"}} {
		if r := b.brokerctl(t, append([]string{"channel", "restore", "orders/invoice"}, args...)...); r.exit != exitOK {
			t.Errorf("exit %d %s", r.exit, r.stderr)
		}
	}
	if got, want := b.changes(), []string{"POST /v1/topics/orders/channels/invoice/restore {\"replace\":false}", `POST /v1/topics/orders/channels/invoice/restore {"replace":true}`}; !slices.Equal(got, want) {
		t.Errorf("asked %q", got)
	}
}

func TestContextIsValidated(t *testing.T) {
	b := newFakeBroker(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "contexts.yaml")
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(args ...string) result {
		return runWith(t, environment{getenv: func(name string) string {
			return map[string]string{"BROKERCTL_CONFIG": config, "BROKERCTL_TOKEN": "not-this"}[name]
		}}, args...)
	}
	var shown string
	b.set("GET /v1/access/self", func(r *http.Request, _ []byte) any {
		shown = r.Header.Get("Authorization")
		return api.Self{User: "ops"}
	})
	if r := with("context", "show"); r.exit != failure.ExitNotFound || !strings.Contains(r.stderr, "no context is the current one") {
		t.Errorf("without a context: exit %d %s", r.exit, r.stderr)
	}
	if r := with("context", "set", "prod", "--addr", b.URL, "--token-file", token); r.exit != exitOK {
		t.Fatal(r.stderr)
	}
	if r := with("context", "show"); r.exit != exitOK || !strings.Contains(r.stdout, b.URL) || !strings.Contains(r.stdout, config) || strings.Contains(r.stdout, "s3cret") {
		t.Errorf("exit %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
	r := with("context", "validate", "-o", "json")
	if r.exit != exitOK || shown != "Bearer s3cret" || !strings.Contains(r.stdout, `"ok":true,"node":"n1","cluster_id":"orders-prod","user":"ops"`) {
		t.Errorf("exit %d, showed %q\n%s%s", r.exit, shown, r.stdout, r.stderr)
	}
	if r := with("context", "set", "half", "--addr", b.URL, "--addr", "http://127.0.0.1:1"); r.exit != exitOK {
		t.Fatal(r.stderr)
	}
	if r := with("context", "validate", "half"); r.exit != failure.ExitPartial || !strings.Contains(r.stderr, "1 of 2 addresses do not work") {
		t.Errorf("exit %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
	b.set("GET /v1/access/self", api.Error{Code: failure.Unauthenticated, Message: "no"})
	if r := with("context", "validate", "prod"); r.exit != failure.ExitForbidden {
		t.Errorf("wrong token: exit %d %s", r.exit, r.stderr)
	}
	other := newFakeBroker(t)
	other.set("GET /v1/cluster", api.Cluster{ClusterID: "another", Self: "m1"})
	b.set("GET /v1/access/self", api.Self{})
	with("context", "set", "both", "--addr", b.URL, "--addr", other.URL)
	if r := with("context", "validate", "both"); r.exit != failure.ExitFailed || !strings.Contains(r.stderr, "addresses of 2 clusters") {
		t.Errorf("exit %d %s", r.exit, r.stderr)
	}
	if r := with("context", "validate", "none"); r.exit != failure.ExitNotFound {
		t.Errorf("exit %d %s", r.exit, r.stderr)
	}
}

func TestWhatHurtsIsTriedOutWithoutAQuestion(t *testing.T) {
	for args, sent := range map[string]string{
		"topic delete orders":           "DELETE /v1/topics/orders?dry_run=true",
		"topic empty orders":            "POST /v1/topics/orders/empty?dry_run=true",
		"channel delete orders/invoice": "DELETE /v1/topics/orders/channels/invoice?dry_run=true",
		"channel empty orders/invoice":  "POST /v1/topics/orders/channels/invoice/empty?dry_run=true",
	} {
		b := newFakeBroker(t)
		method, path, _ := strings.Cut(strings.TrimSuffix(sent, "?dry_run=true"), " ")
		if strings.HasPrefix(args, "topic") {
			b.set(method+" "+path, ordersTopic())
		} else {
			b.set(method+" "+path, invoiceChannel())
		}
		r := b.brokerctl(t, append(strings.Fields(args), "--dry-run")...)
		if got := b.changes(); r.exit != exitOK || !slices.Equal(got, []string{sent}) || !strings.Contains(r.stdout, "invoice") || !strings.Contains(r.stdout, "dry run: ") {
			t.Errorf("%s: exit %d, sent %q\n%s%s", args, r.exit, got, r.stdout, r.stderr)
		}
	}
}

// Where the leaders did not respond, a restored channel would begin at the end.
func TestDeletionNamesPartitionsWithoutAPosition(t *testing.T) {
	b := newFakeBroker(t)
	for want, saved := range map[string][]api.SavedPartition{"leaders of partitions [1] did not respond": {{}}, "channel restore cannot restore it": {}} {
		b.set("DELETE /v1/topics/orders/channels/invoice", api.SavedPosition{Partitions: saved, Unsaved: []int{1}})
		if r := b.brokerctl(t, "channel", "delete", "orders/invoice", "--yes"); r.exit != exitOK || !strings.Contains(r.stderr, want) {
			t.Errorf("exit %d, without %q:\n%s%s", r.exit, want, r.stdout, r.stderr)
		}
		r := b.brokerctl(t, "channel", "delete", "orders/invoice", "--yes", "-o", "json")
		var out struct{ Unsaved []int }
		if err := json.Unmarshal([]byte(r.stdout), &out); err != nil || !slices.Equal(out.Unsaved, []int{1}) {
			t.Errorf("%v in %s", err, r.stdout)
		}
	}
}
