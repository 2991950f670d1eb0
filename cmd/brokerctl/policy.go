package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// policyOptions are how a channel treats messages that fail. prefix stands before the
// names of the flags, which are for all channels of a topic with one.
type policyOptions struct {
	prefix, maxAttempts, onExhausted, deadLetterTopic, backoff, rate string
}

// inherit is the value of a flag that leaves the choice to the topic or the cluster again.
const inherit = "default"

func (o *policyOptions) addFlags(f *pflag.FlagSet, prefix string) {
	o.prefix = prefix
	f.StringVar(&o.maxAttempts, prefix+"max-attempts", "", "deliver a message `N` times at most (1 to 4000, none or default)")
	f.StringVar(&o.onExhausted, prefix+"on-exhausted", "", "`OUTCOME` for a message after its last attempt (dead-letter, drop, block or default)")
	f.StringVar(&o.deadLetterTopic, prefix+"dead-letter-topic", "", "`TOPIC` for dead letters; by default <topic>.<channel>.dlq")
	f.StringVar(&o.backoff, prefix+"backoff", "", "`DELAY` before a redelivery, doubled with each attempt, such as 1s..10m (off or default)")
	f.StringVar(&o.rate, prefix+"rate", "", "deliver at most `N/s` messages a second over all nodes (none or default)")
}

// patch returns the settings that were given; nil: none.
func (o *policyOptions) patch(f *pflag.FlagSet) (*api.PolicyPatch, error) {
	var p api.PolicyPatch
	given := false
	for _, x := range []struct {
		flag, field, value string
		set                func(string) error
	}{
		{"max-attempts", "max_attempts", o.maxAttempts, numberInto(&p.MaxAttempts, "")},
		{"on-exhausted", "on_exhausted", o.onExhausted, textInto(&p.OnExhausted)},
		{"dead-letter-topic", "dead_letter_topic", o.deadLetterTopic, textInto(&p.DeadLetterTopic)},
		{"backoff", "backoff", o.backoff, textInto(&p.Backoff)},
		{"rate", "rate", o.rate, numberInto(&p.Rate, "/s")},
	} {
		if !f.Changed(o.prefix + x.flag) {
			continue
		}
		given = true
		if x.value == inherit {
			p.Reset = append(p.Reset, x.field)
		} else if err := x.set(x.value); err != nil {
			return nil, usageError("--%s%s %q: %w", o.prefix, x.flag, x.value, err)
		}
	}
	if !given {
		return nil, nil
	}
	return &p, nil
}

func textInto(to **string) func(string) error {
	return func(text string) error {
		*to = &text
		return nil
	}
}

// numberInto reads a number, perhaps with a unit behind it; none is 0.
func numberInto(to **int, unit string) func(string) error {
	return func(text string) error {
		n := 0
		if text != "none" {
			parsed, err := strconv.ParseUint(strings.TrimSuffix(text, unit), 10, 31)
			if err != nil {
				return errNumber
			}
			n = int(parsed)
		}
		*to = &n
		return nil
	}
}

var errNumber = errors.New("must be a whole number, none or default")

// policyTable shows the policy of a channel, and what has become of messages by it.
func policyTable(p *page, c *api.Channel) {
	t := newTable("MAX ATTEMPTS", "ON EXHAUSTED", "BACKOFF", "RATE", "EXHAUSTED", "BACKING OFF", "DEAD-LETTERED", "DROPPED", "+DEAD-LETTER TOPIC", "+BACKED OFF")
	exhausted := c.Policy.OnExhausted
	if c.Policy.MaxAttempts == 0 {
		exhausted = "-"
	}
	t.row(numberOr(c.Policy.MaxAttempts, "", "none"), exhausted, c.Policy.Backoff, numberOr(c.Policy.Rate, "/s", "none"),
		count(c.Exhausted), count(c.BackingOff), count(c.DeadLetteredTotal), count(c.DroppedTotal), c.Policy.DeadLetterTopic, count(c.BackedOffTotal))
	p.table(t)
}

func numberOr(n int, unit, none string) string {
	if n == 0 {
		return none
	}
	return strconv.Itoa(n) + unit
}
