package meta

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

func TestNames(t *testing.T) {
	for _, test := range []struct {
		name             string
		valid, ephemeral bool
	}{
		{"a", true, false},
		{"a.B-c_9", true, false},
		{"", false, false},
		{strings.Repeat("x", 64), true, false},
		{strings.Repeat("x", 65), false, false},
		{"a#ephemeral", true, true},
		{strings.Repeat("x", 54) + "#ephemeral", true, true},
		{strings.Repeat("x", 55) + "#ephemeral", false, true},
		{"#ephemeral", false, true},
		{"a#ephemeral#ephemeral", false, true},
		{"a#ephemera", false, false},
		{"...", true, false},
		{"..a", true, false},
		{"..#ephemeral", true, true},
		{"a b", false, false},
		{"a/b", false, false},
		{"ä", false, false},
		{"a\n", false, false},
	} {
		if v, e := ValidTopicName(test.name), IsEphemeral(test.name); v != test.valid || e != test.ephemeral || v != ValidChannelName(test.name) {
			t.Errorf("%q: valid %v, ephemeral %v", test.name, v, e)
		}
		if ValidNodeID(NodeID(test.name)) != (test.valid && !test.ephemeral) {
			t.Errorf("node %q", test.name)
		}
	}
}

// Names that a path cannot contain are refused for new objects, but existing
// ones are still found.
func TestDotSegmentsCannotBeCreated(t *testing.T) {
	for _, name := range []string{".", ".."} {
		if ValidTopicName(name) || ValidChannelName(name) || !NSQName(name) || !IsDotSegment(name) {
			t.Errorf("%q: may be given %v, may exist %v", name, ValidTopicName(name), NSQName(name))
		}
		for _, c := range []Command{
			DeleteTopic{Name: name},
			DeleteChannel{Topic: name, Channel: name}, // and what is stored is applied as it was
			CreateTopic{Name: name, Config: TopicConfig{}.WithDefaults(1, false), Assignment: [][]NodeID{{"n1"}}},
			CreateChannel{Topic: "t", Channel: name},
		} {
			if err := c.validate(); err != nil {
				t.Errorf("%T of %q: %v", c, name, err)
			}
		}
	}
}

