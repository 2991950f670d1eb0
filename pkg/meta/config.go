package meta

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/keys"
	"github.com/brokerd/brokerd/pkg/sampling"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/units"
)

// Defaults and bounds of a topic's configuration.
const (
	// DefaultReplicas is the replication factor if there are enough nodes.
	DefaultReplicas = 3
	// DefaultSyncInterval is how long an acknowledged message may stay unsynced if a policy other
	// than "always" names no interval.
	DefaultSyncInterval = 200 * time.Millisecond
	// MaxSyncInterval is the longest interval of a SyncPolicy.
	MaxSyncInterval = time.Minute
	// DefaultDedupWindow is the window of a topic from its first publish with a dedup id on.
	// MaxDedupWindow is the longest window.
	DefaultDedupWindow = 10 * time.Minute
	MaxDedupWindow     = 24 * time.Hour
	// MaxTTL is the longest time to live of a message.
	MaxTTL = 10 * 365 * 24 * time.Hour
	// MinQuota is the smallest MaxBytes of one partition.
	MinQuota = 1 << 20
	// MaxSyncEvery is the largest count of a SyncPolicy.
	MaxSyncEvery = 1 << 30
)

// SyncAlways is the policy under which an acknowledged message is on disk.
func SyncAlways() SyncPolicy { return SyncPolicy{Every: 1} }

// Always reports whether an acknowledged message is on disk.
func (p SyncPolicy) Always() bool { return p.Every == 1 }

// String returns the policy in the form of parseSyncPolicy: "always", an interval ("200ms"), a
// count ("1000") or both ("1000,200ms"). The zero policy is "".
func (p SyncPolicy) String() string {
	switch {
	case p == SyncPolicy{}:
		return ""
	case p.Every == 1:
		return "always"
	case p.Every == 0:
		return p.Interval.String()
	case p.Interval == 0:
		return strconv.Itoa(p.Every)
	}
	return strconv.Itoa(p.Every) + "," + p.Interval.String()
}

// parseSyncPolicy parses "always", "interval" (DefaultSyncInterval), a duration, a count of
// messages, or a count, a comma and a duration. "" is the zero policy, which WithDefaults replaces
// by "always".
func parseSyncPolicy(text string) (SyncPolicy, error) {
	switch text {
	case "":
		return SyncPolicy{}, nil
	case "always":
		return SyncAlways(), nil
	case "interval":
		return SyncPolicy{Interval: DefaultSyncInterval}, nil
	}
	count, interval, both := strings.Cut(text, ",")
	if !both && strings.ContainsFunc(text, func(r rune) bool { return r < '0' || r > '9' }) {
		count, interval = "0", text
	}
	p := SyncPolicy{}
	var err error
	if p.Every, err = strconv.Atoi(count); err != nil {
		return SyncPolicy{}, fmt.Errorf("%w: sync %q: want always, interval, a count or a duration", failure.InvalidConfig, text)
	}
	if interval != "" {
		if p.Interval, err = units.ParseDuration(interval); err != nil {
			return SyncPolicy{}, fmt.Errorf("%w: sync %q: want always, interval, a count or a duration", failure.InvalidConfig, text)
		}
	}
	if p.Every == 1 {
		p.Interval = 0 // an interval adds nothing to always
	}
	if p == (SyncPolicy{}) {
		return p, fmt.Errorf("%w: sync %q never syncs", failure.InvalidConfig, text)
	}
	return p, p.validate()
}

