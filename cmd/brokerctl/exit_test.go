package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

func apiError(code failure.Code, message string) api.Error {
	return api.Error{Code: code, Message: message}
}

func TestExitCodes(t *testing.T) {
	type answers map[string]any
	const deleteOrders = "DELETE /v1/topics/orders"
	tests := []struct {
		name    string
		answers answers
		args    []string
		exit    int
		stderr  string
	}{
		{"done", nil, []string{"topic", "pause", "orders"}, exitOK, ""},
		{"no such command", nil, []string{"topik"}, failure.ExitUsage, `error: brokerctl has no command "topik" (did you mean "topic"?)`},
		{"no such command of a group", nil, []string{"topic", "lsit"}, failure.ExitUsage, `error: brokerctl topic has no command "lsit" (did you mean "list"?)`},
		{"no such command of another package", nil, []string{"generate", "confg"}, failure.ExitUsage, `error: brokerctl generate has no command "confg" (did you mean "config"?)`},
		{"no such flag", nil, []string{"topic", "list", "--nope"}, failure.ExitUsage, "error: unknown flag: --nope"},
		{
			"no such format", nil,
			[]string{"topic", "list", "-o", "xml"},
			failure.ExitUsage,
			`error: unknown output format "xml": use one of table, wide, json, ndjson, yaml, name or go-template=TEMPLATE`,
		},
		{"no timeout", nil, []string{"topic", "list", "--timeout", "0s"}, failure.ExitUsage, "error: --timeout must be above 0"},
		{
			"bad address", nil,
			[]string{"topic", "list", "--addr", "ftp://x"},
			failure.ExitUsage,
			`error: "ftp://x" is not a broker address (use the form http://host:4151)`,
		},
		{
			"missing argument", nil,
			[]string{"channel", "describe", "orders"},
			failure.ExitUsage,
			`error: brokerctl channel describe requires TOPIC/CHANNEL, not "orders" (usage: brokerctl channel describe TOPIC/CHANNEL [flags])`,
		},
		{"surplus argument", nil, []string{"node", "list", "x"}, failure.ExitUsage, `error: unexpected argument "x" for brokerctl node list (usage: brokerctl node list [flags])`},
		{"interval apart from its flag", nil, []string{"node", "list", "-w", "1s"}, failure.ExitUsage, `error: unexpected argument "1s" for brokerctl node list (an interval is written with =: --watch=1s)`},
		{
			"interval before the object", nil,
			[]string{"channel", "describe", "-w", "1s", "orders/invoice"},
			failure.ExitUsage,
			`error: brokerctl channel describe requires TOPIC/CHANNEL, not "1s orders/invoice" (an interval is written with =: --watch=1s)`,
		},
		{
			"interval in place of a name",
			answers{"GET /v1/topics/500ms/channels": apiError(failure.NotFound, "topic 500ms not found")},
			[]string{"channel", "list", "-w", "500ms"},
			failure.ExitNotFound,
			"error: topic 500ms not found (an interval is written with =: --watch=500ms)",
		},
		{
			"nobody to ask", nil,
			[]string{"topic", "delete", "orders"},
			failure.ExitUsage,
			"error: deleting topic orders can be undone for 24h only (brokerctl topic restore orders); confirmation required, but standard input is not a terminal (add --yes)",
		},
		{
			"partitions by alter", nil,
			[]string{"topic", "alter", "orders", "--partitions", "4"},
			failure.ExitUsage,
			"error: unknown flag: --partitions (partitions are added by brokerctl topic add-partitions TOPIC --partitions N; none is ever removed)",
		},
		{
			"partitions by alter, in short", nil,
			[]string{"topic", "alter", "orders", "-p4"},
			failure.ExitUsage,
			"error: unknown shorthand flag: 'p' in -p4 (partitions are added by brokerctl topic add-partitions TOPIC --partitions N; none is ever removed)",
		},
		{"another flag of alter", nil, []string{"topic", "alter", "orders", "--nope"}, failure.ExitUsage, "error: unknown flag: --nope"},
		{
			"an age without a unit", nil,
			[]string{"channel", "seek", "orders/invoice", "--to", "-5"},
			failure.ExitUsage,
			`error: --to "-5" is not a valid position: use start, end, 2026-11-21T06:00:00Z, -2h or an offset`,
		},
		{
			"nothing to alter", nil,
			[]string{"topic", "alter", "orders"},
			failure.ExitUsage,
			"error: nothing to change: see brokerctl topic alter --help for the settings",
		},
		{
			"bad size", nil,
			[]string{"topic", "create", "x", "--retention-bytes", "lots"},
			failure.ExitUsage,
			`error: invalid argument "lots" for "--retention-bytes" flag: it is not a valid size; examples: 1048576, 512KiB, 1.5G, 50GiB, 500MB`,
		},
		{
			"bad sync", nil,
			[]string{"topic", "create", "x", "--sync", "never"},
			failure.ExitUsage,
			`error: --sync: "never" is not a sync policy: use always, interval or a number of messages`,
		},
		{
			"bad place", nil,
			[]string{"channel", "seek", "orders/invoice", "--to", "tomorrow"},
			failure.ExitUsage,
			`error: --to "tomorrow" is not a valid position: use start, end, 2026-11-21T06:00:00Z, -2h or an offset`,
		},
		{"no message", nil, []string{"message", "pub", "orders"}, failure.ExitUsage, "error: no message: give it after the topic, or name a file with -f"},
		{"no such file", nil, []string{"message", "pub", "orders", "-f", "no/such"}, failure.ExitUsage, "error: open no/such: no such file or directory"},
		{"a target that is none", nil, []string{"message", "peek", "a/b/c"}, failure.ExitUsage, `error: brokerctl message peek requires TOPIC[/CHANNEL], not "a/b/c" (usage: brokerctl message peek TOPIC[/CHANNEL] [flags])`},
		{
			"refused value",
			answers{"POST /v1/topics": apiError(failure.Invalid, "invalid topic name")},
			[]string{"topic", "create", "a b"},
			failure.ExitUsage,
			"error: invalid topic name",
		},
		{"no such topic, one is near", nil, []string{"topic", "describe", "order"}, failure.ExitNotFound, `error: topic "order" not found (did you mean "orders"?)`},
		{
			"exists",
			answers{"POST /v1/topics": apiError(failure.Exists, "topic exists with another configuration")},
			[]string{"topic", "create", "orders"},
			failure.ExitRefused, "error: topic exists with another configuration",
		},
		{"forbidden", answers{deleteOrders: apiError(failure.Forbidden, "not allowed")}, []string{"topic", "delete", "orders", "--yes"}, failure.ExitForbidden, "error: not allowed"},
		{"busy", answers{deleteOrders: apiError(failure.Busy, "try later")}, []string{"topic", "delete", "orders", "--yes"}, failure.ExitUnavailable, "error: try later"},
		{
			"defect",
			answers{deleteOrders: api.Error{Code: failure.Internal, Message: "it broke", Hint: "report it"}},
			[]string{"topic", "delete", "orders", "--yes"},
			failure.ExitFailed, "error: it broke (report it)",
		},
		{
			"replicas differ",
			answers{"GET /v1/topics/orders/verify": api.Verification{Topic: "orders", Partitions: []api.PartitionDigest{
				{MissingNodes: []string{"n2"}, Digests: map[string]string{"n1": "a"}}, {Digests: map[string]string{"n1": "a", "n2": "b"}}, {MissingNodes: []string{"n2"}},
			}}},
			[]string{"partition", "verify", "orders"},
			failure.ExitFailed, "",
		},
		{
			"a replica cannot be read",
			answers{"GET /v1/topics/orders/verify": api.Verification{Topic: "orders", Partitions: []api.PartitionDigest{{Unreadable: map[string]string{"n1": "damaged"}}}}},
			[]string{"partition", "verify", "orders"},
			failure.ExitFailed, "",
		},
		{
			"replicas do not answer",
			answers{"GET /v1/topics/orders/verify": api.Verification{Topic: "orders", Partitions: []api.PartitionDigest{
				{Identical: true}, {MissingNodes: []string{"n2"}, Digests: map[string]string{"n1": "a", "n3": "a"}}, {Identical: true},
			}}},
			[]string{"partition", "verify", "orders"},
			failure.ExitPartial, "",
		},
		{
			"degraded",
			answers{"GET /v1/cluster/health": api.Health{Degraded: true, Reasons: []api.Reason{{Code: "nodes_down", Count: 1, What: "n3"}}}},
			[]string{"cluster", "health"},
			exitDegraded, "",
		},
		{"healthy and degraded", answers{"GET /v1/cluster/health": api.Health{Healthy: true, Degraded: true}}, []string{"cluster", "health"}, exitDegraded, ""},
		{
			"unhealthy",
			answers{"GET /v1/cluster/health": api.Health{Reasons: []api.Reason{{Code: "no_leader", Count: 2, What: "a/0 b/1"}}}},
			[]string{"cluster", "health"},
			exitUnhealthy, "",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			broker := newFakeBroker(t)
			for request, answer := range tc.answers {
				broker.set(request, answer)
			}
			r := broker.brokerctl(t, tc.args...)
			if r.exit != tc.exit || strings.TrimSuffix(r.stderr, "\n") != tc.stderr {
				t.Errorf("exit %d, stderr %q, want %d, %q", r.exit, r.stderr, tc.exit, tc.stderr)
			}
			if tc.stderr != "" && r.stdout != "" {
				t.Errorf("stdout %q, want nothing beside an error", r.stdout)
			}
		})
	}
}

