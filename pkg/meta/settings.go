package meta

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/units"
)

// The cluster-wide settings: defaults shared by every node, changed with the SetSettings command
// and never in a node's file.
const (
	SettingAutoCreateTopics    = "auto_create_topics"    // bool: topics are created on first use
	SettingTopicPartitions     = "topic_partitions"      // of a topic that names no number
	settingTopicReplicas       = "topic_replicas"        // 0: by the number of nodes
	settingTopicMinISR         = "topic_min_isr"         // 0: a majority
	settingTopicSync           = "topic_sync"            // as parseSyncPolicy reads it
	settingTopicRetention      = "topic_retention"       // duration; 0: finished messages are dropped at once
	settingTopicRetentionBytes = "topic_retention_bytes" // 0: no limit
	SettingChannelMaxAttempts  = "channel_max_attempts"  // of a channel that leaves it open; 0: no limit
	settingChannelOnExhausted  = "channel_on_exhausted"  // dead-letter, drop or block
	settingChannelOnExpired    = "channel_on_expired"    // dead-letter or drop
	SettingChannelBackoff      = "channel_backoff"       // as policy.ParseBackoff reads it
	settingChannelRate         = "channel_rate"          // as policy.ParseRate reads it
	settingAutoBalance         = "auto_balance"          // bool: leaderships return to preferred leaders automatically
)

type setting struct {
	value string // the default
	check func(string) error
}

// settings is the table of the known keys.
var settings = map[string]setting{
	SettingAutoCreateTopics:    {"true", checkBool},
	SettingTopicPartitions:     {"1", checkInt(1, seq.MaxPartitions)},
	settingTopicReplicas:       {"0", checkInt(0, maxReplicas)},
	settingTopicMinISR:         {"0", checkInt(0, maxReplicas)},
	settingTopicSync:           {"always", checkSync},
	settingTopicRetention:      {"0s", checkDuration},
	settingTopicRetentionBytes: {"0", checkInt(0, 1<<62)},
	settingAutoBalance:         {"true", checkBool},
	SettingChannelMaxAttempts:  {"0", checkParsed(policy.ParseMaxAttempts)},
	settingChannelOnExhausted:  {string(policy.DeadLetter), checkParsed(policy.ParseOutcome)},
	settingChannelOnExpired:    {string(policy.Drop), checkParsed(policy.ParseExpiry)},
	SettingChannelBackoff:      {"off", checkParsed(policy.ParseBackoff)},
	settingChannelRate:         {"0", checkParsed(policy.ParseRate)},
}

func checkBool(v string) error { _, err := strconv.ParseBool(v); return err }

func checkInt(low, high int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err == nil && (n < low || n > high) {
			err = fmt.Errorf("%d is not between %d and %d", n, low, high)
		}
		return err
	}
}

func checkSync(v string) error {
	p, err := parseSyncPolicy(v)
	if err == nil && p == (SyncPolicy{}) {
		err = fmt.Errorf("sync policy missing")
	}
	return err
}

// checkParsed checks a value by parsing it.
func checkParsed[T any](parse func(string) (T, error)) func(string) error {
	return func(v string) error { _, err := parse(v); return err }
}

func checkDuration(v string) error {
	_, err := units.ParseDuration(v)
	return err
}

// Settings are the cluster-wide settings. The zero value has the defaults. It
// is immutable.
type Settings struct {
	values map[string]string // valid values that were set
}

// Get returns the value of a key, or its default. An unknown key has none.
func (s Settings) Get(key string) (value string, known bool) {
	if v, ok := s.values[key]; ok {
		return v, true
	}
	def, ok := settings[key]
	return def.value, ok
}

// IsSet reports whether a key has a value that is not the default.
func (s Settings) IsSet(key string) bool { _, ok := s.values[key]; return ok }

// AutoCreateTopics reports whether topics and channels are created on first use.
func (s Settings) AutoCreateTopics() bool { return s.is(SettingAutoCreateTopics) }

// AutoBalance reports whether leaderships return to the preferred leaders automatically. An
// operator disables it during a rolling upgrade.
func (s Settings) AutoBalance() bool { return s.is(settingAutoBalance) }

func (s Settings) is(key string) bool {
	v, _ := s.Get(key)
	on, err := strconv.ParseBool(v)
	return on && err == nil
}

// TopicDefaults sets fields that the configuration left at zero and the settings name. WithDefaults
// is applied afterwards.
func (s Settings) TopicDefaults(c TopicConfig) TopicConfig {
	number := func(key string) int64 {
		v, _ := s.Get(key)
		n, _ := strconv.ParseInt(v, 10, 64) // validated when it was set
		return n
	}
	if c.Partitions == 0 {
		c.Partitions = int(number(SettingTopicPartitions))
	}
	if c.Replicas == 0 {
		c.Replicas = int(number(settingTopicReplicas))
	}
	if c.MinISR == 0 {
		c.MinISR = int(number(settingTopicMinISR))
	}
	if c.Sync == (SyncPolicy{}) && s.IsSet(settingTopicSync) {
		v, _ := s.Get(settingTopicSync)
		c.Sync, _ = parseSyncPolicy(v)
	}
	if c.RetentionAge == 0 {
		v, _ := s.Get(settingTopicRetention)
		c.RetentionAge, _ = units.ParseDuration(v)
	}
	if c.RetentionBytes == 0 {
		c.RetentionBytes = number(settingTopicRetentionBytes)
	}
	return c
}

// ChannelDefaults returns the policy of channels that leave it open, if their topics do as well.
func (s Settings) ChannelDefaults() (p policy.Policy) {
	value := func(key string) string { v, _ := s.Get(key); return v }
	p.MaxAttempts, _ = policy.ParseMaxAttempts(value(SettingChannelMaxAttempts)) // validated when they were set
	p.OnExhausted, _ = policy.ParseOutcome(value(settingChannelOnExhausted))
	p.OnExpired, _ = policy.ParseExpiry(value(settingChannelOnExpired))
	p.Backoff, _ = policy.ParseBackoff(value(SettingChannelBackoff))
	p.Rate, _ = policy.ParseRate(value(settingChannelRate))
	return p
}

// with returns the settings with changes; the value "" restores the default.
func (s Settings) with(changes map[string]string) Settings {
	values := maps.Clone(s.values)
	for key, v := range changes {
		switch {
		case v == "":
			delete(values, key)
		case values == nil:
			values = map[string]string{key: v}
		default:
			values[key] = v
		}
	}
	if len(values) == 0 {
		values = nil
	}
	return Settings{values}
}

func validateSettings(changes map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		known, ok := settings[key]
		if !ok {
			return fmt.Errorf("%w: %q", failure.UnknownSetting, key)
		}
		if v := changes[key]; v != "" {
			if err := known.check(v); err != nil {
				return fmt.Errorf("%w: %s = %q: %w", failure.InvalidConfig, key, v, err)
			}
		}
	}
	return nil
}