// MarshalText returns the policy like String.
func (p SyncPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText parses the policy like parseSyncPolicy.
func (p *SyncPolicy) UnmarshalText(text []byte) error {
	parsed, err := parseSyncPolicy(string(text))
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}

func (p SyncPolicy) validate() error {
	switch {
	case p.Every < 0 || p.Every > MaxSyncEvery:
		return fmt.Errorf("%w: invalid sync count %d", failure.InvalidConfig, p.Every)
	case p.Interval < 0 || p.Interval > MaxSyncInterval:
		return fmt.Errorf("%w: invalid sync interval %v", failure.InvalidConfig, p.Interval)
	}
	return nil
}

// DefaultMinISR returns the default MinISR: a majority of the replicas. With two replicas it is
// one: otherwise publishes would be refused while one of two nodes is stopped.
func DefaultMinISR(replicas int) int {
	if replicas == 2 {
		return 1
	}
	return replicas/2 + 1
}

// WithDefaults sets fields that the operator left at zero: one partition, three replicas or as many
// as there are nodes, DefaultMinISR, and sync always. An ephemeral topic gets one replica and is
// synced by interval, because its messages need not outlive their consumers. AutoReplicas and
// AutoMinISR record which numbers were left open; an ephemeral topic never gets more replicas.
func (c TopicConfig) WithDefaults(nodes int, ephemeral bool) TopicConfig {
	if c.Partitions == 0 {
		c.Partitions = 1
	}
	if c.Replicas == 0 {
		c.Replicas, c.AutoReplicas = min(max(nodes, 1), DefaultReplicas), !ephemeral
		if ephemeral {
			c.Replicas = 1
		}
	}
	if c.MinISR == 0 {
		c.MinISR, c.AutoMinISR = DefaultMinISR(c.Replicas), true
	}
	if c.Sync == (SyncPolicy{}) && !ephemeral {
		c.Sync = SyncAlways()
	}
	if c.Sync.Every == 1 {
		c.Sync.Interval = 0
	} else if c.Sync.Interval == 0 {
		c.Sync.Interval = DefaultSyncInterval
	}
	return c
}

// Validate checks a complete configuration; the error wraps failure.InvalidConfig. A configuration
// from WithDefaults is complete.
func (c TopicConfig) Validate() error {
	switch {
	case c.Partitions < 1 || c.Partitions > seq.MaxPartitions:
		return fmt.Errorf("%w: %d partitions, want 1 to %d", failure.InvalidConfig, c.Partitions, seq.MaxPartitions)
	case c.Replicas < 1 || c.Replicas > maxReplicas:
		return fmt.Errorf("%w: %d replicas, want 1 to %d", failure.InvalidConfig, c.Replicas, maxReplicas)
	case c.MinISR < 1 || c.MinISR > c.Replicas:
		return fmt.Errorf("%w: min_isr %d, want 1 to the number of replicas, %d", failure.InvalidConfig, c.MinISR, c.Replicas)
	case c.RetentionAge < 0:
		return fmt.Errorf("%w: invalid retention %v", failure.InvalidConfig, c.RetentionAge)
	case c.RetentionBytes < 0:
		return fmt.Errorf("%w: invalid retention of %d bytes", failure.InvalidConfig, c.RetentionBytes)
	case c.RetentionTrash != NoTrash && (c.RetentionTrash < 0 || c.RetentionTrash > maxTrash):
		return fmt.Errorf("%w: retention of %v in the trash, want 0 to %v", failure.InvalidConfig, c.RetentionTrash, maxTrash)
	case c.MaxMessage < 0 || c.MaxMessage > maxBodyLimit:
		return fmt.Errorf("%w: max message %d, want 0 to %d", failure.InvalidConfig, c.MaxMessage, maxBodyLimit)
	case c.Sync == SyncPolicy{}:
		return fmt.Errorf("%w: sync policy missing", failure.InvalidConfig)
	}
	return cmp.Or(c.validateMessages(), validatePolicy(c.Channels), c.Sync.validate())
}

// validateMessages checks the settings about messages.
func (c TopicConfig) validateMessages() error {
	switch {
	case c.DedupWindow < 0 || c.DedupWindow > MaxDedupWindow:
		return fmt.Errorf("%w: dedup window %v, want 0 to %v", failure.InvalidConfig, c.DedupWindow, MaxDedupWindow)
	case c.TTL < 0 || c.TTL > MaxTTL:
		return fmt.Errorf("%w: ttl %v, want 0 to %v", failure.InvalidConfig, c.TTL, MaxTTL)
	case c.MaxBytes < 0:
		return fmt.Errorf("%w: invalid maximum of %d bytes", failure.InvalidConfig, c.MaxBytes)
	case c.MaxBytes > 0 && c.MaxBytes/int64(c.Partitions) < MinQuota:
		return fmt.Errorf("%w: maximum of %d bytes, want at least %d for each of %d partitions", failure.InvalidConfig, c.MaxBytes, MinQuota, c.Partitions)
	case c.OnFull != OnFullReject && c.OnFull != OnFullDrop:
		return fmt.Errorf("%w: on-full %q, want reject or drop-oldest", failure.InvalidConfig, c.OnFull)
	}
	if _, err := keys.ParseRule(c.KeyFrom); err != nil {
		return fmt.Errorf("%w: %w", failure.InvalidConfig, err)
	}
	if _, err := sampling.ParseRule(c.Trace); err != nil {
		return fmt.Errorf("%w: %w", failure.InvalidConfig, err)
	}
	return nil
}

// Quota returns the maximum bytes of one partition; 0: no limit.
func (c TopicConfig) Quota() int64 { return c.MaxBytes / int64(max(c.Partitions, 1)) }

// configJSON is the stored and published form of a TopicConfig: its durations are text.
type configJSON struct {
	*configFields
	RetentionAge   textTime `json:"retention"`
	RetentionTrash textTime `json:"retention_trash,omitempty"`
	DedupWindow    textTime `json:"dedup_window,omitempty"`
	TTL            textTime `json:"ttl,omitempty"`
}

// configFields is a TopicConfig without its methods.
type configFields TopicConfig

// textTime is a duration in the form of time.Duration.String.
type textTime time.Duration

func (t textTime) MarshalText() ([]byte, error) { return []byte(time.Duration(t).String()), nil }

func (t *textTime) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*t = textTime(d)
	return err
}

