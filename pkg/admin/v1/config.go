package v1

import (
	"cmp"
	"math"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// apiConfig describes a topic's configuration.
func apiConfig(c meta.TopicConfig) api.Config {
	return api.Config{
		Partitions:         c.Partitions,
		Replicas:           c.Replicas,
		AutoReplicas:       c.AutoReplicas,
		MinISR:             c.MinISR,
		AutoMinISR:         c.AutoMinISR,
		Sync:               api.Sync(c.Sync.Every),
		SyncInterval:       api.Duration(c.Sync.Interval),
		SyncIntervalMS:     api.Milliseconds(c.Sync.Interval),
		Ordered:            c.Ordered,
		Ext:                c.Ext,
		Retention:          api.Duration(c.RetentionAge),
		RetentionMS:        api.Milliseconds(c.RetentionAge),
		RetentionBytes:     c.RetentionBytes,
		MaxMessageBytes:    c.MaxMessage,
		DedupWindow:        api.Duration(c.DedupWindow),
		DedupWindowMS:      api.Milliseconds(c.DedupWindow),
		KeyFrom:            c.KeyFrom,
		TTL:                api.Duration(c.TTL),
		TTLMS:              api.Milliseconds(c.TTL),
		MaxBytes:           c.MaxBytes,
		OnFull:             cmp.Or(string(c.OnFull), api.OnFullReject),
		Trace:              cmp.Or(c.Trace, api.TraceOff),
		AutoRetentionTrash: c.RetentionTrash == 0,
		RetentionTrash:     api.Duration(c.Trash()),
		RetentionTrashMS:   api.Milliseconds(c.Trash()),
		ChannelPolicy:      apiChoice(c.Channels),
	}
}

// patchConfig applies the settings of a patch to a configuration. It refuses negative numbers, and
// zero where it would mean the default.
func patchConfig(c *meta.TopicConfig, p api.ConfigPatch) error {
	for _, n := range []struct {
		name  string
		value *int
		least int
	}{
		{"partitions", p.Partitions, 1},
		{"replicas", p.Replicas, 1},
		{"min_isr", p.MinISR, 1},
		{"max_message_bytes", p.MaxMessageBytes, 0},
	} {
		if n.value != nil && *n.value < n.least {
			return api.Errorf(failure.Invalid, "%s is %d, must be at least %d", n.name, *n.value, n.least)
		}
	}
	if p.MaxBytes != nil && *p.MaxBytes < 0 {
		return api.Errorf(failure.Invalid, "max_bytes must not be negative")
	}
	if p.RetentionBytes != nil && *p.RetentionBytes < 0 {
		return api.Errorf(failure.Invalid, "retention_bytes must not be negative")
	}
	if err := patchDurations(c, &p); err != nil {
		return err
	}
	assign(&c.Partitions, p.Partitions)
	if p.Replicas != nil {
		c.Replicas, c.AutoReplicas = *p.Replicas, false
	}
	if p.MinISR != nil {
		c.MinISR, c.AutoMinISR = *p.MinISR, false
	}
	assign(&c.Ordered, p.Ordered)
	assign(&c.Ext, p.Ext)
	assign(&c.RetentionBytes, p.RetentionBytes)
	assign(&c.MaxMessage, p.MaxMessageBytes)
	assign(&c.KeyFrom, p.KeyFrom)
	assign(&c.MaxBytes, p.MaxBytes)
	if p.OnFull != nil {
		c.OnFull = meta.OnFull(*p.OnFull)
		if *p.OnFull == api.OnFullReject {
			c.OnFull = meta.OnFullReject
		}
	}
	if err := patchTrace(c, p.Trace); err != nil {
		return err
	}
	patchSync(&c.Sync, p)
	channels, err := patchPolicy(p.ChannelPolicy)
	c.Channels = channels.Apply(c.Channels)
	return err
}

// patchDurations gives a configuration the durations that a patch names, as text or in
// milliseconds. The patch has them as text afterwards.
func patchDurations(c *meta.TopicConfig, p *api.ConfigPatch) error {
	for _, d := range []struct {
		name  string
		value **api.Duration
		ms    *int64
		to    *time.Duration
	}{
		{"retention", &p.Retention, p.RetentionMS, &c.RetentionAge},
		{"sync_interval", &p.SyncInterval, p.SyncIntervalMS, new(time.Duration)},
		{"dedup_window", &p.DedupWindow, p.DedupWindowMS, &c.DedupWindow},
		{"ttl", &p.TTL, p.TTLMS, &c.TTL},
		{"retention_trash", &p.RetentionTrash, p.RetentionTrashMS, &c.RetentionTrash},
	} {
		if d.ms != nil {
			given := api.Duration(time.Duration(*d.ms) * time.Millisecond)
			switch {
			case *d.ms < 0 || *d.ms > math.MaxInt64/int64(time.Millisecond):
				return api.Errorf(failure.Invalid, "%s_ms %d is not between 0 and %d", d.name, *d.ms, math.MaxInt64/int64(time.Millisecond))
			case *d.value != nil && **d.value != given:
				return api.Errorf(failure.Invalid, "%s and %[1]s_ms differ: give one of them", d.name)
			}
			*d.value = &given
		}
		switch {
		case *d.value == nil:
			continue
		case **d.value < 0:
			return api.Errorf(failure.Invalid, "%s must not be negative", d.name)
		}
		*d.to = time.Duration(**d.value)
	}
	if p.RetentionTrash != nil && *p.RetentionTrash == 0 {
		c.RetentionTrash = meta.NoTrash
	}
	return nil
}

// patchSync changes a sync policy. An interval without a policy implies sync by interval if the
// topic syncs always, since it would have no effect otherwise.
func patchSync(sync *meta.SyncPolicy, p api.ConfigPatch) {
	if p.Sync != nil {
		sync.Every = int(*p.Sync)
	}
	switch {
	case p.SyncInterval != nil:
		sync.Interval = time.Duration(*p.SyncInterval)
		if p.Sync == nil && sync.Every == int(api.SyncAlways) {
			sync.Every = int(api.SyncInterval)
		}
	case p.Sync != nil && *p.Sync == api.SyncInterval && sync.Interval == 0:
		sync.Interval = meta.DefaultSyncInterval
	}
	if sync.Every == int(api.SyncAlways) {
		sync.Interval = 0
	}
}

func assign[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}