func TestSyncPolicies(t *testing.T) {
	for _, test := range []struct {
		text string
		want SyncPolicy
		back string
	}{
		{"", SyncPolicy{}, ""},
		{"always", SyncPolicy{Every: 1}, "always"},
		{"1", SyncPolicy{Every: 1}, "always"},
		{"1,5s", SyncPolicy{Every: 1}, "always"},
		{"100", SyncPolicy{Every: 100}, "100"},
		{"interval", SyncPolicy{Interval: DefaultSyncInterval}, "200ms"},
		{"2s", SyncPolicy{Interval: 2 * time.Second}, "2s"},
		{"100,2s", SyncPolicy{Every: 100, Interval: 2 * time.Second}, "100,2s"},
	} {
		got, err := parseSyncPolicy(test.text)
		if err != nil || got != test.want || got.String() != test.back {
			t.Errorf("%q: %+v %q, %v", test.text, got, got, err)
		}
		if again, err := parseSyncPolicy(got.String()); err != nil || again != got {
			t.Errorf("%q does not come back: %+v, %v", got, again, err)
		}
	}
	for _, text := range []string{"never", "0", "-1", "0,0s", "1h", "-2s", "5,", "x,2s", "100,x", "99999999999999999999"} {
		if p, err := parseSyncPolicy(text); text != "5," && (!errors.Is(err, failure.InvalidConfig) || fate.Of(err) != fate.Refused) {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	always := SyncAlways()
	for _, test := range []struct {
		name      string
		in        TopicConfig
		nodes     int
		ephemeral bool
		want      TopicConfig
	}{
		{"one node", TopicConfig{}, 1, false, TopicConfig{Partitions: 1, Replicas: 1, AutoReplicas: true, MinISR: 1, AutoMinISR: true, Sync: always}},
		{"two nodes", TopicConfig{}, 2, false, TopicConfig{Partitions: 1, Replicas: 2, AutoReplicas: true, MinISR: 1, AutoMinISR: true, Sync: always}},
		{"five nodes", TopicConfig{}, 5, false, TopicConfig{Partitions: 1, Replicas: 3, AutoReplicas: true, MinISR: 2, AutoMinISR: true, Sync: always}},
		{"two replicas", TopicConfig{Replicas: 2}, 5, false, TopicConfig{Partitions: 1, Replicas: 2, MinISR: 1, AutoMinISR: true, Sync: always}},
		{"four replicas", TopicConfig{Replicas: 4}, 5, false, TopicConfig{Partitions: 1, Replicas: 4, MinISR: 3, AutoMinISR: true, Sync: always}},
		{
			"asked for",
			TopicConfig{Partitions: 4, Replicas: 5, MinISR: 1, Sync: SyncPolicy{Every: 9}},
			3, false,
			TopicConfig{Partitions: 4, Replicas: 5, MinISR: 1, Sync: SyncPolicy{Every: 9, Interval: DefaultSyncInterval}},
		},
		{"ephemeral", TopicConfig{}, 3, true, TopicConfig{Partitions: 1, Replicas: 1, MinISR: 1, AutoMinISR: true, Sync: SyncPolicy{Interval: DefaultSyncInterval}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.in.WithDefaults(test.nodes, test.ephemeral)
			if d := cmp.Diff(test.want, got); d != "" {
				t.Error(d)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
			if again := got.WithDefaults(test.nodes, test.ephemeral); again != got {
				t.Errorf("defaults of the defaults: %+v", again)
			}
		})
	}
}

func TestBadConfigs(t *testing.T) {
	for name, spoil := range map[string]func(*TopicConfig){
		"partitions": func(c *TopicConfig) { c.Partitions = 1025 },
		"replicas":   func(c *TopicConfig) { c.Replicas = maxReplicas + 1 },
		"min isr":    func(c *TopicConfig) { c.MinISR = 4 },
		"age":        func(c *TopicConfig) { c.RetentionAge = -1 },
		"bytes":      func(c *TopicConfig) { c.RetentionBytes = -1 },
		"message":    func(c *TopicConfig) { c.MaxMessage = maxBodyLimit + 1 },
		"no sync":    func(c *TopicConfig) { c.Sync = SyncPolicy{} },
		"sync":       func(c *TopicConfig) { c.Sync.Every = -1 },
	} {
		c := TopicConfig{}.WithDefaults(3, false)
		if spoil(&c); !errors.Is(c.Validate(), failure.InvalidConfig) {
			t.Errorf("%s: %v", name, c.Validate())
		}
	}
}

func TestAlterTopicChangesWhatDiffersOnly(t *testing.T) {
	c := AlterTopic{Name: "t", Was: TopicConfig{}.WithDefaults(3, false)}
	c.Will = c.Was
	c.Will.AutoReplicas, c.Will.AutoMinISR = false, false // as they are once a number is named
	c.Will.Replicas, c.Will.MinISR, c.Will.Ordered, c.Will.RetentionAge, c.Will.Sync = 1, 1, true, time.Hour, SyncPolicy{Every: 5, Interval: time.Second}
	is, want := c.Was, c.Will
	is.Ext, is.TTL = true, time.Minute // others have set them meanwhile
	want.Ext, want.TTL = true, time.Minute
	if c.change(&is); is != want {
		t.Error(cmp.Diff(want, is))
	}
	if err := c.validate(); err != nil {
		t.Error(err)
	}
	c.Will.Partitions = 2
	if err := c.validate(); !errors.Is(err, failure.InvalidConfig) {
		t.Errorf("partitions: %v", err)
	}
}

func TestSettings(t *testing.T) {
	var s Settings
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if v, known := s.Get(key); !known || validateSettings(map[string]string{key: v}) != nil {
			t.Errorf("default of %s: %q", key, v)
		}
	}
	if _, known := s.Get("no"); known || !s.AutoCreateTopics() {
		t.Error("an unknown key, or no topics on first use")
	}
	set := s.with(map[string]string{SettingAutoCreateTopics: "false", SettingTopicPartitions: "3", settingTopicSync: "2s", settingTopicRetention: "1h"})
	if set.AutoCreateTopics() || !s.AutoCreateTopics() {
		t.Error("not set, or set in the old value")
	}
	want := TopicConfig{Partitions: 3, Replicas: 2, RetentionAge: time.Hour, Sync: SyncPolicy{Interval: 2 * time.Second}}
	if d := cmp.Diff(want, set.TopicDefaults(TopicConfig{Replicas: 2})); d != "" {
		t.Error(d)
	}
	for key, v := range map[string]string{SettingTopicPartitions: "0", settingTopicSync: "no", settingTopicRetention: "-1s", settingTopicReplicas: "x", SettingAutoCreateTopics: "2"} {
		if err := validateSettings(map[string]string{key: v}); !errors.Is(err, failure.InvalidConfig) {
			t.Errorf("%s=%s: %v", key, v, err)
		}
	}
}
