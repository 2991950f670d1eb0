package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// operatorCommands are the goldenCommands for operators on call.
var operatorCommands = [][]string{
	{"cluster", "finalize-upgrade", "--dry-run"},
	{"channel", "lag"},
	{"audit", "log"},
	{"channel", "undo", "orders/invoice"},
	{"channel", "restore", "orders/invoice"},
	{"channel", "skip", "orders/invoice", "--partition", "1", "--to", "4879970"},
	{"message", "get", "2B839AA76E4D64B7", "--topic", "orders"},
	{"message", "trace", "2B839AA76E4D64B7", "--topic", "orders"},
	{"message", "finish", "1/120", "--topic", "orders", "--channel", "invoice"},
	{"message", "requeue", "1/120", "--topic", "orders", "--channel", "invoice"},
	{"message", "copy", "2b839aa76e4d64b7", "--topic", "orders", "--to", "clicks"},
}

func operatorAnswers() map[string]any {
	return map[string]any{
		"GET /v1/lag":                                     lagOfAll(),
		"POST /v1/cluster/finalize-upgrade":               api.Upgrade{Level: 1, Target: 2, Lagging: []string{"n3 (0.1.0, supports 0 to 1)"}, Unregistered: []string{}},
		"GET /v1/topics/orders/channels/invoice/seek":     planOrders,
		"POST /v1/topics/orders/channels/invoice/skip":    invoiceChannel(),
		"POST /v1/topics/orders/channels/invoice/undo":    undoneSeek("seek"),
		"POST /v1/topics/orders/channels/invoice/restore": undoneSeek("delete"),
		"GET /v1/topics/orders/channels/invoice/history": api.ChannelHistory{Topic: "orders", Channel: "invoice", Saved: []api.SavedPosition{
			{ID: 7, At: midnight(), Verb: "seek", Partitions: []api.SavedPartition{{Partition: 0, Confirmed: 4_833_120, MovedTo: 4_790_441}, {Partition: 1, Confirmed: 5, MovedTo: 0}}},
			{ID: 3, At: midnight().Add(-time.Hour), Verb: "empty", Partitions: []api.SavedPartition{{Partition: 0, Confirmed: 4_000_000, MovedTo: 4_833_120}}},
		}},
		"GET /v1/audit": api.AuditLog{Acts: []api.Act{
			{Index: 70, At: midnight(), Node: "n1", Actor: "10.0.0.9:38452", Agent: "brokerctl/0.1.0", Verb: "POST /v1/topics/orders/channels/invoice/pause", Object: "orders/invoice", Before: `{"Paused":false}`, After: `{"Paused":true}`, Reason: "bad release", Status: 204},
			{Index: 81, At: midnight().Add(time.Hour), Node: "n2", Actor: "10.0.0.9:38460", Identity: "CN=ops", Verb: "DELETE /v1/topics/clicks", Object: "clicks", Status: 404},
		}},
		"GET /v1/events":    answerEvents,
		"GET /v1/consumers": api.ConsumerList{Consumers: allConsumers()},
		"GET /v1/messages/2b839aa76e4d64b7/trace": api.MessageTrace{
			ID: "2b839aa76e4d64b7", Topic: "orders", Seq: 1200, Missing: []string{"n3"}, Events: []api.TraceEvent{
				{Time: time.Unix(1795230522, 0).UTC(), Node: "n1", What: "published", Publisher: "10.0.0.7:5123", Through: "n2"},
				{Time: time.Unix(1795230522, 1_500_000).UTC(), Node: "n1", What: "committed"},
				{Time: time.Unix(1795230522, 2_000_000).UTC(), Node: "n1", What: "delivered", Channel: "invoice", Attempt: 1, Consumer: "worker \x1b[2J (10.0.0.8:99)"},
				{Time: time.Unix(1795230523, 0).UTC(), Node: "n1", What: "requeued", Channel: "invoice", Attempt: 1, Consumer: "worker (10.0.0.8:99)", DelayMS: 90_000},
				{Time: time.Unix(1795230533, 0).UTC(), Node: "n2", What: "finished", Channel: "invoice", Attempt: 2, Reason: "expired", CopyID: "2b839aa76e4d64ff"},
			},
		},
		"GET /v1/topics/orders/messages/2b839aa76e4d64b7": api.MessageDetail{
			Topic: "orders", Peeked: api.Peeked{
				ID: "2b839aa76e4d64b7", Timestamp: midnight(), Attempts: 0, State: api.PeekStored, Headers: []byte("{}"), Body: []byte(`{"id":1}`), Text: new(`{"id":1}`),
			},
			Channels: []api.MessageChannel{{Channel: "bill", State: api.PeekFinished}, {Channel: "invoice", State: api.PeekInFlight, Attempts: 212}},
		},
		"POST /v1/topics/orders/channels/invoice/messages/2b879aa76e4d652f/finish": api.FinishedMessage{
			Topic: "orders", Channel: "invoice", ID: "2b879aa76e4d652f", Partition: 1, Seq: 120, Was: api.PeekInFlight,
		},
		"POST /v1/topics/orders/channels/invoice/messages/2b879aa76e4d652f/requeue": api.Published{
			Topic: "orders", Partition: 1, FirstSeq: 121, Count: 1, IDs: []string{"2b879aa76e4d6530"},
		},
		"POST /v1/topics/orders/messages/2b839aa76e4d64b7/copy": api.Published{
			Topic: "clicks", FirstSeq: 7, Count: 1, IDs: []string{"2b839aa76e4d7000"},
		},
	}
}

