package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// importedTopics changes orders and its channels, and creates a topic with a channel.
const importedTopics = `topics:
- name: orders
  config: {ttl: 1h, partitions: 4}
  channels:
  - {name: invoice, filter: key == "a"}
  - {name: new, order: key}
- name: letters
  config: {}
  channels: [{name: all, filter: size > 1}]
`

func topicFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "topics.yaml")
	if err := os.WriteFile(file, []byte(importedTopics), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestImportIsTriedOutByTheCluster: each change is asked for, and none is made.
func TestImportIsTriedOutByTheCluster(t *testing.T) {
	b, file := newFakeBroker(t), topicFile(t)
	for _, request := range []string{"POST /v1/topics/orders/partitions", "PATCH /v1/topics/orders", "POST /v1/topics"} {
		b.set(request, ordersTopic())
	}
	for _, request := range []string{"POST /v1/topics/orders/channels", "PATCH /v1/topics/orders/channels/invoice"} {
		b.set(request, invoiceChannel())
	}
	r := b.brokerctl(t, "topic", "import", file, "--dry-run")
	want := []string{
		`POST /v1/topics/orders/partitions {"partitions":4,"dry_run":true}`,
		`PATCH /v1/topics/orders?dry_run=true {"ttl":"1h0m0s"}`,
		`POST /v1/topics {"name":"letters","config":{},"dry_run":true,"channels":[{"name":"all","filter":"size > 1"}]}`,
		`PATCH /v1/topics/orders/channels/invoice {"filter":"key == \"a\"","dry_run":true}`,
		`POST /v1/topics/orders/channels {"name":"new","order":"key","dry_run":true}`,
	}
	if got := b.changes(); r.exit != exitOK || !slices.Equal(got, want) || !strings.Contains(r.stdout, "dry run: 6 changes") {
		t.Errorf("exit %d, asked\n%s\n%s%s", r.exit, strings.Join(got, "\n"), r.stdout, r.stderr)
	}
	b.set("PATCH /v1/topics/orders/channels/invoice", api.Error{Code: failure.Invalid, Message: "filter: unexpected token", Fate: "refused"})
	if r := b.brokerctl(t, "topic", "import", file, "--dry-run"); r.exit != failure.ExitUsage || !strings.Contains(r.stderr, "orders/invoice would be refused: filter: unexpected token") {
		t.Errorf("exit %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
}

// TestImportThatFailsHalfwaySaysHowFarItGot also checks the exit code, and that nothing says that nothing was changed.
func TestImportThatFailsHalfwaySaysHowFarItGot(t *testing.T) {
	b, file := newFakeBroker(t), topicFile(t)
	refused := api.Error{Code: failure.Invalid, Message: "no", Fate: "refused"}
	b.set("POST /v1/topics/orders/partitions", ordersTopic())
	b.set("PATCH /v1/topics/orders", refused)
	r := b.brokerctl(t, "topic", "import", file, "-o", "json")
	if r.exit != failure.ExitPartial || !strings.Contains(r.stderr, "1 of 6 changes made, then: orders: no") || strings.Contains(r.stderr, "refused") {
		t.Errorf("exit %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
	b.set("POST /v1/topics/orders/partitions", refused)
	if r := b.brokerctl(t, "topic", "import", file); r.exit != failure.ExitUsage || !strings.Contains(r.stderr, "orders: no") || strings.Contains(r.stderr, "made") {
		t.Errorf("the first change: exit %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
}