func TestUnhealthyClusterReportsReasons(t *testing.T) {
	broker := newFakeBroker(t)
	broker.set("GET /v1/cluster/health", api.Health{Reasons: []api.Reason{{Code: "no_leader", Count: 2, What: "a/0 b/1"}, {Code: "nodes_down", Count: 1, What: "n3"}}})
	const want = `UNHEALTHY   orders-prod   2/3 nodes   controller n2

REASON      COUNT  WHAT
no_leader   2      a/0 b/1
nodes_down  1      n3
`
	if r := broker.brokerctl(t, "cluster", "health"); r.stdout != want {
		t.Error(cmp.Diff(want, r.stdout))
	}
}

func TestErrorsAreJSONOnRequest(t *testing.T) {
	broker := newFakeBroker(t)
	for _, f := range []string{"json", "ndjson"} {
		r := broker.brokerctl(t, "topic", "describe", "order", "-o", f)
		const want = `{"error":{"code":"not_found","message":"topic \"order\" not found","hint":"did you mean \"orders\"?","fate":"refused"}}` + "\n"
		if r.stderr != want || r.exit != failure.ExitNotFound {
			t.Errorf("exit %d, stderr %s, want %s", r.exit, r.stderr, want)
		}
	}
	r := broker.brokerctl(t, "topic", "describe", "-o", "json")
	var answer api.ErrorAnswer
	if err := json.Unmarshal([]byte(r.stderr), &answer); err != nil || answer.Error.Code != failure.Usage || r.exit != failure.ExitUsage {
		t.Errorf("exit %d, stderr %s: %v", r.exit, r.stderr, err)
	}
}