func lagOfAll() api.Lag {
	return api.Lag{Channels: []api.ChannelLag{
		{Topic: "clicks", Channel: "s3", Depth: 1204, OldestAgeMS: 18_000, InPerS: 90, OutPerS: 160.4, InPerS15M: 90, OutPerS15M: 0.04, DrainsInMS: new(int64(17_200))},
		{Topic: "orders", Channel: "bill", InPerS: 0.25, OutPerS: 0.25, DrainsInMS: new(int64(0)), Paused: true},
		{
			Topic: "orders", Channel: "invoice", Depth: 48_112, OldestAgeMS: 11_520_000, InPerS: 4110, InPerS15M: 41, OutPerS15M: 9.96,
			InFlight: 4, Deferred: 1, MissingNodes: []string{"n3"}, OfflinePartitions: 1,
		},
	}}
}

func allConsumers() []api.TopicConsumer {
	return []api.TopicConsumer{
		{Topic: "clicks", Channel: "s3", Consumer: api.Consumer{Address: "10.0.0.8:1", ClientID: "w1", Ready: 10, InFlight: 2, FinishedTotal: 1000}},
		{Topic: "orders", Channel: "bill", Consumer: api.Consumer{Address: "10.0.0.9:1", ClientID: "w2", Ready: 10, InFlight: 7, FinishedTotal: 9}},
	}
}

// answerEvents has two events, and one more behind them.
func answerEvents(r *http.Request, _ []byte) any {
	switch r.FormValue("after") {
	case "":
		return api.EventLog{Events: []api.Event{
			{Index: 11, At: midnight(), Kind: "node_down", Object: "n3", What: "node is down"},
			{Index: 12, At: midnight().Add(time.Second), Kind: "leader_elected", Object: "orders/1", What: "leader n2 (n3 is down)"},
		}}
	case "12":
		return api.EventLog{Events: []api.Event{{Index: 15, At: midnight().Add(time.Minute), Kind: "node_up", Object: "n3", What: "node is up"}}}
	}
	return api.EventLog{Events: []api.Event{}}
}

func TestEventsInEveryForm(t *testing.T) {
	goldenForms(t, "events", []string{"events"})
}

// TestCutListsTellIt: a list that leaves out the oldest entries says so.
func TestCutListsTellIt(t *testing.T) {
	broker := newFakeBroker(t)
	for _, list := range []string{"events", "audit log"} {
		for flags, want := range map[string]bool{"-n 2": true, "-n 3": false, "": false, "-n 2 -o json": false, "-n 2 -o name": false} {
			r := broker.brokerctl(t, strings.Fields(list+" "+flags)...)
			if told := strings.Contains(r.stdout, "shown; there may be older ones: -n N"); r.exit != exitOK || told != want {
				t.Errorf("%s %s: told %v, %d %s", list, flags, told, r.exit, r.stdout)
			}
		}
	}
}

