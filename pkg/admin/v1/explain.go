package v1

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/quota"
	"github.com/brokerd/brokerd/pkg/units"
)

// How long, and how often, a channel is observed until it makes progress.
const (
	explainFor   = time.Second
	explainMost  = 5 * time.Second // a channel that finished messages in the last minute
	explainEvery = 100 * time.Millisecond
)

// observation is what was seen of a channel.
type observation struct {
	before, now *api.Channel
	rates       flow.Rates    // of the last minute before it
	watched     time.Duration // between before and now
}

// explain reports what prevents a channel from making progress.
func (v channelsAPI) explain(r *http.Request, t *meta.Topic, channel string) (answer, error) {
	seen, err := v.untilItMoves(r.Context(), t, channel)
	if err != nil {
		return answer{}, err
	}
	return success(explained(new(v.topics.info(r.Context(), t)), seen, v.topics.broker.Journal().Events(0)))
}

// untilItMoves observes a channel until a message is finished, but at most for as long as patience says.
func (v channelsAPI) untilItMoves(ctx context.Context, t *meta.Topic, channel string) (observation, error) {
	c, rates := v.infoWithRates(ctx, t, channel)
	o := observation{before: &c, now: &c, rates: rates}
	ticker := time.NewTicker(explainEvery)
	defer ticker.Stop()
	for most := patience(rates); o.watched < most && unfinished(o.now) > 0 && !o.progressed(); o.watched += explainEvery {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return o, context.Cause(ctx)
		}
		o.now = new(v.info(ctx, t, channel))
	}
	return o, nil
}

// fewest is how many messages must have been expected, at the rate of the last minute, during a time in which
// none was finished, for that to mean that the channel has stopped.
const fewest = 3

// patience returns how long a channel is observed: until three messages are to be expected, within bounds.
func patience(r flow.Rates) time.Duration {
	if r.Out <= 0 {
		return explainFor
	}
	return max(explainFor, min(explainMost, interval(r, fewest)))
}

// interval returns the time in which n messages are finished at the rate of the last minute, which is not 0.
func interval(r flow.Rates, n int) time.Duration {
	return time.Duration(min(float64(n)/r.Out, flow.Long.Seconds()) * float64(time.Second))
}

// progressed reports whether a message was finished.
func (o observation) progressed() bool {
	return o.now.FinishedTotal > o.before.FinishedTotal || o.now.FilteredTotal > o.before.FilteredTotal
}

// moves reports whether the channel makes progress: messages were finished, or have been in the last minute,
// and so slowly that none was to be expected during the observation.
func (o observation) moves() bool {
	if o.progressed() {
		return true
	}
	if o.rates.Out <= 0 || o.watched >= interval(o.rates, fewest) {
		return false
	}
	held := longest(o.now.Consumers)
	return held.IsZero() || time.Since(held) < interval(o.rates, fewest*max(1, len(o.now.Consumers)))
}

// unfinished counts the messages of a channel that are not finished.
func unfinished(c *api.Channel) int64 { return c.Depth + c.InFlight + c.Deferred }

// heldBack reports whether messages of a topic wait before its channels, since it is paused.
func heldBack(t *api.Topic) bool { return t.Paused && t.Depth > 0 }

// explained returns the causes that delay the messages of a channel, from an observation and from the cluster's
// events.
func explained(t *api.Topic, o observation, events []*meta.Event) api.Explanation {
	now := o.now
	e := api.Explanation{
		Topic: t.Name, Channel: now.Name, Moving: o.moves() || unfinished(now) == 0 && !heldBack(t),
		Ready: now.Depth, InFlight: now.InFlight, Deferred: now.Deferred, OldestAgeMS: time.Duration(now.OldestAge).Milliseconds(),
		Consumers: len(now.Consumers), InPerS: rounded(o.rates.In), OutPerS: rounded(o.rates.Out),
		Causes: []api.Cause{}, MissingNodes: now.MissingNodes,
	}
	causes := diagnosis{observation: o, topic: t, events: events}
	causes.ofThePlace()
	causes.ofTheOperator()
	if unfinished(now) > 0 {
		causes.ofThePolicy()
		if causes.deferredAlone() {
			causes.allDeferred()
		}
		causes.ofTheConsumers()
		causes.ofTheRates()
		causes.ofTheMessages()
	}
	causes.ofTheQuota()
	causes.ofTheFilter()
	e.Causes = append(e.Causes, causes.found...)
	return e
}

// diagnosis collects causes.
type diagnosis struct {
	observation
	topic  *api.Topic
	events []*meta.Event // of the cluster, the oldest first
	found  []api.Cause
}

