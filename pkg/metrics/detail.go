package metrics

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/stats"
)

// Limits of Detailed.
const (
	// maxDetails is the maximum number of series in an answer. Each takes about half a kilobyte while the
	// answer is made.
	maxDetails = 100_000
	// maxDetailing is the maximum number of answers that are made at a time; further requests are
	// refused and must be retried.
	maxDetailing = 2
	maxPattern   = 1000 // bytes, of a regular expression
)

// Question is what Detailed needs to know of a node.
type Question struct {
	Clients   bool // list the consumers of channels
	Followers bool // list the followers of partitions
}

// Detail is the answer to a Question. The caller may change it.
type Detail struct {
	Topics    []stats.Topic // those with partitions that this node leads
	Followers []operate.Follower
}

// detailFamily is one group of metrics of Detailed: some for each object of a kind.
type detailFamily interface {
	// ask adds to a question what the family needs.
	ask(q *Question)
	// objects returns the number of objects.
	objects(d *Detail) int
	// series returns the maximum number of series of an object.
	series() int
	// put exports them.
	put(s sink, d *Detail)
}

// detailFamilies are the families by the names with which a request selects them.
var detailFamilies = map[string]detailFamily{
	"topic":             detailOf[topicSum]{metrics: detailed(topicMetrics), each: eachTopic},
	"channel":           detailOf[channelSum]{metrics: detailed(channelMetrics), each: eachChannel},
	"partition":         detailOf[stats.Partition]{metrics: detailed(partitionMetrics), each: eachPartition},
	"channel_partition": detailOf[api.ChannelPartition]{metrics: detailed(placeMetrics), each: eachPlace},
	"replica":           detailOf[operate.Follower]{metrics: detailed(followerMetrics), each: eachFollower, of: Question{Followers: true}},
	"client":            detailOf[stats.Client]{metrics: detailed(clientMetrics), each: eachClient, of: Question{Clients: true}},
}

// detailed returns metrics for Detailed. Their names differ from those in a scrape, so that no sum
// counts an object twice if both are stored.
func detailed[T any](values []value[T]) []value[T] {
	out := slices.Clone(values)
	for i := range out {
		m := &out[i].metric
		*m = newMetric(m.kind, "brokerd_detailed_"+strings.TrimPrefix(m.name, "brokerd_"), m.help, m.labels)
	}
	return out
}

// partitionMetrics are of a partition that this node leads.
var partitionMetrics = []value[stats.Partition]{
	{gauge("brokerd_partition_log_start", "Sequence number of the first message in the partition's log.", "topic", "partition"), func(p *stats.Partition) float64 { return float64(p.LogStart) }},
	{gauge("brokerd_partition_committed_end", "Sequence number after the partition's last committed message.", "topic", "partition"), func(p *stats.Partition) float64 { return float64(p.CommittedEnd) }},
	{gauge("brokerd_partition_log_end", "Sequence number after the partition's last message.", "topic", "partition"), func(p *stats.Partition) float64 { return float64(p.LogEnd) }},
	{gauge("brokerd_partition_uncommitted_messages", "Messages in the partition's log that are not committed yet.", "topic", "partition"), func(p *stats.Partition) float64 { return max(0, float64(p.LogEnd)-float64(p.CommittedEnd)) }},
	{gauge("brokerd_partition_bytes", "Log size of the partition on the leader's disk.", "topic", "partition"), func(p *stats.Partition) float64 { return float64(p.Bytes) }},
	{gauge("brokerd_partition_leader_epoch", "Epoch of the partition's leader; it increases with each election.", "topic", "partition"), func(p *stats.Partition) float64 { return float64(p.Epoch) }},
}

// placeMetrics are of a channel in a partition that this node leads.
var placeMetrics = []value[api.ChannelPartition]{
	{gauge("brokerd_channel_partition_confirmed", "Sequence number below which the channel has finished every message of the partition.", "topic", "channel", "partition"), func(p *api.ChannelPartition) float64 { return float64(p.Confirmed) }},
	{gauge("brokerd_channel_partition_lag_messages", "Committed end of the partition minus the channel's confirmed position.", "topic", "channel", "partition"), func(p *api.ChannelPartition) float64 { return float64(p.Lag) }},
	{gauge("brokerd_channel_partition_blocked", "1 if a message that used up its attempts blocks the channel in the partition (on-exhausted block).", "topic", "channel", "partition"), func(p *api.ChannelPartition) float64 { return truth(p.Blocked != nil) }},
	{gauge("brokerd_channel_partition_spinning_messages", "Messages of the partition requeued immediately after delivery more than 100 times per second; at most ten.", "topic", "channel", "partition"), func(p *api.ChannelPartition) float64 { return float64(len(p.Spinning)) }},
	{gauge("brokerd_channel_partition_key_blocked_messages", "Messages waiting for the key for which most wait, in a channel ordered by key.", "topic", "channel", "partition"), func(p *api.ChannelPartition) float64 {
		if p.KeyBlocked == nil {
			return 0
		}
		return float64(p.KeyBlocked.Waiting)
	}},
}