func TestEventsAreFollowed(t *testing.T) {
	broker := newFakeBroker(t)
	r, _ := watching(t, broker, 4, "events", "-f", "--since", "1h")
	want := "2026-11-21T00:00:00.000Z  node_down             n3  node is down\n" +
		"2026-11-21T00:00:01.000Z  leader_elected        orders/1  leader n2 (n3 is down)\n" +
		"2026-11-21T00:01:00.000Z  node_up               n3  node is up\n"
	if r.exit != exitOK || r.stdout != want {
		t.Errorf("%d %q %s", r.exit, r.stdout, r.stderr)
	}
	for _, since := range []string{"yore", "12", "end"} {
		if r := broker.brokerctl(t, "audit", "log", "--since", since); r.exit != failure.ExitUsage {
			t.Errorf("--since %s: %d", since, r.exit)
		}
	}
}

// TestFollowedEventsOutliveTheirNode: events are followed across the failure of the node that is asked.
func TestFollowedEventsOutliveTheirNode(t *testing.T) {
	dies, lives := newFakeBroker(t), newFakeBroker(t)
	for _, b := range []*fakeBroker{dies, lives} { // no other node is asked
		b.set("GET /v1/cluster", api.Cluster{Nodes: []api.Node{{ID: "n1", HTTPAddress: strings.TrimPrefix(lives.URL, "http://")}}})
	}
	dies.set("GET /v1/events", func(r *http.Request, body []byte) any {
		if r.FormValue("after") != "" {
			panic(http.ErrAbortHandler)
		}
		return answerEvents(r, body)
	})
	if r, _ := watching(t, dies, 4, "events", "-f"); r.exit != exitOK || !strings.HasSuffix(r.stdout, "node is up\n") || r.stderr != "" {
		t.Errorf("%d %q %s", r.exit, r.stdout, r.stderr)
	}
	asked := 0
	lives.set("GET /v1/events", func(r *http.Request, body []byte) any {
		if asked++; asked == 2 || asked == 3 {
			return apiError(failure.Unavailable, "no answer from n1")
		}
		return answerEvents(r, body)
	})
	r, _ := watching(t, lives, 6, "events", "-f")
	if r.exit != exitOK || !strings.HasSuffix(r.stdout, "node is up\n") || r.stderr != "no answer from n1: retrying\nthe cluster responds again\n" {
		t.Errorf("a cluster that does not respond for a while: %d %q %q", r.exit, r.stdout, r.stderr)
	}
}

func TestChangesCarryTheReason(t *testing.T) {
	broker := newFakeBroker(t)
	var got []string
	note := func(r *http.Request, _ []byte) any {
		got = append(got, r.Header.Get(api.ReasonHeader))
		return invoiceChannel()
	}
	broker.set("POST /v1/topics/orders/channels/invoice/pause", note)
	broker.set("GET /v1/topics/orders/channels/invoice", note)
	broker.brokerctl(t, "channel", "pause", "orders/invoice", "--reason", "bad\nrelease ä")
	broker.brokerctl(t, "channel", "describe", "orders/invoice", "--reason", "just so")
	if len(got) != 2 || got[0] != "bad release ä" || got[1] != "" {
		t.Errorf("%q", got)
	}
}

func undoneSeek(verb string) api.UndoneMove {
	return api.UndoneMove{Topic: "orders", Channel: "invoice", Verb: verb, At: midnight(), Partitions: []api.UndonePartition{
		{Partition: 0, Confirmed: 4_833_120}, {Partition: 1, Confirmed: 98_000, Gone: 411},
	}}
}

// planOrders answers the plan of a seek: many messages if it goes to an end of the log.
func planOrders(r *http.Request, _ []byte) any {
	p := api.MovePlan{Topic: "orders", Channel: "invoice", Partitions: []api.PartitionMove{
		{Partition: 0, Now: 4_833_120, Target: 4_833_100, Redelivered: 20}, {Partition: 1, Now: 4_879_961, Target: 4_879_970, Skipped: 9},
	}}
	switch r.FormValue("to") {
	case "start":
		p.Partitions[0].Redelivered = 1001
	case "end":
		p.Partitions[1].Skipped = 1000
	}
	if r.FormValue("offset") == "120" {
		p.Partitions[0].Target, p.Partitions[1].Target = 120, 120
	}
	if r.FormValue("offset") == "99" {
		p.Partitions[1].Skipped = 5000
	}
	if r.FormValue("partition") == "1" {
		p.Partitions = p.Partitions[1:]
	}
	return p
}