func (d *diagnosis) add(code api.CauseCode, count int64, do, what string, args ...any) {
	d.found = append(d.found, api.Cause{Code: code, What: fmt.Sprintf(what, args...), Do: do, Count: count})
}

// ofThePlace finds partitions without a leader.
func (d *diagnosis) ofThePlace() {
	var without, silent []string
	var offline, down time.Time
	for _, p := range d.topic.Partitions {
		switch {
		case p.Leader == "":
			without = append(without, strconv.Itoa(p.Partition))
			offline = earlier(offline, d.last(partitionOffline, fmt.Sprintf("%s/%d", d.topic.Name, p.Partition)))
		case slices.Contains(d.now.MissingNodes, p.Leader):
			silent = append(silent, fmt.Sprintf("%d (%s)", p.Partition, p.Leader))
			down = earlier(down, d.last(nodeDown, p.Leader))
		}
	}
	if len(without) > 0 {
		d.add(api.CauseNoLeader, int64(len(without)), "see brokerctl partition list --offline",
			"%d of %d partitions have no leader: %s", len(without), len(d.topic.Partitions), strings.Join(without, ", "))
		if d.since(offline); offline.IsZero() {
			d.waiting()
		}
	}
	if len(silent) > 0 {
		d.add(api.CauseNoLeader, int64(len(silent)), "see brokerctl cluster health",
			"the leaders of %d of %d partitions do not answer: %s", len(silent), len(d.topic.Partitions), strings.Join(silent, ", "))
		d.since(down)
	}
}

// The kinds of events that begin a cause, each with those that end it.
var (
	nodeDown         = []string{"node_down", "node_up", "node_draining", "node_started", "node_disk_outdated", "node_joined", "node_removed"}
	partitionOffline = []string{"partition_offline", "leader_elected", "leader_elected_unclean", "leader_yielded"}
	topicPaused      = []string{"topic_paused", "topic_resumed"}
	channelPaused    = []string{"channel_paused", "channel_resumed"}
)

// last returns when an event of the first kind last happened to an object; the zero time if that is not
// known, because one of the other kinds has happened since, or one that does not name all of its objects.
func (d *diagnosis) last(kinds []string, object string) time.Time {
	for _, e := range slices.Backward(d.events) {
		if !slices.Contains(kinds, e.Kind) {
			continue
		}
		named := slices.Contains(strings.Fields(e.Object), object)
		if named && e.Kind == kinds[0] {
			return time.Unix(0, e.At)
		}
		if named || strings.HasSuffix(e.Object, " more") {
			break
		}
	}
	return time.Time{}
}

// earlier returns the earlier of two times, of which one may be zero: not known.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// waiting sets that the last found cause delays messages since the oldest unfinished one was
// published or, if that is later, since the first of some consumers connected.
func (d *diagnosis) waiting(at ...api.Consumer) {
	age := time.Duration(d.now.OldestAge)
	if age <= 0 {
		return
	}
	since := time.Now().Add(-age)
	var connected time.Time
	for _, c := range at {
		connected = earlier(connected, c.ConnectedAt)
	}
	if connected.After(since) {
		since = connected
	}
	d.since(since)
}

// ofTheOperator finds channels and topics that an operator has paused.
func (d *diagnosis) ofTheOperator() {
	name := d.topic.Name + "/" + d.now.Name
	if d.now.Paused && unfinished(d.now) > 0 {
		d.add(api.CausePaused, d.now.Depth, "brokerctl channel resume "+name, "the channel is paused; %d messages wait", d.now.Depth)
		d.since(d.last(channelPaused, name))
	}
	if heldBack(d.topic) {
		d.add(api.CauseTopicPaused, d.topic.Depth, "brokerctl topic resume "+d.topic.Name,
			"the topic is paused; %d messages published since then have not reached its channels", d.topic.Depth)
		d.since(d.last(topicPaused, d.topic.Name))
	}
}

