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
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/quota"
	"github.com/brokerd/brokerd/pkg/units"
)

// How long, and how often, a channel is observed until it makes progress.
const (
	explainFor   = time.Second
	explainEvery = 100 * time.Millisecond
)

// explain reports what prevents a channel from making progress.
func (v channelsAPI) explain(r *http.Request, t *meta.Topic, channel string) (answer, error) {
	before := v.info(r.Context(), t, channel)
	now, err := v.untilItMoves(r.Context(), t, before)
	if err != nil {
		return answer{}, err
	}
	return success(explained(new(v.topics.info(r.Context(), t)), &before, &now, v.topics.broker.Journal().Events(0)))
}

// untilItMoves returns the state of a channel once a message was finished, or after the maximum
// time.
func (v channelsAPI) untilItMoves(ctx context.Context, t *meta.Topic, c api.Channel) (api.Channel, error) {
	ticker := time.NewTicker(explainEvery)
	defer ticker.Stop()
	now := c
	for range int(explainFor / explainEvery) {
		if unfinished(&now) == 0 || now.FinishedTotal > c.FinishedTotal || now.FilteredTotal > c.FilteredTotal {
			break
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return now, context.Cause(ctx)
		}
		now = v.info(ctx, t, c.Name)
	}
	return now, nil
}

// unfinished counts the messages of a channel that are not finished.
func unfinished(c *api.Channel) int64 { return c.Depth + c.InFlight + c.Deferred }

// heldBack reports whether messages of a topic wait before its channels, since it is paused.
func heldBack(t *api.Topic) bool { return t.Paused && t.Depth > 0 }

// explained returns the causes that delay the messages of a channel, from two observations and from
// the cluster's events.
func explained(t *api.Topic, before, now *api.Channel, events []*meta.Event) api.Explanation {
	e := api.Explanation{
		Topic: t.Name, Channel: now.Name, Moving: now.FinishedTotal > before.FinishedTotal || now.FilteredTotal > before.FilteredTotal || unfinished(now) == 0 && !heldBack(t),
		Ready: now.Depth, InFlight: now.InFlight, Deferred: now.Deferred, OldestAgeMS: time.Duration(now.OldestAge).Milliseconds(),
		Consumers: len(now.Consumers), Causes: []api.Cause{}, MissingNodes: now.MissingNodes,
	}
	causes := diagnosis{topic: t, before: before, now: now, events: events}
	causes.ofThePlace()
	causes.ofTheOperator()
	if unfinished(now) > 0 {
		causes.ofThePolicy()
		if causes.deferredAlone() {
			causes.allDeferred()
		}
		causes.ofTheConsumers()
		causes.ofTheMessages()
	}
	causes.ofTheQuota()
	causes.ofTheFilter()
	e.Causes = append(e.Causes, causes.found...)
	return e
}