// A seek to an offset outside the log, or to a future time, reports the actual target.
func TestSeekReportsActualTarget(t *testing.T) {
	for to, want := range map[string]string{
		"999999999":  "note: --to 999999999 is outside the log; the position is 4,833,100 in partition 0, 4,879,970 in partition 1\n",
		"4833100":    "note: --to 4833100 is outside the log; the position is 4,879,970 in partition 1\n",
		"2999-01-01": "note: --to 2999-01-01 is in the future; the position is 4,833,100 in partition 0, 4,879,970 in partition 1\n",
		"-2h":        "",
		"end":        "",
	} {
		for _, extra := range [][]string{{"--yes"}, {"--dry-run"}, {"--yes", "-q"}} {
			broker := newFakeBroker(t)
			args := append([]string{"channel", "seek", "orders/invoice", "--addr", broker.URL, "--to", to}, extra...)
			said := want
			if len(extra) > 1 {
				said = ""
			}
			if r := runWith(t, environment{}, args...); r.exit != exitOK || r.stderr != said {
				t.Errorf("%s %v: exit %d, %q, want %q", to, extra, r.exit, r.stderr, said)
			}
		}
	}
	plan := &api.MovePlan{Partitions: make([]api.PartitionMove, 5)}
	if got := elsewhere(plan, "9", api.Seek{Offset: new(uint64(9))}, midnight()); !strings.HasSuffix(got, "0 in partition 0, and 2 more") {
		t.Error(got)
	}
}

func TestLargeSeekNeedsConfirmation(t *testing.T) {
	const start = `POST /v1/topics/orders/channels/invoice/seek {"to":"start"}`
	for name, x := range map[string]struct {
		args   []string
		typed  string // "": no node responds
		exit   int
		change string
	}{
		"little":              {[]string{"seek", "--to", "end"}, "", exitOK, `POST /v1/topics/orders/channels/invoice/seek {"to":"end"}`},
		"one partition":       {[]string{"seek", "--to", "start", "--partition", "1"}, "", exitOK, `POST /v1/topics/orders/channels/invoice/seek {"to":"start","partition":1}`},
		"much, nobody there":  {[]string{"seek", "--to", "start"}, "", failure.ExitUsage, ""},
		"much, confirmed":     {[]string{"seek", "--to", "start"}, "orders/invoice\n", exitOK, start},
		"much, not confirmed": {[]string{"seek", "--to", "start"}, "yes\n", failure.ExitUsage, ""},
		"much, --yes":         {[]string{"seek", "--to", "start", "--yes"}, "", exitOK, start},
		"much, dry run":       {[]string{"seek", "--to", "start", "--dry-run"}, "", exitOK, ""},
		"no partition":        {[]string{"seek", "--to", "start", "--partition", "-1"}, "", failure.ExitUsage, ""},
		"skip of much":        {[]string{"skip", "--partition", "1", "--to", "99"}, "", failure.ExitUsage, ""},
		"skip with --yes":     {[]string{"skip", "--partition", "1", "--to", "99", "--yes"}, "", exitOK, `POST /v1/topics/orders/channels/invoice/skip {"partition":1,"to":99}`},
		"skip of nothing":     {[]string{"skip"}, "", failure.ExitUsage, ""},
		"skip of two things":  {[]string{"skip", "--id", "0/1", "--partition", "1"}, "", failure.ExitUsage, ""},
		"skip of one": {
			[]string{"skip", "--id", "2b879aa76e4d652f"},
			"", exitOK,
			"POST /v1/topics/orders/channels/invoice/messages/2b879aa76e4d652f/finish",
		},
	} {
		t.Run(name, func(t *testing.T) {
			broker := newFakeBroker(t)
			env := environment{stdin: strings.NewReader(x.typed), isTerminal: x.typed != ""}
			args := append([]string{"channel", x.args[0], "orders/invoice", "--addr", broker.URL}, x.args[1:]...)
			r := runWith(t, env, args...)
			if got := strings.Join(broker.changes(), "; "); r.exit != x.exit || got != x.change {
				t.Errorf("exit %d, asked for %q, %s", r.exit, got, r.stderr)
			}
			if x.exit == failure.ExitUsage && strings.Contains(name, "much") && x.typed == "" && !strings.Contains(r.stderr, "channel undo orders/invoice") {
				t.Errorf("says nothing of undo: %s", r.stderr)
			}
		})
	}
}