// ofTheQuota reports that the topic refuses publishes, and which of its channels keeps most of the messages. That
// delays none of them, but explains a channel that has nothing to deliver.
func (d *diagnosis) ofTheQuota() {
	t := d.topic
	if t.FullSince == nil || t.Config.MaxBytes == 0 || t.Config.OnFull == api.OnFullDrop {
		return
	}
	share := t.Config.MaxBytes / int64(max(1, len(t.Partitions)))
	var full []string
	for _, p := range t.Partitions {
		if quota.NearlyFull(p.Bytes, share, t.RefusedSize) {
			full = append(full, fmt.Sprintf("%d (%s)", p.Partition, units.Size(p.Bytes)))
		}
	}
	if len(full) == 0 { // they have room again
		return
	}
	do := ""
	if c := mostBehind(t.Channels); c != nil {
		name := t.Name + "/" + c.Name
		do = fmt.Sprintf("finish messages of %s, which has most of them, %d: brokerctl channel explain %s; or ", name, c.Depth+c.InFlight+c.Deferred, name)
	}
	refused, kept := "", ""
	if t.RefusedSize > 0 {
		refused = fmt.Sprintf(", the last one of %s", units.Size(t.RefusedSize))
	}
	if r := time.Duration(t.Config.Retention); r > 0 {
		kept = "; finished messages count, too, for its retention of " + units.FormatDuration(r)
		do += "shorten the retention, or "
	}
	d.add(api.CauseTopicFull, int64(len(full)), do+"brokerctl topic alter "+t.Name+" --max-bytes SIZE, or --on-full drop-oldest",
		"the topic refuses publishes%s: %d of %d partitions have reached their share, %s, of its max-bytes %s: %s%s",
		refused, len(full), len(t.Partitions), units.Size(share), units.Size(t.Config.MaxBytes), list(full), kept)
	d.since(*t.FullSince)
}

// mostBehind returns the channel with the most unfinished messages; nil: no channel has any.
func mostBehind(channels []api.ChannelSummary) *api.ChannelSummary {
	var most *api.ChannelSummary
	unfinished := int64(0)
	for i := range channels {
		c := &channels[i]
		if n := c.Depth + c.InFlight + c.Deferred; n > unfinished {
			most, unfinished = c, n
		}
	}
	return most
}

// ofTheFilter reports what the channel's filter skips. That delays nothing, but explains missing
// messages.
func (d *diagnosis) ofTheFilter() {
	name := d.topic.Name + "/" + d.now.Name
	switch {
	case d.now.FilterBroken:
		d.add(api.CauseFiltered, d.now.Depth, "brokerctl channel alter "+name+" --filter EXPR, or --filter '' for none",
			"a leader of the topic cannot compile the channel's filter, %s, and delivers nothing", d.now.Filter)
		d.waiting()
	case d.now.FilteredTotal > 0:
		failed := ""
		if d.now.FilterErrorsTotal > 0 {
			failed = fmt.Sprintf("; on %d of them its evaluation failed, for example because a field is missing", d.now.FilterErrorsTotal)
		}
		d.add(api.CauseFiltered, int64(d.now.FilteredTotal), "brokerctl message peek "+d.topic.Name+" --filter EXPR shows what a filter chooses", //nolint:gosec // a count
			"the channel's filter has skipped %d messages since the leaders started%s: %s", d.now.FilteredTotal, failed, cmp.Or(d.now.Filter, "(removed by now)"))
	}
}

// since sets from when on the last found cause delays messages.
func (d *diagnosis) since(at time.Time) {
	if !at.IsZero() {
		d.found[len(d.found)-1].Since = new(at.UTC())
	}
}

// ofThePolicy finds what the channel's policy delays.
func (d *diagnosis) ofThePolicy() {
	name, p := d.topic.Name+"/"+d.now.Name, &d.now.Policy
	var blocked []string
	for _, q := range d.now.Partitions {
		if q.Blocked != nil {
			blocked = append(blocked, fmt.Sprintf("%d/%d", q.Partition, *q.Blocked))
		}
	}
	switch {
	case len(blocked) > 0:
		behind := "they are not delivered"
		if d.now.Ordered {
			behind = "and block the messages behind them"
		}
		d.add(api.CauseExhausted, d.now.Exhausted, "brokerctl channel alter "+name+" --on-exhausted dead-letter, or raise --max-attempts",
			"%d messages have used up their %d attempts and block, %s; the first, partition/sequence: %s", d.now.Exhausted, p.MaxAttempts, behind, list(blocked))
	case d.now.Exhausted > 0:
		d.add(api.CauseExhausted, d.now.Exhausted, "see brokerctl cluster health: the dead-letter topic may refuse them",
			"%d messages have used up their %d attempts and wait to be moved to %s", d.now.Exhausted, p.MaxAttempts, p.DeadLetterTopic)
	case d.now.Expired > 0:
		d.add(api.CauseExhausted, d.now.Expired, "see brokerctl cluster health: the dead-letter topic may refuse them",
			"%d messages have expired and wait to be moved to %s", d.now.Expired, p.DeadLetterTopic)
	}
	if len(blocked) > 0 || d.now.Exhausted > 0 || d.now.Expired > 0 {
		d.waiting()
	}
	for _, q := range d.now.Partitions {
		if b := q.KeyBlocked; b != nil {
			what := "all ready messages of partition %d wait for earlier messages of the same key; of %d messages"
			if b.Full {
				what = "the channel does not read on in partition %d: messages wait for earlier messages of the same key; of %d, its maximum"
			}
			d.add(api.CauseKeyBlocked, int64(b.Waiting), keyAdvice(name, q.Partition, b), what+", the earlier ones included, most, %d, have key %q, whose sequence %d is %s",
				q.Partition, b.Tracked, b.Waiting, b.Key, b.Seq, strings.ReplaceAll(b.State, "_", " "))
			d.waiting()
		}
	}
	for _, q := range d.now.Partitions {
		if x := q.Suspects; x != nil {
			state := "is next"
			if x.InFlight {
				state = "is in flight"
			}
			d.add(api.CauseSuspects, int64(x.Count), fmt.Sprintf("see the message: brokerctl message peek %s --partition %d --from %d -n 1", d.topic.Name, q.Partition, x.Seq),
				"%d messages of partition %d have failed at least three times while their consumers had others too, and are delivered one at a time; the suspect, sequence %d, %s and has failed %d times alone",
				x.Count, q.Partition, x.Seq, state, x.Failed)
		}
	}
	if d.now.RateLimited {
		d.add(api.CauseRateLimited, d.now.Depth, "brokerctl channel alter "+name+" --rate N/s",
			"the channel delivers at most %d messages per second, and %d are waiting", p.Rate, d.now.Depth)
		d.waiting()
	}
	if d.now.BackingOff > 0 {
		d.add(api.CauseBackoff, d.now.BackingOff, "find out why consumers requeue these messages, or let them time out: see the consumers' logs",
			"%d failed messages wait for the channel's backoff of %s", d.now.BackingOff, p.Backoff)
		d.waiting()
	}
}

