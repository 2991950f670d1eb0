package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// policyOptions are the policy flags of a channel. prefix precedes the names of the flags; with a
// prefix, they are the defaults of a topic's channels.
type policyOptions struct {
	prefix, maxAttempts, onExhausted, onExpired, deadLetterTopic, backoff, rate string
}

// inherit is the flag value that restores the setting of the topic or the cluster.
const inherit = "default"

func (o *policyOptions) addFlags(f *pflag.FlagSet, prefix string) {
	o.prefix = prefix
	f.StringVar(&o.maxAttempts, prefix+"max-attempts", "", "deliver a message `N` times at most (1 to 4000, none or default)")
	f.StringVar(&o.onExhausted, prefix+"on-exhausted", "", "`OUTCOME` for a message after its last attempt (dead-letter, drop, block or default)")
	f.StringVar(&o.onExpired, prefix+"on-expired", "", "`OUTCOME` for a message that has expired (dead-letter, drop or default)")
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
		{"on-exhausted", "on_exhausted", o.onExhausted, oneOf(&p.OnExhausted, "dead-letter", "drop", "block")},
		{"on-expired", "on_expired", o.onExpired, oneOf(&p.OnExpired, "dead-letter", "drop")},
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

// oneOf parses one of several words.
func oneOf(to **string, words ...string) func(string) error {
	return func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("must be %s or %s", strings.Join(words, ", "), inherit)
		}
		*to = &text
		return nil
	}
}

// numberInto parses a number with an optional unit; none is 0.
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

// filterExample is the end of the help text of a filter flag.
const filterExample = `, such as 'header.type == "order" && key != ""'`

// filterLong describes filters.
const filterLong = `A filter is an expression over header (an object, as
header.type), key, tag, partition, timestamp (compare with date("2026-11-25T10:00:00Z")), attempts and size (bytes
of the body), with ==, !=, <, <=, >, >=, &&, ||, !, in, contains, startsWith, endsWith, matches "REGEXP" and ??.
What cannot be evaluated, as where a field is missing, is not chosen.`

// filterVar adds the flag with which a command chooses messages.
func filterVar(f *pflag.FlagSet, p *string, what string) {
	f.StringVar(p, "filter", "", "only "+what+" that `EXPR` chooses"+filterExample)
}

// filterTable shows the filter of a channel, if it has or had one.
func filterTable(p *page, c *api.Channel) {
	if c.Filter == "" && c.FilteredTotal == 0 {
		return
	}
	t := newTable("FILTER", "LEFT OUT", "NOT EVALUATED")
	t.row(cmp.Or(c.Filter, "-"), count(c.FilteredTotal), count(c.FilterErrorsTotal))
	p.table(t)
	p.line("")
}

// policyTable shows the policy of a channel and its counters.
func policyTable(p *page, c *api.Channel) {
	t := newTable("MAX ATTEMPTS", "ON EXHAUSTED", "ON EXPIRED", "BACKOFF", "RATE", "EXHAUSTED", "BACKING OFF", "DEAD-LETTERED", "DROPPED", "+EXPIRED", "+DEAD-LETTER TOPIC", "+BACKED OFF")
	exhausted := c.Policy.OnExhausted
	if c.Policy.MaxAttempts == 0 {
		exhausted = "-"
	}
	t.row(numberOr(c.Policy.MaxAttempts, ""), exhausted, cmp.Or(c.Policy.OnExpired, "-"), c.Policy.Backoff, numberOr(c.Policy.Rate, "/s"),
		count(c.Exhausted), count(c.BackingOff), count(c.DeadLetteredTotal), count(c.DroppedTotal), count(c.Expired), c.Policy.DeadLetterTopic, count(c.BackedOffTotal))
	p.table(t)
}

// numberOr formats a number with its unit; 0: none.
func numberOr(n int, unit string) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n) + unit
}