func TestSavedPositionsAreListed(t *testing.T) {
	goldenForms(t, "channel-undo-list", []string{"channel", "undo", "orders/invoice", "--list"})
}

func TestCommandsThatAskNothingAcceptYes(t *testing.T) {
	if r := newFakeBroker(t).brokerctl(t, "channel", "undo", "orders/invoice", "--yes"); r.exit != exitOK {
		t.Errorf("exit %d: %s", r.exit, r.stderr)
	}
}

func TestChannelStartIsConfigurable(t *testing.T) {
	broker := newFakeBroker(t)
	broker.brokerctl(t, "channel", "create", "orders/invoice", "--from", "-2h")
	want := `POST /v1/topics/orders/channels {"name":"invoice","from":{"time":"2026-11-21T07:14:02Z"}}`
	if got := broker.changes(); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %s", got, want)
	}
	if r := broker.brokerctl(t, "channel", "create", "orders/invoice", "--from", "yore"); r.exit != failure.ExitUsage || !strings.Contains(r.stderr, "--from") {
		t.Errorf("%d %s", r.exit, r.stderr)
	}
}

func TestRowsAreSortedByAnyColumn(t *testing.T) {
	broker := newFakeBroker(t)
	order := func(args ...string) string {
		r := broker.brokerctl(t, append([]string{"channel", "lag", "--no-headers"}, args...)...)
		if r.exit != exitOK {
			t.Fatalf("%v: %d %s", args, r.exit, r.stderr)
		}
		var got []string
		rows, _, _ := strings.Cut(r.stdout, "\n\n") // without warnings
		for l := range strings.Lines(rows) {
			for _, name := range []string{"s3", "bill", "invoice"} {
				if strings.Contains(l, name) {
					got = append(got, name)
				}
			}
		}
		return strings.Join(got, " ")
	}
	for by, want := range map[string]string{
		"depth": "invoice s3 bill", "-depth": "bill s3 invoice", "oldest": "invoice s3 bill", "channel": "bill invoice s3",
		"IN/s": "invoice s3 bill", "in_per_s": "invoice s3 bill", "out": "s3 bill invoice", "drains-in": "invoice s3 bill",
	} {
		for _, form := range []string{"table", "name", "ndjson"} {
			if got := order("--sort-by", by, "-o", form); got != want {
				t.Errorf("%s by %s: %s, want %s", form, by, got, want)
			}
		}
	}
	r := broker.brokerctl(t, "channel", "lag", "--sort-by", "weight")
	if r.exit != failure.ExitUsage || !strings.Contains(r.stderr, "DEPTH") {
		t.Errorf("%d %s", r.exit, r.stderr)
	}
	r = broker.brokerctl(t, "channel", "lag", "--sort-by", "weight", "-o", "json")
	if r.exit != failure.ExitUsage || !strings.Contains(r.stderr, "oldest_age_ms") {
		t.Errorf("%d %s", r.exit, r.stderr)
	}
}

func TestTemplatesHaveTheJSONFields(t *testing.T) {
	broker := newFakeBroker(t)
	r := broker.brokerctl(t, "channel", "lag", "-o", "go-template={{range .channels}}{{.channel}}={{.depth}} {{end}}", "--sort-by", "depth")
	if r.exit != exitOK || r.stdout != "invoice=48112 s3=1204 bill=0 \n" {
		t.Errorf("%d %q %s", r.exit, r.stdout, r.stderr)
	}
	for _, bad := range []string{"{{", "{{.nothing}}"} {
		if r = broker.brokerctl(t, "channel", "lag", "-o", "go-template="+bad); r.exit != failure.ExitUsage || r.stdout != "" {
			t.Errorf("%s: %d %q %s", bad, r.exit, r.stdout, r.stderr)
		}
	}
}

// watching runs a command line and interrupts it after some rounds.
func watching(t *testing.T, b *fakeBroker, rounds int, args ...string) (result, []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs strings.Builder
	var paused []time.Duration
	env := environment{
		stdin: strings.NewReader(""), stdout: &out, stderr: &errs, now: clock, isScreen: true,
		getenv: func(string) string { return "" },
		pause: func(_ context.Context, d time.Duration) {
			if paused = append(paused, d); len(paused) == rounds {
				cancel()
			}
		},
	}
	code := run(ctx, append(args, "--addr", b.URL), env)
	return result{code, out.String(), errs.String()}, paused
}