// followerMetrics are of a follower of a partition that this node leads.
var followerMetrics = []value[operate.Follower]{
	{gauge("brokerd_replica_connected", "1 if the follower is connected to the leader.", "topic", "partition", "peer"), func(f *operate.Follower) float64 { return truth(f.Connected) }},
	{gauge("brokerd_replica_acked", "Sequence number below which the follower has stored every message of the partition.", "topic", "partition", "peer"), func(f *operate.Follower) float64 { return float64(f.Acked) }},
	{gauge("brokerd_replica_lag_messages", "Messages of the partition that the follower lacks.", "topic", "partition", "peer"), func(f *operate.Follower) float64 { return float64(f.Lag) }},
	{gauge("brokerd_replica_lag_bytes", "Bytes of the partition's log that the follower lacks, approximately.", "topic", "partition", "peer"), func(f *operate.Follower) float64 { return float64(f.LagBytes) }},
	{gauge("brokerd_replica_lag_seconds", "Time since the follower was last level with the leader; absent if it never was.", "topic", "partition", "peer"), func(f *operate.Follower) float64 {
		return unless(f.BehindFor < 0, float64(f.BehindForMS)/1000)
	}},
}

// clientMetrics are of a subscription.
var clientMetrics = []value[stats.Client]{
	{gauge("brokerd_client_ready_messages", "RDY count of the consumer.", clientLabels...), func(c *stats.Client) float64 { return float64(c.Ready) }},
	{gauge("brokerd_client_in_flight", "Messages delivered to the consumer and not yet finished, requeued or timed out, of partitions that this node leads.", clientLabels...), func(c *stats.Client) float64 { return float64(c.InFlight) }},
	{counter("brokerd_client_delivered_total", "Deliveries to the consumer from this node.", clientLabels...), func(c *stats.Client) float64 { return float64(c.DeliveredTotal) }},
	{counter("brokerd_client_finished_total", "Messages finished by the consumer.", clientLabels...), func(c *stats.Client) float64 { return float64(c.FinishedTotal) }},
	{counter("brokerd_client_requeued_total", "Messages requeued by the consumer.", clientLabels...), func(c *stats.Client) float64 { return float64(c.RequeuedTotal) }},
	{counter("brokerd_client_timed_out_total", "Deliveries to the consumer that timed out.", clientLabels...), func(c *stats.Client) float64 { return float64(c.TimedOutTotal) }},
}

var clientLabels = []string{"topic", "channel", "client", "client_id"}

// unless returns NaN for an object without the value.
func unless(without bool, v float64) float64 {
	if without {
		return math.NaN()
	}
	return v
}

// detailOf is the family of the metrics of a T.
type detailOf[T any] struct {
	metrics []value[T]
	each    func(d *Detail, yield func(of *T, labels ...string))
	of      Question
}

// ask implements detailFamily.
func (f detailOf[T]) ask(q *Question) {
	q.Clients = q.Clients || f.of.Clients
	q.Followers = q.Followers || f.of.Followers
}

// objects implements detailFamily.
func (f detailOf[T]) objects(d *Detail) (n int) {
	f.each(d, func(*T, ...string) { n++ })
	return n
}

// series implements detailFamily.
func (f detailOf[T]) series() int { return len(f.metrics) }

// put implements detailFamily. The labels of clients are their own words: what cannot be exported
// of them is replaced, and of two with the same labels one is exported.
func (f detailOf[T]) put(s sink, d *Detail) {
	done := map[string]bool{}
	f.each(d, func(of *T, labels ...string) {
		for i := range labels {
			labels[i] = strings.ToValidUTF8(labels[i], "\uFFFD")
		}
		if key := strings.Join(labels, "\x00"); !done[key] {
			done[key] = true
			putAll(s, f.metrics, of, labels...)
		}
	})
}

func eachTopic(d *Detail, yield func(*topicSum, ...string)) {
	for i := range d.Topics {
		sum := newTopicSum(d.Topics[i].Name)
		sum.add(&d.Topics[i])
		yield(sum, sum.name)
	}
}

func eachChannel(d *Detail, yield func(*channelSum, ...string)) {
	for i := range d.Topics {
		t := &d.Topics[i]
		for k := range t.Channels {
			sum := &channelSum{topic: t.Name, name: t.Channels[k].Name}
			sum.add(&t.Channels[k])
			yield(sum, sum.topic, sum.name)
		}
	}
}