func TestUnreachableIsExitSix(t *testing.T) {
	for _, args := range [][]string{{"cluster", "health"}, {"topic", "delete", "t", "--yes"}, {"message", "pub", "t", "m"}} {
		r := runWith(t, environment{}, append(args, "--addr", closedURL)...)
		if r.exit != failure.ExitUnavailable || !strings.Contains(r.stderr, "connection refused (is brokerd running there?") {
			t.Errorf("%v: exit %d, stderr %q", args, r.exit, r.stderr)
		}
	}
}

func TestNextAddressIsAsked(t *testing.T) {
	broker := newFakeBroker(t)
	r := runWith(t, environment{}, "topic", "list", "-o", "name", "--addr", closedURL, "--addr", broker.URL)
	if r.exit != exitOK || r.stdout != "clicks#ephemeral\norders\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", r.exit, r.stdout, r.stderr)
	}
}

func TestDestructiveCommandsAskForTheName(t *testing.T) {
	for _, tc := range []struct {
		typed   string
		exit    int
		changes []string
	}{
		{"orders\n", exitOK, []string{"DELETE /v1/topics/orders"}},
		{"order\n", failure.ExitUsage, nil},
		{"", failure.ExitUsage, nil},
	} {
		broker := newFakeBroker(t)
		r := runWith(t, environment{stdin: strings.NewReader(tc.typed), isTerminal: true}, "topic", "delete", "orders", "--addr", broker.URL)
		if r.exit != tc.exit || !slices.Equal(broker.changes(), tc.changes) {
			t.Errorf("typed %q: exit %d, asked %q", tc.typed, r.exit, broker.changes())
		}
		if !strings.HasPrefix(r.stderr, "deleting topic orders can be undone for 24h only (brokerctl topic restore orders). Type the name to confirm: ") {
			t.Errorf("the question was %q", r.stderr)
		}
	}
}

func TestRequestsMatchCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte("one\n\r\ntwo\r\n\nthree"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		want []string
	}{
		{[]string{"topic", "create", "t"}, []string{`POST /v1/topics {"name":"t","config":{}}`}},
		{
			[]string{
				"topic", "create", "t", "-p", "4", "-r", "3", "--min-isr", "2", "--sync", "interval", "--sync-interval", "50ms", "--ordered", "--ext",
				"--retention", "72h", "--retention-bytes", "1GiB", "--max-message-bytes", "2MB",
			},
			[]string{`POST /v1/topics {"name":"t","config":{"partitions":4,"replicas":3,"min_isr":2,"sync":"interval","sync_interval":"50ms","ordered":true,` +
				`"ext":true,"retention":"72h0m0s","retention_bytes":1073741824,"max_message_bytes":2000000}}`},
		},
		{[]string{"topic", "alter", "orders", "--sync", "100", "--retention", "0"}, []string{`PATCH /v1/topics/orders {"sync":100,"retention":"0s"}`}},
		{[]string{"topic", "alter", "orders", "--retention-trash", "7d"}, []string{`PATCH /v1/topics/orders {"retention_trash":"168h0m0s"}`}},
		{[]string{"topic", "delete", "orders", "--purge", "--yes"}, []string{`DELETE /v1/topics/orders?purge=true`}},
		{[]string{"topic", "restore", "orders", "--incarnation", "41"}, []string{`POST /v1/deleted/orders/restore {"incarnation":41}`}},
		{[]string{"topic", "add-partitions", "orders", "-p", "8"}, []string{`POST /v1/topics/orders/partitions {"partitions":8}`}},
		{[]string{"channel", "create", "orders", "c#ephemeral", "--ordered"}, []string{`POST /v1/topics/orders/channels {"name":"c#ephemeral","ordered":true}`}},
		{
			[]string{"channel", "seek", "orders/invoice", "--to", "-2h"},
			[]string{`POST /v1/topics/orders/channels/invoice/seek {"time":"2026-11-21T07:14:02Z"}`},
		},
		{[]string{"channel", "seek", "orders/invoice", "--to", "120"}, []string{`POST /v1/topics/orders/channels/invoice/seek {"offset":120}`}},
		{
			[]string{"channel", "seek", "orders/invoice", "--to", "2026-11-20"},
			[]string{`POST /v1/topics/orders/channels/invoice/seek {"time":"2026-11-20T00:00:00Z"}`},
		},
		{[]string{"channel", "seek", "orders/invoice", "--to", "end", "--dry-run"}, nil},
		{
			[]string{"message", "pub", "orders", "a", "b", "--partition", "1", "--delay", "10m"},
			[]string{`POST /v1/topics/orders/messages {"messages":[{"body":"YQ==","delay":"10m0s"},{"body":"Yg==","delay":"10m0s"}],"partition":1}`},
		},
		{[]string{"message", "pub", "orders", "a", "--key", "k"}, []string{`POST /v1/topics/orders/messages {"messages":[{"body":"YQ=="}],"key":"k"}`}},
		{[]string{"message", "pub", "orders", "-f", file, "--batch", "2"}, []string{
			`POST /v1/topics/orders/messages {"messages":[{"body":"b25l"},{"body":"dHdv"}]}`,
			`POST /v1/topics/orders/messages {"messages":[{"body":"dGhyZWU="}]}`,
		}},
	}
	for _, tc := range tests {
		broker := newFakeBroker(t)
		if r := broker.brokerctl(t, tc.args...); r.exit != exitOK || r.stderr != "" {
			t.Errorf("%q: exit %d, stderr %q", tc.args, r.exit, r.stderr)
		}
		if diff := cmp.Diff(tc.want, broker.changes()); diff != "" {
			t.Errorf("%q:\n%s", tc.args, diff)
		}
	}
}

