package api

import (
	"context"
	"net/http"
	"net/url"
)

// Lag is the lag of channels, by topic and name.
type Lag struct {
	Channels []ChannelLag `json:"channels"`
}

// ChannelLag is the lag of a channel over all its partitions, and its trend. Rates are in
// messages per second and exclude messages skipped or emptied by an operator.
type ChannelLag struct {
	Topic       string  `json:"topic"`
	Channel     string  `json:"channel"`
	Depth       int64   `json:"depth"`         // waiting: neither in flight nor deferred
	OldestAgeMS int64   `json:"oldest_age_ms"` // of the oldest unfinished message; 0: none
	InPerS      float64 `json:"in_per_s"`      // over the last minute
	OutPerS     float64 `json:"out_per_s"`     // finished, likewise
	InPerS15M   float64 `json:"in_per_s_15m"`  // over the last 15 minutes
	OutPerS15M  float64 `json:"out_per_s_15m"`
	// DrainsInMS estimates when no message will be waiting, from the outgoing minus the incoming
	// rate; null means never. If none waits, but the oldest in flight is unfinished for more than
	// 10 s, it is when those in flight will be finished, from the outgoing rate.
	DrainsInMS *int64 `json:"drains_in_ms"`
	InFlight   int64  `json:"in_flight"`
	Deferred   int64  `json:"deferred"`
	Paused     bool   `json:"paused"`
	// MissingNodes lead partitions but did not answer, and OfflinePartitions have no leader;
	// the figures do not include either.
	MissingNodes      []string `json:"missing_nodes,omitempty"`
	OfflinePartitions int      `json:"offline_partitions,omitempty"`
}

// TopicConsumer is a consumer of a channel.
type TopicConsumer struct {
	Topic   string `json:"topic"`
	Channel string `json:"channel"`
	Consumer
}

// ConsumerList is every consumer of the cluster, by topic, channel and address.
type ConsumerList struct {
	Consumers    []TopicConsumer `json:"consumers"`
	MissingNodes []string        `json:"missing_nodes,omitempty"`
}

// Insights are the read-only requests about the cluster.
type Insights struct{ t *transport }

// Lag returns the lag of all channels of a topic, of one channel, or of all topics if topic is
// "".
func (o Insights) Lag(ctx context.Context, topic, channel string) (*Lag, error) {
	q := url.Values{}
	if topic != "" {
		q.Set("topic", topic)
	}
	if channel != "" {
		q.Set("channel", channel)
	}
	return find[Lag](ctx, o.t, path("lag"), q)
}

// Consumers returns the consumers of all channels.
func (o Insights) Consumers(ctx context.Context) (*ConsumerList, error) {
	return into[ConsumerList](ctx, o.t, path("consumers"))
}

// TryAlterTopic returns the topic that AlterTopic would leave, without counts, or the error with which it would be
// refused.
func (o Insights) TryAlterTopic(ctx context.Context, name string, patch ConfigPatch) (*Topic, error) {
	out := new(Topic)
	return out, o.t.send(ctx, http.MethodPatch, path("topics", name)+"?dry_run=true", patch, out)
}

// TryAddPartitions returns the topic that AddPartitions would leave, likewise.
func (o Insights) TryAddPartitions(ctx context.Context, name string, total int) (*Topic, error) {
	return post[Topic](ctx, o.t, path("topics", name, "partitions"), AddPartitions{Partitions: total, DryRun: true})
}