func TestWatchRepeatsUntilInterrupted(t *testing.T) {
	broker := newFakeBroker(t)
	for want, args := range map[time.Duration][]string{
		2 * time.Second: {"channel", "lag", "-w"}, 5 * time.Second: {"channel", "lag", "--watch=5s"},
	} {
		r, paused := watching(t, broker, 3, args...)
		if r.exit != exitOK || strings.Count(r.stdout, clearScreen+"TOPIC") != 3 || len(paused) != 3 || paused[0] != want {
			t.Errorf("%v: %d %q %v", args, r.exit, r.stdout, paused)
		}
	}
	r, _ := watching(t, broker, 2, "top", "-n", "1")
	if r.exit != exitOK || strings.Count(r.stdout, "48,112") != 2 || strings.Contains(r.stdout, "s3") {
		t.Errorf("top: %d %q", r.exit, r.stdout)
	}
	// Lines for programs are not cleared, and a check result does not end the watch.
	broker.set("GET /v1/cluster/health", api.Health{Degraded: true, Reasons: []api.Reason{}})
	r, _ = watching(t, broker, 2, "cluster", "health", "-w", "-o", "json")
	if r.exit != exitOK || strings.Count(r.stdout, "\n") != 2 || strings.Contains(r.stdout, clearScreen) {
		t.Errorf("health: %d %q %s", r.exit, r.stdout, r.stderr)
	}
	// A node that is briefly unavailable does not end the watch, a name that does not exist does.
	broker.set("GET /v1/nodes", api.Error{Code: failure.Unavailable, Message: "away"})
	if r, _ = watching(t, broker, 2, "node", "list", "-w"); r.exit != exitOK || strings.Count(r.stderr, "away") != 2 {
		t.Errorf("nodes: %d %q", r.exit, r.stderr)
	}
	if r, _ = watching(t, broker, 2, "topic", "describe", "none", "-w"); r.exit != failure.ExitNotFound {
		t.Errorf("missing: %d %q", r.exit, r.stderr)
	}
	for _, args := range [][]string{{"topic", "delete", "orders", "--yes", "-w"}, {"topic", "list", "--watch=1ms"}, {"cluster", "raft", "--transfer", "-w"}} {
		if r, _ = watching(t, broker, 1, args...); r.exit != failure.ExitUsage {
			t.Errorf("%v: %d %s", args, r.exit, r.stderr)
		}
	}
	if len(broker.changes()) != 0 {
		t.Errorf("changed: %v", broker.changes())
	}
}

func TestTopAnswersInEveryForm(t *testing.T) {
	goldenForms(t, "top", []string{"top", "--once"})
}

func TestTopShowsEveryKind(t *testing.T) {
	broker := newFakeBroker(t)
	for flag, first := range map[string]string{"--topics": "orders", "--nodes": "n1", "--clients": "10.0.0.9:1", "--channels": "orders"} {
		r := broker.brokerctl(t, "top", "--once", "--no-headers", flag)
		if r.exit != exitOK || !strings.HasPrefix(r.stdout, first) {
			t.Errorf("%s: %d %q %s", flag, r.exit, r.stdout, r.stderr)
		}
		if r = broker.brokerctl(t, "top", "--once", "-o", "ndjson", "-n", "1", flag); strings.Count(r.stdout, "\n") != 1 {
			t.Errorf("%s: %q %s", flag, r.stdout, r.stderr)
		}
	}
}

