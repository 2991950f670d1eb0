package backups

import (
	"slices"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// channelSettings are the settings of a channel in a backup.
type channelSettings struct {
	Order  string           `json:"order"`
	Paused bool             `json:"paused"`
	Filter string           `json:"filter,omitempty"`
	Policy *api.PolicyPatch `json:"policy,omitempty"` // the channel's own settings
}

func settingsOf(c *api.Channel) channelSettings {
	s := channelSettings{Order: c.Order, Paused: c.Paused, Filter: c.Filter}
	p, own := &c.Policy, api.PolicyPatch{}
	pick(&own.MaxAttempts, p, "max_attempts", p.MaxAttempts)
	pick(&own.OnExhausted, p, "on_exhausted", p.OnExhausted)
	pick(&own.OnExpired, p, "on_expired", p.OnExpired)
	pick(&own.DeadLetterTopic, p, "dead_letter_topic", p.DeadLetterTopic)
	pick(&own.Backoff, p, "backoff", p.Backoff)
	pick(&own.Rate, p, "rate", p.Rate)
	if len(p.Own) > 0 {
		s.Policy = &own
	}
	return s
}

// pick sets a field that is one of the channel's own settings.
func pick[T any](field **T, p *api.Policy, name string, value T) {
	if slices.Contains(p.Own, name) {
		*field = &value
	}
}

// patchOf returns the patch that gives a topic its configuration again. Fields that were left open stay
// open.
func patchOf(c *api.Config) api.ConfigPatch {
	p := api.ConfigPatch{
		Partitions: &c.Partitions, Sync: &c.Sync, Ordered: &c.Ordered, Ext: &c.Ext, Retention: &c.Retention, RetentionBytes: &c.RetentionBytes,
		MaxMessageBytes: &c.MaxMessageBytes, KeyFrom: &c.KeyFrom, TTL: &c.TTL, RetentionTrash: &c.RetentionTrash, MaxBytes: &c.MaxBytes,
		OnFull: &c.OnFull, ChannelPolicy: c.ChannelPolicy,
	}
	if !c.AutoReplicas {
		p.Replicas = &c.Replicas
	}
	if !c.AutoMinISR {
		p.MinISR = &c.MinISR
	}
	if c.SyncInterval > 0 {
		p.SyncInterval = &c.SyncInterval
	}
	if c.DedupWindow > 0 {
		p.DedupWindow = &c.DedupWindow
	}
	if c.Trace != api.TraceOff {
		p.Trace = &c.Trace
	}
	return p
}