func eachPartition(d *Detail, yield func(*stats.Partition, ...string)) {
	for i := range d.Topics {
		t := &d.Topics[i]
		for k := range t.Partitions {
			yield(&t.Partitions[k], t.Name, strconv.Itoa(t.Partitions[k].Partition))
		}
	}
}

func eachPlace(d *Detail, yield func(*api.ChannelPartition, ...string)) {
	for i := range d.Topics {
		t := &d.Topics[i]
		for k := range t.Channels {
			c := &t.Channels[k]
			for j := range c.Partitions {
				yield(&c.Partitions[j], t.Name, c.Name, strconv.Itoa(c.Partitions[j].Partition))
			}
		}
	}
}

func eachFollower(d *Detail, yield func(*operate.Follower, ...string)) {
	for i := range d.Followers {
		f := &d.Followers[i]
		yield(f, f.Topic, strconv.Itoa(f.Partition), f.Node)
	}
}

func eachClient(d *Detail, yield func(*stats.Client, ...string)) {
	for i := range d.Topics {
		t := &d.Topics[i]
		for k := range t.Channels {
			c := &t.Channels[k]
			for j := range c.Clients {
				yield(&c.Clients[j], t.Name, c.Name, c.Clients[j].Address, c.Clients[j].ClientID)
			}
		}
	}
}

// Detailed serves the metrics of single objects: of the families and topics that a request selects
// with its parameters family (names separated by commas) and topic (a regular expression for the
// whole name). A request that selects no family, or too many series, is answered with status 400
// and what to do. The answer is for people and for occasional scrapes: each request reads all
// selected objects. The handler is for a writer that does not wait for the client: only maxDetailing
// requests are answered at a time.
func (m *Metrics) Detailed() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case m.detailing <- struct{}{}:
			defer func() { <-m.detailing }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("%d requests for detailed metrics are being answered; retry in a moment", maxDetailing), http.StatusServiceUnavailable)
			return
		}
		selected, err := m.details(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		one := prometheus.NewRegistry()
		one.MustRegister(selected)
		promhttp.HandlerFor(one, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
}

// details is what one request selects.
type details struct {
	families []detailFamily
	detail   Detail
}

// details reads what the parameters of a request select.
func (m *Metrics) details(params url.Values) (*details, error) {
	var out details
	q, chosen := Question{}, func(string) bool { return true }
	if pattern := params.Get("topic"); pattern != "" {
		if len(pattern) > maxPattern {
			return nil, fmt.Errorf("topic: regular expression of %d bytes, must have at most %d", len(pattern), maxPattern)
		}
		if _, err := regexp.Compile(pattern); err != nil {
			return nil, fmt.Errorf("topic: %w", err)
		}
		whole, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
		if err != nil { // \Q without \E, for example
			return nil, fmt.Errorf("topic: %w", err)
		}
		chosen = whole.MatchString
	}
	known := slices.Sorted(maps.Keys(detailFamilies))
	for _, name := range slices.Compact(slices.Sorted(strings.SplitSeq(strings.Join(params["family"], ","), ","))) {
		f := detailFamilies[name]
		switch {
		case f != nil:
			out.families = append(out.families, f)
			f.ask(&q)
		case name != "":
			return nil, fmt.Errorf("family: %.40q is not one of %s", name, strings.Join(known, ", "))
		}
	}
	if len(out.families) == 0 {
		return nil, fmt.Errorf("parameter family is missing: one or more of %s, separated by commas", strings.Join(known, ", "))
	}
	if m.detail == nil {
		return nil, errors.New("no detailed metrics")
	}
	out.detail = m.detail(q)
	out.detail.Topics = slices.DeleteFunc(out.detail.Topics, func(t stats.Topic) bool { return !chosen(t.Name) })
	out.detail.Followers = slices.DeleteFunc(out.detail.Followers, func(f operate.Follower) bool { return !chosen(f.Topic) })
	objects, series := 0, 0
	for _, f := range out.families {
		n := f.objects(&out.detail)
		objects, series = objects+n, series+n*f.series()
	}
	if series > maxDetails {
		return nil, fmt.Errorf("%d objects with %d series match, over %d series: select fewer families, or topics with the parameter topic (a regular expression)", objects, series, maxDetails)
	}
	return &out, nil
}

// Describe implements prometheus.Collector. It describes nothing, because the metrics depend on
// the request.
func (*details) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (d *details) Collect(to chan<- prometheus.Metric) {
	for _, f := range d.families {
		f.put(to, &d.detail)
	}
}
