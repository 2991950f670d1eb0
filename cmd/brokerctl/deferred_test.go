package main

import (
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// deferredCommands are those of goldenCommands that are about deferred messages.
var deferredCommands = [][]string{
	{"message", "deferred", "orders/invoice", "--until", "2h", "-n", "2"},
	{"message", "cancel", "orders/invoice", "--until", "2h", "--dry-run"},
	{"message", "advance", "2b839aa76e4d64b7", "--topic", "orders", "--channel", "invoice"},
}

func deferredAnswers() map[string]any {
	return map[string]any{
		"GET /v1/topics/orders/channels/invoice/deferred": api.DeferredList{
			Topic: "orders", Channel: "invoice", Total: 1207, Next: "1795420800000000000.1.120", Messages: []api.DeferredMessage{
				{ID: "2b839aa76e4d64b7", Partition: 0, Seq: 4833125, Due: midnight(), Bytes: 1024, Why: "published"},
				{ID: "2b879aa76e4d652f", Partition: 1, Seq: 120, Due: midnight().Add(90 * time.Second), Attempts: 3, Bytes: -1, Why: "requeued"},
			},
		},
		"POST /v1/topics/orders/channels/invoice/deferred/cancel": api.Rescheduled{
			Topic: "orders", Channel: "invoice", Action: "cancelled", Count: 1207, NotDeferred: []string{}, DryRun: true,
			Partitions: []api.RescheduledPart{{Partition: 0, Count: 1200}, {Partition: 1, Count: 7}},
		},
		"POST /v1/topics/orders/channels/invoice/deferred/advance": api.Rescheduled{
			Topic: "orders", Channel: "invoice", Action: "advanced", Count: 1, NotDeferred: []string{}, Partitions: []api.RescheduledPart{{Partition: 0, Count: 1}},
		},
	}
}

func TestCancelAndAdvanceSelectMessages(t *testing.T) {
	for _, x := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"cancel"}, failure.ExitUsage, "TOPIC/CHANNEL"},
		{[]string{"cancel", "orders/invoice"}, failure.ExitUsage, "name the deferred messages"},
		{[]string{"cancel", "orders/invoice", "--all", "--until", "2h"}, failure.ExitUsage, "name the deferred messages"},
		{[]string{"cancel", "orders/invoice", "--until", "noon"}, failure.ExitUsage, "not a valid time"},
		{[]string{"cancel", "2b839aa76e4d64b7", "--topic", "orders"}, failure.ExitUsage, "give the --channel that defers them"},
		{[]string{"cancel", "2b839aa76e4d64b7", "--topic", "orders", "--channel", "invoice", "--all"}, failure.ExitUsage, "either ids"},
		{[]string{"advance", "2b83", "--topic", "orders", "--channel", "invoice"}, failure.ExitUsage, "not a message id"},
		{[]string{"cancel", "orders/invoice", "--all"}, failure.ExitUsage, "1,207 deferred messages would be cancelled"},
		{[]string{"cancel", "--topic", "orders", "--channel", "invoice", "--all", "--yes"}, exitOK, "1,207 deferred messages"},
		{[]string{"deferred", "orders/invoice", "-n", "0"}, failure.ExitUsage, "-n"},
	} {
		b := newFakeBroker(t)
		r := b.brokerctl(t, append([]string{"message"}, x.args...)...)
		if r.exit != x.exit || !strings.Contains(r.stdout+r.stderr, x.want) {
			t.Errorf("%v: exit %d, %s%s", x.args, r.exit, r.stdout, r.stderr)
		}
	}
}

func TestMessagesThatAreNotDeferredAreNamed(t *testing.T) {
	b := newFakeBroker(t)
	const cancel = "POST /v1/topics/orders/channels/invoice/deferred/cancel"
	b.answers[cancel] = api.Rescheduled{Topic: "orders", Channel: "invoice", Action: "cancelled", NotDeferred: []string{"2b839aa76e4d64b7"}}
	args := []string{"message", "cancel", "2b839aa76e4d64b7", "0/1", "--topic", "orders", "--channel", "invoice"}
	if r := b.brokerctl(t, args...); r.exit != failure.ExitNotFound || !strings.Contains(r.stderr, "not deferred in orders/invoice: 2b839aa76e4d64b7") {
		t.Errorf("exit %d, %s", r.exit, r.stderr)
	}
	b.answers[cancel] = api.Rescheduled{Topic: "orders", Channel: "invoice", Action: "cancelled", Count: 1, NotDeferred: []string{"2b839aa76e4d64b7"}}
	if r := b.brokerctl(t, args...); r.exit != failure.ExitPartial || !strings.Contains(r.stderr, "1 message cancelled, then: not deferred") {
		t.Errorf("exit %d, %s", r.exit, r.stderr)
	}
}