// The topic of a message is found by its id: an operator on call has only the id from a log line.
func TestMessageIsFoundWithoutItsTopic(t *testing.T) {
	const id = "2b839aa76e4d64b7"
	for _, args := range [][]string{
		{"message", "get", id},
		{"message", "finish", id, "--channel", "invoice"},
		{"message", "requeue", id, "--channel", "invoice"},
		{"message", "copy", id, "--to", "clicks"},
		{"message", "cancel", id, "--channel", "invoice"},
	} {
		found := newFakeBroker(t).brokerctl(t, args...)
		named := newFakeBroker(t).brokerctl(t, append(args, "--topic", "orders")...)
		if found != named || args[1] == "get" && named.exit != exitOK {
			t.Errorf("%q: %+v, with its topic %+v", args, found, named)
		}
	}
	b := newFakeBroker(t)
	for _, x := range []struct {
		args   []string
		exit   int
		stderr string
	}{
		{[]string{"get", "0000000000000001"}, failure.ExitNotFound, "message 0000000000000001 belongs to no topic"},
		{[]string{"get", "0/1"}, failure.ExitUsage, "PARTITION/SEQ needs --topic"},
		{[]string{"get", "9/0", "--topic", "orders"}, failure.ExitNotFound, "orders/9: partition not found: topic orders has partitions 0 to 1"},
		{[]string{"cancel", id}, failure.ExitUsage, `requires TOPIC/CHANNEL, not "` + id},
		{[]string{"cancel", "--channel", "invoice", "--all"}, failure.ExitUsage, "name the channel as TOPIC/CHANNEL, or give --topic"},
	} {
		if r := b.brokerctl(t, append([]string{"message"}, x.args...)...); r.exit != x.exit || !strings.Contains(r.stderr, x.stderr) {
			t.Errorf("%q: exit %d, %q, want %d, %q", x.args, r.exit, r.stderr, x.exit, x.stderr)
		}
	}
	twin := ordersTopic()
	twin.Name = "twin"
	b.set("GET /v1/topics", api.TopicList{Topics: []api.Topic{ordersTopic(), twin}})
	if r := b.brokerctl(t, "message", "get", id); r.exit != failure.ExitUsage || !strings.Contains(r.stderr, "topics orders, twin: name one with --topic") {
		t.Errorf("two topics: exit %d, %q", r.exit, r.stderr)
	}
	for i := range twin.Partitions {
		twin.Partitions[i].LogEnd = 0
	}
	b.set("GET /v1/topics", api.TopicList{Topics: []api.Topic{ordersTopic(), twin}})
	if r := b.brokerctl(t, "message", "get", id); r.exit != exitOK {
		t.Errorf("a topic without messages: exit %d, %q", r.exit, r.stderr)
	}
	twin.MissingNodes = []string{twin.Partitions[0].Leader, twin.Partitions[1].Leader}
	b.set("GET /v1/topics", api.TopicList{Topics: []api.Topic{ordersTopic(), twin}})
	if r := b.brokerctl(t, "message", "get", id); r.exit != failure.ExitUsage {
		t.Errorf("a topic whose ends are not known: exit %d, %q", r.exit, r.stderr)
	}
}

// An undoable change is not reported as a loss.
func TestUndoableChangesNameTheUndo(t *testing.T) {
	b := newFakeBroker(t)
	for _, x := range [][]string{
		{"empty", "orders/invoice", "emptying channel orders/invoice can be undone for a limited time only (brokerctl channel undo orders/invoice)"},
		{"delete", "orders/invoice", "deleting channel orders/invoice can be undone for a limited time only (brokerctl channel restore orders/invoice)"},
		{"delete", "orders/x#ephemeral", "deleting channel orders/x#ephemeral cannot be undone"},
		{"delete", "clicks#ephemeral/x", "deleting channel clicks#ephemeral/x cannot be undone"},
		{"empty", "orders/x#ephemeral", "emptying channel orders/x#ephemeral cannot be undone"},
	} {
		if r := b.brokerctl(t, "channel", x[0], x[1]); r.exit != failure.ExitUsage || !strings.Contains(r.stderr, x[2]+"; confirmation required") {
			t.Errorf("%q: exit %d, %q", x, r.exit, r.stderr)
		}
	}
}

// The trash does not keep every topic, and the question says so.
func TestDeletionThatCannotBeUndoneSaysSo(t *testing.T) {
	b := newFakeBroker(t)
	unkept := ordersTopic()
	unkept.Config.RetentionTrash, unkept.Config.RetentionTrashMS = 0, 0
	b.set("GET /v1/topics/unkept", unkept)
	b.set("GET /v1/topics/clicks#ephemeral", clicksTopic())
	for name, want := range map[string]string{"unkept": "its retention-trash is 0", "clicks#ephemeral": "ephemeral topics are not kept"} {
		if r := b.brokerctl(t, "topic", "delete", name); r.exit != failure.ExitUsage || !strings.Contains(r.stderr, " cannot be undone: "+want+"; confirmation required") {
			t.Errorf("%s: exit %d, %q", name, r.exit, r.stderr)
		}
	}
	if r := b.brokerctl(t, "topic", "delete", "missing"); r.exit != failure.ExitNotFound {
		t.Errorf("a topic that does not exist: exit %d, %q", r.exit, r.stderr)
	}
}