// keyAdvice returns a remedy for a key that blocks other messages.
func keyAdvice(name string, partition int, b *api.KeyBlock) string {
	switch b.State {
	case "in_flight":
		return "find out what the consumer of this message waits for"
	case "exhausted":
		return "brokerctl channel alter " + name + " --on-exhausted dead-letter, or raise --max-attempts"
	}
	return fmt.Sprintf("wait until it is delivered, or finish it: brokerctl channel skip %s --id %d/%d", name, partition, b.Seq)
}

// deferredAlone reports whether all messages are deferred, and not because consumers fail: nothing else matters until
// they are due.
func (d *diagnosis) deferredAlone() bool {
	failed := func(c api.Consumer) bool { return c.RequeuedTotal > 0 }
	return d.now.Depth+d.now.InFlight == 0 && d.now.Deferred > 0 && !slices.ContainsFunc(d.now.Consumers, failed)
}

func (d *diagnosis) allDeferred() {
	name := d.topic.Name + "/" + d.now.Name
	d.add(api.CauseDeferred, d.now.Deferred, "wait until they are due: brokerctl message deferred "+name+" shows when, brokerctl message advance "+name+" --all delivers them now",
		"all %d messages are deferred by their publisher or requeued with a delay", d.now.Deferred)
	d.waiting()
}

// ofTheMessages finds messages that are redelivered repeatedly, or are not due.
func (d *diagnosis) ofTheMessages() {
	var spinning []string
	for _, p := range d.now.Partitions {
		for _, m := range p.Spinning {
			spinning = append(spinning, fmt.Sprintf("%d/%d (%.0f a second)", p.Partition, m.Seq, m.PerSecond))
		}
	}
	if len(spinning) > 0 {
		d.add(api.CauseSpinning, int64(len(spinning)), "have the consumers requeue with a delay; brokerctl message peek shows the messages",
			"%d messages are requeued as soon as they are delivered, partition/sequence: %s", len(spinning), list(spinning))
		d.waiting()
	}
	if d.now.InFlight > 0 || d.now.Deferred == 0 {
		return
	}
	if d.now.Ordered && d.now.Depth > 0 && len(d.found) == 0 { // what else delays the channel may be all
		name := d.topic.Name + "/" + d.now.Name
		d.add(api.CauseDeferred, d.now.Deferred,
			"wait until it is due, or deliver it now: brokerctl message advance ID --channel "+d.now.Name+"; brokerctl message peek "+name+" --state deferred shows the id",
			"the channel delivers in order, and its next message is deferred or was requeued with a delay: %d ready messages wait for it", d.now.Depth)
		d.waiting()
	}
	if d.now.Depth == 0 && !d.deferredAlone() {
		d.allDeferred()
	}
}

// maxNamed is how many of a kind an explanation names.
const maxNamed = 3

// those names consumers.
func those(consumers []api.Consumer) string {
	names := make([]string, len(consumers))
	for i, c := range consumers {
		names[i] = nameOf(c)
	}
	return list(names)
}

// nameOf names a consumer.
func nameOf(c api.Consumer) string {
	if c.ClientID == "" {
		return c.Address
	}
	return fmt.Sprintf("%s (%s)", c.ClientID, c.Address)
}

// list names the first few.
func list(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}
