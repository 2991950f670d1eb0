package v1

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/units"
)

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
		case c.InFlight > 0 && (d.now.Ordered || c.InFlight >= c.Ready) && d.holds(c):
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
	do := "find out what the consumers wait for: see their logs; if each message takes them that long, add consumers or raise RDY (max_in_flight)"
	if d.now.Ordered {
		what = "the channel delivers one message of a partition at a time, and %d of %d consumers have not finished theirs, %d in all: %s"
		do = "find out what these consumers wait for"
	}
	d.add(api.CauseInFlightHeld, messages, do, what, len(full), len(d.now.Consumers), messages, holding(full))
	d.since(longest(full))
}

// holds reports whether a consumer that has all messages that it may have keeps them too long: any while the channel
// makes no progress, and otherwise if it has one for much longer than the consumers take for theirs.
func (d *diagnosis) holds(c api.Consumer) bool {
	if !d.moves() {
		return true
	}
	if c.Oldest == nil {
		return false
	}
	long := silentAfter
	if d.rates.Out > 0 {
		long = max(long, interval(d.rates, fewest*int(max(1, d.now.InFlight))))
	}
	return time.Since(c.Oldest.Since) >= long
}

// soon is how long a channel may take until none of its messages waits before that is reported.
const soon = time.Minute

// ofTheRates compares the messages that come with those that are finished, while consumers make progress: too few of
// them, or too slow ones, delay messages without any fault.
func (d *diagnosis) ofTheRates() {
	r, n := d.rates, len(d.now.Consumers)
	if !d.moves() || r.Out <= 0 || n == 0 || d.now.Depth == 0 || d.now.RateLimited {
		return
	}
	rates := fmt.Sprintf("%s/s in, %s/s out by %s, %d messages wait", perSecond(r.In), perSecond(r.Out), words.CountOf(n, "consumer"), d.now.Depth)
	drains, ever := r.DrainsIn(d.now.Depth, d.now.InFlight, time.Duration(d.now.OldestAge))
	switch more := int(math.Ceil((r.In/r.Out - 1) * float64(n))); {
	case !ever && more > 0:
		d.add(api.CauseSlowConsumer, d.now.Depth, "add consumers, make them faster, or have them process more messages at a time: raise RDY (max_in_flight)",
			"%s: about %s like these would keep up", rates, words.CountOf(more, "more consumer"))
		d.waiting()
	case ever && drains > soon:
		d.add(api.CauseSlowConsumer, d.now.Depth, "wait, or add consumers", "%s: none will wait in about %s", rates, units.FormatDuration(drains.Round(time.Second)))
		d.waiting()
	}
}

// perSecond formats a rate with two digits, and large ones without a fraction.
func perSecond(rate float64) string {
	if rate >= 10 {
		return strconv.FormatFloat(math.Round(rate), 'f', 0, 64)
	}
	return strconv.FormatFloat(rate, 'g', 2, 64)
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
			since = "during the observation of " + units.FormatDuration(d.watched)
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