// diagnosis collects causes.
type diagnosis struct {
	topic       *api.Topic
	before, now *api.Channel
	events      []*meta.Event // of the cluster, the oldest first
	found       []api.Cause
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
	nodeDown         = []string{"node_down", "node_up", "node_draining", "node_started", "node_joined", "node_removed"}
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

// ofTheConsumers finds consumers that accept no messages, or do not finish them.
func (d *diagnosis) ofTheConsumers() {
	if len(d.now.Consumers) == 0 {
		d.noConsumer()
		return
	}
	var zero, backoff, full, silent, requeuing []api.Consumer
	held, timedOut := int64(0), d.now.TimedOutTotal-min(d.before.TimedOutTotal, d.now.TimedOutTotal)
	var late []api.Consumer
	for _, c := range d.now.Consumers {
		switch {
		case c.Ready > 0 && d.onlyRequeues(c):
			requeuing = append(requeuing, c)
		case c.InFlight > 0 && (d.now.Ordered || c.InFlight >= c.Ready):
			full = append(full, c)
			held += c.InFlight
		case c.Ready == 0 && c.RequeuedTotal > 0:
			backoff = append(backoff, c)
		case c.Ready == 0:
			zero = append(zero, c)
		case c.InFlight > 0 && d.answersNone(c):
			silent = append(silent, c)
		}
		if c.TimedOutTotal > 0 {
			late = append(late, c)
		}
	}
	of := len(d.now.Consumers)
	if len(backoff) > 0 {
		d.add(api.CauseBackoff, int64(len(backoff)), "find out why messages fail: see the consumers' logs",
			"%d of %d consumers request no messages (RDY 0) and have requeued some, as clients in backoff do: %s", len(backoff), of, those(backoff))
		d.waiting(backoff...)
	}
	if len(zero) > 0 {
		d.add(api.CauseReadyZero, int64(len(zero)), "have the consumers send RDY; more consumers than max_in_flight leave some with RDY 0",
			"%d of %d consumers request no messages (RDY 0): %s", len(zero), of, those(zero))
		d.waiting(zero...)
	}
	if len(requeuing) > 0 {
		d.requeued(requeuing)
	}
	if len(full) > 0 {
		d.held(full, held)
	}
	if len(silent) > 0 {
		d.unanswered(silent)
	}
	if len(late) > 0 {
		d.add(api.CauseSlowConsumer, int64(len(late)), "raise the message timeout, send TOUCH, or make the consumers faster",
			"messages time out at %d of %d consumers (%d during the observation): %s", len(late), of, timedOut, those(late))
		d.waiting(late...)
	}
}

// since sets from when on the last found cause delays messages.
func (d *diagnosis) since(at time.Time) {
	if !at.IsZero() {
		d.found[len(d.found)-1].Since = new(at.UTC())
	}
}

// noConsumer names the last consumer. If none is known, no consumer has been subscribed since the oldest
// message was published.
func (d *diagnosis) noConsumer() {
	const do, what = "start a consumer of the channel", "no consumer is subscribed"
	if at := d.now.LeftAt; at != nil {
		ago := units.FormatDuration(max(0, time.Since(*at)).Truncate(time.Second))
		d.add(api.CauseNoConsumer, unfinished(d.now), do, what+"; the last one, %s, left %s ago", d.now.LastConsumer, ago)
		d.since(*at)
		return
	}
	d.add(api.CauseNoConsumer, unfinished(d.now), do, what+", and none was since the leaders of the partitions took over")
	if age := time.Duration(d.now.OldestAge); age > 0 {
		d.since(time.Now().Add(-age))
	}
}

// longest returns since when the consumers have the message that one of them has had longest; the zero time
// if they have none.
func longest(consumers []api.Consumer) (since time.Time) {
	for _, c := range consumers {
		if c.Oldest != nil && (since.IsZero() || c.Oldest.Since.Before(since)) {
			since = c.Oldest.Since
		}
	}
	return since
}

// holding names consumers, each with the message that it has had longest.
func holding(consumers []api.Consumer) string {
	names := make([]string, len(consumers))
	for i, c := range consumers {
		if names[i] = nameOf(c); c.Oldest != nil {
			names[i] += fmt.Sprintf(" has %d/%d for %s", c.Oldest.Partition, c.Oldest.Seq, units.FormatDuration(max(0, time.Since(c.Oldest.Since)).Truncate(time.Second)))
		}
	}
	return list(names)
}

// held names the consumers that hold the messages in flight.
func (d *diagnosis) held(full []api.Consumer, messages int64) {
	what := "%d of %d consumers hold as many messages as their RDY allows, %d in all: %s"
	do := "raise RDY (max_in_flight), add consumers, or find out what the consumers wait for"
	if d.now.Ordered {
		what = "the channel delivers one message of a partition at a time, and %d of %d consumers have not finished theirs, %d in all: %s"
		do = "find out what these consumers wait for"
	}
	d.add(api.CauseInFlightHeld, messages, do, what, len(full), len(d.now.Consumers), messages, holding(full))
	d.since(longest(full))
}

// silentAfter is how long a consumer of a channel that makes progress must have been connected
// before it is reported as not answering.
const silentAfter = 10 * time.Second

// neverAnswered reports whether a consumer has finished and requeued nothing since it connected.
func neverAnswered(c api.Consumer) bool { return c.FinishedTotal+c.RequeuedTotal == 0 }

// answersNone reports whether a consumer that holds messages answers none of them: between the
// observations of a channel that makes no progress, or at all for one that does.
func (d *diagnosis) answersNone(c api.Consumer) bool {
	if d.now.FinishedTotal > d.before.FinishedTotal {
		return neverAnswered(c) && time.Since(c.ConnectedAt) >= silentAfter
	}
	return slices.ContainsFunc(d.before.Consumers, func(b api.Consumer) bool {
		return b.Address == c.Address && b.InFlight > 0 && b.FinishedTotal == c.FinishedTotal && b.RequeuedTotal == c.RequeuedTotal
	})
}

// onlyRequeues reports whether a consumer has requeued messages between the observations, while the channel made no
// progress. As it soon has others in their place, it may seem to hold as many as its RDY allows.
func (d *diagnosis) onlyRequeues(c api.Consumer) bool {
	return d.now.FinishedTotal <= d.before.FinishedTotal && slices.ContainsFunc(d.before.Consumers, func(b api.Consumer) bool {
		return b.Address == c.Address && b.RequeuedTotal < c.RequeuedTotal
	})
}

// requeued names the consumers that requeue what they receive.
func (d *diagnosis) requeued(by []api.Consumer) {
	n := int64(d.now.RequeuedTotal - min(d.before.RequeuedTotal, d.now.RequeuedTotal)) //nolint:gosec // a count
	d.add(api.CauseRequeued, n, "find out why messages fail: see the consumers' logs; brokerctl channel alter "+d.topic.Name+"/"+d.now.Name+
		" --max-attempts N makes those that fail each time dead letters",
		"%d of %d consumers requeue what they receive, and none finishes a message: %d requeued during the observation: %s", len(by), len(d.now.Consumers), n, those(by))
	d.waiting(by...)
}

// unanswered names the consumers that hold messages in flight and answer none of them, although
// RDY allows more.
func (d *diagnosis) unanswered(silent []api.Consumer) {
	held, since, names := int64(0), "since they connected", make([]string, len(silent))
	for i, c := range silent {
		held += c.InFlight
		names[i] = nameOf(c)
		if neverAnswered(c) {
			names[i] += ", connected for " + units.FormatDuration(time.Since(c.ConnectedAt).Truncate(time.Second))
		} else {
			since = "during the observation of " + units.FormatDuration(explainFor)
		}
	}
	of := fmt.Sprintf("%d of %d", held, d.now.InFlight)
	if held >= d.now.InFlight {
		of = fmt.Sprintf("all %d", held)
	}
	d.add(api.CauseInFlightHeld, held, "find out whether these consumers hang or do not read from their connections; end those that do: their messages are redelivered at once",
		"%d of %d consumers hold %s messages in flight and have answered none %s: %s", len(silent), len(d.now.Consumers), of, since, list(names))
	d.since(longest(silent))
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