func TestPartialPublishIsReported(t *testing.T) {
	broker := newFakeBroker(t)
	r := runWith(t, environment{stdin: strings.NewReader("one\ntwo\n")}, "message", "pub", "orders", "-f", "-", "--batch", "1", "--addr", broker.URL)
	if r.exit != exitOK || r.stdout != "published 2 messages to orders/0 from offset 120\n" {
		t.Fatalf("exit %d, stdout %q, stderr %q", r.exit, r.stdout, r.stderr)
	}
	answers := []any{publishOrders(nil, []byte(`{"messages":[{}]}`)), apiError(failure.NotWritable, "disk full")}
	broker.set("POST /v1/topics/orders/messages", apiError(failure.NotWritable, "disk full"))
	r = runWith(t, environment{}, "message", "pub", "orders", "one", "--addr", broker.URL)
	if r.exit != failure.ExitRefused || r.stdout != "" {
		t.Errorf("nothing published: exit %d, stdout %q", r.exit, r.stdout)
	}
	first := true
	b := newFakeBroker(t)
	b.set("POST /v1/topics/orders/messages", func(_ *http.Request, _ []byte) any {
		if first {
			first = false
			return answers[0]
		}
		return map[string]string{"partition": "none"} // not an answer of a broker
	})
	r = runWith(t, environment{stdin: strings.NewReader("one\ntwo\n")}, "message", "pub", "orders", "-f", "-", "--batch", "1", "--addr", b.URL, "-q")
	if r.exit != failure.ExitPartial || !strings.HasPrefix(r.stderr, "error: 1 message published, then: ") {
		t.Errorf("published in part: exit %d, stdout %q, stderr %q", r.exit, r.stdout, r.stderr)
	}
}

func TestInterruptEndsChangeWith130AndTailWith0(t *testing.T) {
	broker := newFakeBroker(t)
	env := environment{getenv: addressOnly(broker.URL), now: clock, stdin: strings.NewReader("")}
	for _, tc := range []struct {
		args []string
		exit int
	}{
		{[]string{"topic", "pause", "orders"}, failure.ExitInterrupted},
		{[]string{"message", "tail", "orders"}, exitOK},
	} {
		var stdout, stderr strings.Builder
		env.stdout, env.stderr = &stdout, &stderr
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cancel()
		if exit := run(ctx, tc.args, env); exit != tc.exit {
			t.Errorf("%q: exit %d, stderr %q, want %d", tc.args, exit, stderr.String(), tc.exit)
		}
	}
}

func TestCompletionOffersLiveNames(t *testing.T) {
	broker := newFakeBroker(t)
	for _, tc := range []struct{ args, want string }{
		{"topic describe", "clicks#ephemeral\norders\n"},
		{"topic pause o", "orders\n"},
		{"topic describe orders", ""},
		{"channel describe", "orders/bill\norders/invoice\n"},
		{"channel describe orders/i", "orders/invoice\n"},
		{"channel describe orders", "bill\ninvoice\n"},
		{"channel create", "clicks#ephemeral\norders\n"},
		{"message peek", "clicks#ephemeral\norders\norders/bill\norders/invoice\n"},
		{"message pub", "clicks#ephemeral\norders\n"},
		{"partition move orders/", "orders/0\norders/1\n"},
		{"partition move orders", "0\n1\n"},
		{"topic create", ""},
		{"message peek orders/i", "orders/invoice\n"},
		{"topic list", ""},
	} {
		words := strings.Fields(tc.args)
		if len(words) == 2 || words[len(words)-1] == "orders" {
			words = append(words, "")
		}
		got := "-"
		for try := 0; try < 10 && got != tc.want; try++ { // a completion gives up after a second
			r := broker.brokerctl(t, append([]string{"__complete"}, words...)...)
			got, _, _ = strings.Cut(r.stdout, ":")
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.args, got, tc.want)
		}
	}
}

func TestMissingFlagIsUsageError(t *testing.T) {
	r := newFakeBroker(t).brokerctl(t, "message", "finish", "0001d12823ef7df3")
	if r.exit != failure.ExitUsage || !strings.Contains(r.stderr, `required flag(s) "channel" not set`) {
		t.Errorf("exit %d: %s", r.exit, r.stderr)
	}
}