// MarshalJSON returns the configuration with durations and the sync policy as
// text: {"partitions":1,"replicas":3,"min_isr":2,"sync":"always",…}.
func (c TopicConfig) MarshalJSON() ([]byte, error) {
	return json.Marshal(configJSON{
		configFields: (*configFields)(&c), RetentionAge: textTime(c.RetentionAge), RetentionTrash: textTime(c.RetentionTrash),
		DedupWindow: textTime(c.DedupWindow), TTL: textTime(c.TTL),
	})
}

// UnmarshalJSON decodes what MarshalJSON writes. Missing fields become zero; unknown ones are an
// error.
func (c *TopicConfig) UnmarshalJSON(text []byte) error {
	var read TopicConfig
	j := configJSON{configFields: (*configFields)(&read)}
	if err := DecodeStrict(text, &j); err != nil {
		return err
	}
	read.RetentionAge, read.RetentionTrash = time.Duration(j.RetentionAge), time.Duration(j.RetentionTrash)
	read.DedupWindow, read.TTL = time.Duration(j.DedupWindow), time.Duration(j.TTL)
	*c = read
	return nil
}

// AsAskedFor reports whether a topic with the configuration c satisfies a request for a new topic
// with the complete configuration asked. Numbers that the request left open may have any value. A
// requested number does not match if c may still grow beyond it.
func (c TopicConfig) AsAskedFor(asked TopicConfig) bool {
	if asked.AutoReplicas {
		asked.Replicas, asked.AutoReplicas = c.Replicas, c.AutoReplicas
	} else if c.AutoReplicas && c.Replicas >= DefaultReplicas {
		c.AutoReplicas = false
	}
	if asked.AutoMinISR {
		asked.MinISR, asked.AutoMinISR = c.MinISR, c.AutoMinISR
	} else if !c.AutoReplicas {
		c.AutoMinISR = false
	}
	if asked.DedupWindow == 0 {
		asked.DedupWindow = c.DedupWindow // the first published id has set it
	}
	if asked.Trace == "" {
		asked.Trace = c.Trace // an operator may have switched it on
	}
	return c == asked
}
