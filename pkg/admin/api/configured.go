package api

import "slices"

// Settings returns what gives a channel its settings again, without defaults.
func (c *Channel) Settings() AlterChannel {
	p, own := &c.Policy, PolicyPatch{}
	pick(&own.MaxAttempts, p, "max_attempts", p.MaxAttempts)
	pick(&own.OnExhausted, p, "on_exhausted", p.OnExhausted)
	pick(&own.OnExpired, p, "on_expired", p.OnExpired)
	pick(&own.DeadLetterTopic, p, "dead_letter_topic", p.DeadLetterTopic)
	pick(&own.Backoff, p, "backoff", p.Backoff)
	pick(&own.Rate, p, "rate", p.Rate)
	s := AlterChannel{Order: &c.Order, Filter: &c.Filter}
	if len(p.Own) > 0 {
		s.Policy = &own
	}
	return s
}

// pick sets a field that is one of the channel's own settings.
func pick[T any](field **T, p *Policy, name string, value T) {
	if slices.Contains(p.Own, name) {
		*field = &value
	}
}

// Patch returns the patch that gives a topic its configuration again. Fields that were left open stay
// open.
func (c *Config) Patch() ConfigPatch {
	p := ConfigPatch{
		Partitions: &c.Partitions, Sync: &c.Sync, Ordered: &c.Ordered, Ext: &c.Ext, Retention: &c.Retention, RetentionBytes: &c.RetentionBytes,
		MaxMessageBytes: &c.MaxMessageBytes, KeyFrom: &c.KeyFrom, TTL: &c.TTL, MaxBytes: &c.MaxBytes, OnFull: &c.OnFull, Trace: &c.Trace,
		ChannelPolicy: c.ChannelPolicy,
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
	if !c.AutoRetentionTrash {
		p.RetentionTrash = &c.RetentionTrash
	}
	return p
}
