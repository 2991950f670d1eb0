package topicfile

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// orders is a topic with a channel, as a cluster has it.
func orders() (*api.Topic, *api.Channel) {
	return &api.Topic{Name: "orders", Config: api.Config{
			Partitions: 4, Replicas: 3, AutoReplicas: true, MinISR: 2, AutoMinISR: true, Sync: api.SyncAlways, Retention: api.Duration(72 * time.Hour), OnFull: api.OnFullReject, Trace: api.TraceOff, RetentionTrash: api.Duration(24 * time.Hour), AutoRetentionTrash: true,
			ChannelPolicy: &api.PolicyPatch{MaxAttempts: new(7)},
		}},
		&api.Channel{Topic: "orders", Name: "bill", Order: "none", Filter: `app.kind == "a"`, Policy: api.Policy{MaxAttempts: 10, OnExhausted: "drop", Rate: 5, Own: []string{"max_attempts", "on_exhausted"}}}
}

func changes(t *testing.T, f *File, now existing) (all []string) {
	t.Helper()
	steps, err := planOf(f, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		all = append(all, s.Object+" "+s.Change)
	}
	return all
}

func parsed(t *testing.T, text string) *File {
	t.Helper()
	f, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// exportedText is the file with the paused topic of orders.
const exportedText = `topics:
  - name: orders
    paused: true
    config:
      partitions: 4
      sync: always
      ordered: false
      ext: false
      retention: 72h0m0s
      retention_bytes: 0
      max_message_bytes: 0
      key_from: ""
      ttl: 0s
      max_bytes: 0
      on_full: reject
      trace: off
      channel_policy:
        max_attempts: 7
    channels:
      - name: bill
        paused: false
        order: none
        filter: app.kind == "a"
        policy:
          max_attempts: 10
          on_exhausted: drop
`

// TestExportedFileChangesNothing: what is exported, written and read is what the cluster has.
func TestExportedFileChangesNothing(t *testing.T) {
	topic, channel := orders()
	topic.Paused = true
	now := existing{map[string]*api.Topic{"orders": topic}, map[string]*api.Channel{"orders/bill": channel}}
	var text bytes.Buffer
	if err := write(&text, &File{Topics: []Topic{exported(topic, []*api.Channel{channel})}}); err != nil {
		t.Fatal(err)
	}
	if got := changes(t, parsed(t, text.String()), now); len(got) > 0 {
		t.Errorf("%q in\n%s", got, text.String())
	}
	if diff := cmp.Diff(exportedText, text.String()); diff != "" { // what was left open is not in it: replicas, retention_trash, rate
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := []string{
		"orders create topic: channel_policy.max_attempts: 7, ext: false, key_from: \"\", max_bytes: 0, max_message_bytes: 0, on_full: reject, ordered: false, partitions: 4, retention: 72h0m0s, retention_bytes: 0, sync: always, trace: off, ttl: 0s",
		"orders pause",
		"orders/bill create channel: filter: app.kind == \"a\", order: none, policy.max_attempts: 10, policy.on_exhausted: drop",
	}
	if diff := cmp.Diff(want, changes(t, parsed(t, text.String()), existing{})); diff != "" {
		t.Errorf("in an empty cluster (-want +got):\n%s", diff)
	}
}

func TestOnlyDifferencesAreChanged(t *testing.T) {
	topic, channel := orders()
	now := existing{map[string]*api.Topic{"orders": topic}, map[string]*api.Channel{"orders/bill": channel}}
	for text, want := range map[string][]string{
		`{"topics":[{"name":"orders"}]}`:                                                                                  nil,
		`{"topics":[{"name":"orders","config":{"retention_ms":259200000}}]}`:                                              nil,
		`{"topics":[{"name":"orders","config":{"retention":"3d"}}]}`:                                                      nil,
		`{"topics":[{"name":"orders","config":{"retention":"1h","sync":"always"}}]}`:                                      {"orders retention: 72h0m0s -> 1h0m0s"},
		`{"topics":[{"name":"orders","config":{"retention_ms":1000}}]}`:                                                   {"orders retention: 72h0m0s -> 1s"},
		`{"topics":[{"name":"orders","config":{"retention_trash":"24h"}}]}`:                                               {"orders retention_trash: 24h0m0s"},
		`{"topics":[{"name":"orders","config":{"replicas":2}}]}`:                                                          {"orders replicas: 2"},
		`{"topics":[{"name":"orders","config":{"partitions":6,"max_bytes":1024}}]}`:                                       {"orders partitions: 4 -> 6", "orders max_bytes: 0 -> 1024"},
		`{"topics":[{"name":"orders","config":{"channel_policy":{"rate":3}}}]}`:                                           {"orders channel_policy.rate: 3"},
		`{"topics":[{"name":"orders","paused":true,"channels":[{"name":"bill"}]}]}`:                                       {"orders pause"},
		`{"topics":[{"name":"orders","channels":[{"name":"bill","paused":true}]}]}`:                                       {"orders/bill pause"},
		`{"topics":[{"name":"orders","channels":[{"name":"bill","filter":""}]}]}`:                                         {`orders/bill filter: app.kind == "a" -> ""`},
		`{"topics":[{"name":"orders","channels":[{"name":"bill","policy":{"max_attempts":10,"on_exhausted":"block"}}]}]}`: {"orders/bill policy.on_exhausted: drop -> block"},
		`{"topics":[{"name":"orders","channels":[{"name":"new"}]}]}`:                                                      {"orders/new create channel: default settings"},
	} {
		if diff := cmp.Diff(want, changes(t, parsed(t, text), now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	f := parsed(t, `{"topics":[{"name":"a","channels":[{"name":"c"}]},{"name":"b"}]}`)
	if got := changes(t, f, existing{}); len(got) != 3 || !strings.HasPrefix(got[2], "a/c ") {
		t.Errorf("channels before topics: %q", got)
	}
}

// TestTraceIsSwitchedOff: tracing that the file has off is not left on.
func TestTraceIsSwitchedOff(t *testing.T) {
	topic, _ := orders()
	f := &File{Topics: []Topic{exported(topic, nil)}}
	traced := *topic
	traced.Config.Trace = "1/100"
	want := []string{"orders trace: 1/100 -> off"}
	if diff := cmp.Diff(want, changes(t, f, existing{topics: map[string]*api.Topic{"orders": &traced}})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImpossibleChangesAreRefused(t *testing.T) {
	topic, channel := orders()
	now := existing{map[string]*api.Topic{"orders": topic}, map[string]*api.Channel{"orders/bill": channel}}
	for config, want := range map[string]string{
		`{"ordered":true}`: "topic orders: ordered is false and cannot become true",
		`{"ext":true}`:     "topic orders: ext is false and cannot become true",
		`{"partitions":2}`: "topic orders: it has 4 partitions and cannot have 2",
	} {
		f := parsed(t, `{"topics":[{"name":"new"},{"name":"orders","config":`+config+`}]}`)
		if steps, err := planOf(f, now); err == nil || !strings.Contains(err.Error(), want) || steps != nil {
			t.Errorf("%s: %v, %v", config, steps, err)
		}
	}
}

func TestFilesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "no topics",
		"topics: []":                     "no topics",
		"topic: []":                      `unknown field "topic"`,
		"topics: [{name: a, x: 1}]":      `unknown field "x"`,
		"topics: [{name: a}, {name: a}]": "that of another one",
		"topics: [{config: {}}]":         "has no name",
		"topics: [{name: a, channels: [{name: c}, {name: c}]}]": "that of another one",
		"topics: [{name: a, config: {retention: soon}}]":        "soon",
		"topics: {": "yaml",
		"topics: [{name: a}]\n---\ntopics: [{name: b}]": "more than one YAML document",
		"topics: [{name: a}]\n---\n{":                   "yaml",
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