// A command that fails before it has done anything does not report what it has done.
func TestFailedRedriveNamesOnlyTheFailure(t *testing.T) {
	b := newFakeBroker(t)
	if r := b.brokerctl(t, "dlq", "redrive", "orders/missing"); r.exit != failure.ExitNotFound || strings.Contains(r.stderr, "dead letter") {
		t.Errorf("exit %d, %q", r.exit, r.stderr)
	}
}

// A channel without messages has no oldest message.
func TestExplanationOfEmptyChannelHasNoOldestMessage(t *testing.T) {
	b := newFakeBroker(t)
	b.set("GET /v1/topics/orders/channels/invoice/explain", api.Explanation{Topic: "orders", Channel: "invoice", Moving: true})
	r := b.brokerctl(t, "channel", "explain", "orders/invoice")
	if want := "orders/invoice has nothing to deliver: 0 ready, 0 in flight, 0 deferred; consumers: 0"; !strings.HasPrefix(r.stdout, want) {
		t.Errorf("exit %d, %q, want %q", r.exit, r.stdout, want)
	}
}

// TestRedriveThatFailsHalfwayIsPartial: the exit code tells a script that some are done.
func TestRedriveThatFailsHalfwayIsPartial(t *testing.T) {
	b := newFakeBroker(t)
	n := 0
	b.set("POST /v1/topics/orders/channels/invoice/dead-letters/redrive", func(*http.Request, []byte) any {
		if n++; n > 1 {
			return api.Error{Code: failure.Busy, Message: "try later", Fate: "refused"}
		}
		return api.DeadLetterResult{Topic: "orders", Channel: "invoice", Count: 100, More: true}
	})
	if r := b.brokerctl(t, "dlq", "redrive", "orders/invoice"); r.exit != failure.ExitPartial || !strings.Contains(r.stderr, "100 dead letters of orders/invoice redriven, then: try later") {
		t.Errorf("exit %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
}

// TestTraceIsOfOneChannel keeps the events that are of all channels.
func TestTraceIsOfOneChannel(t *testing.T) {
	b := newFakeBroker(t)
	events := []api.TraceEvent{{What: "published"}, {What: "delivered", Channel: "bill"}, {What: "delivered", Channel: "invoice"}, {What: "finished", Channel: "bill"}}
	one := api.MessageTrace{ID: "2b839aa76e4d64b7", Topic: "orders", Events: events}
	b.set("GET /v1/messages/2b839aa76e4d64b7/trace", one)
	b.set("GET /v1/topics/orders/traces", api.TraceList{Topic: "orders", Messages: []api.MessageTrace{one}})
	for _, args := range [][]string{{"2b839aa76e4d64b7"}, {"--key", "k", "--topic", "orders"}} {
		r := b.brokerctl(t, append([]string{"message", "trace", "--channel", "bill", "-o", "json"}, args...)...)
		if r.exit != exitOK || strings.Count(r.stdout, `"what"`) != 3 || strings.Contains(r.stdout, "invoice") {
			t.Errorf("%v: exit %d\n%s%s", args, r.exit, r.stdout, r.stderr)
		}
	}
}

// TestFollowedEventsAreNotOlderThanAsked: there is none at first, after which the next ones could be asked for.
func TestFollowedEventsAreNotOlderThanAsked(t *testing.T) {
	b := newFakeBroker(t)
	var since []string
	b.set("GET /v1/events", func(r *http.Request, _ []byte) any {
		since = append(since, r.URL.Query().Get("since"))
		if len(since) == 2 {
			return api.EventLog{Events: []api.Event{{Index: 7, Kind: "node_down", Object: "n3", What: "node is down"}}}
		}
		return api.EventLog{}
	})
	r, _ := watching(t, b, 3, "events", "-f", "--since", "1h")
	if r.exit != exitOK || len(since) < 3 || since[0] == "" || since[1] != since[0] || since[2] != "" {
		t.Errorf("exit %d, asked for events since %q\n%s", r.exit, since, r.stderr)
	}
}
