package policy

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits of a Policy.
const (
	// maxAttemptsLimit is the largest MaxAttempts: attempts are not counted beyond.
	maxAttemptsLimit = 4000
	// maxBackoff is the longest delay of a Backoff.
	maxBackoff = 24 * time.Hour
	// MinBackoff is the shortest: deliveries are timed no finer than 25 ms.
	MinBackoff = 25 * time.Millisecond
	// maxRate is the largest Rate.
	maxRate = 10_000_000
)

// Unlimited is the MaxAttempts or the Rate of a level that chose to have no
// limit.
const Unlimited = -1

// ErrInvalid is wrapped by the errors of Validate and of the parsers.
var ErrInvalid = errors.New("invalid channel policy")

// Outcome is the treatment of a message that has used up its attempts, or has expired.
type Outcome string

// The outcomes.
const (
	DeadLetter Outcome = "dead-letter" // it goes to another topic, and is finished
	Drop       Outcome = "drop"        // it is finished
	Block      Outcome = "block"       // it stays, and is not delivered; an ordered channel waits with it
)

// Policy is the choice of one level. A zero field leaves the choice to the next level.
type Policy struct {
	MaxAttempts     int     `json:"max_attempts,omitempty"` // deliveries of one message, or Unlimited
	OnExhausted     Outcome `json:"on_exhausted,omitempty"`
	OnExpired       Outcome `json:"on_expired,omitempty"` // of an expired message: not Block
	DeadLetterTopic string  `json:"dead_letter_topic,omitempty"`
	Backoff         Backoff `json:"backoff,omitzero"`
	Rate            int     `json:"rate,omitempty"` // messages a second, or Unlimited
}

// Effective merges the choices of several levels: the channel's has precedence over
// the topic's, and the topic's over the cluster's. In the result, 0 is no limit and a
// zero Backoff is none. Without any choice nothing is limited, as in nsqd.
func Effective(levels ...Policy) Policy {
	var p Policy
	for _, l := range levels {
		p = Policy{
			MaxAttempts:     cmp.Or(p.MaxAttempts, l.MaxAttempts),
			OnExhausted:     cmp.Or(p.OnExhausted, l.OnExhausted),
			OnExpired:       cmp.Or(p.OnExpired, l.OnExpired),
			DeadLetterTopic: cmp.Or(p.DeadLetterTopic, l.DeadLetterTopic),
			Backoff:         cmp.Or(p.Backoff, l.Backoff),
			Rate:            cmp.Or(p.Rate, l.Rate),
		}
	}
	p.MaxAttempts, p.Rate = max(p.MaxAttempts, 0), max(p.Rate, 0)
	p.OnExhausted, p.OnExpired = cmp.Or(p.OnExhausted, DeadLetter), cmp.Or(p.OnExpired, Drop)
	if !p.Backoff.On() {
		p.Backoff = Backoff{}
	}
	return p
}

// Exhausts reports whether a message with this number of deliveries must not be
// delivered again. It is for an effective policy.
func (p Policy) Exhausts(attempts uint16) bool {
	return p.MaxAttempts > 0 && int(attempts) >= p.MaxAttempts
}

// HasDeadLetters reports whether messages may become dead letters. It is for an effective
// policy.
func (p Policy) HasDeadLetters() bool {
	return p.MaxAttempts > 0 && p.OnExhausted == DeadLetter || p.OnExpired == DeadLetter
}

// Validate returns an error that wraps ErrInvalid if the policy is invalid.
func (p Policy) Validate() error {
	switch {
	case p.MaxAttempts != Unlimited && (p.MaxAttempts < 0 || p.MaxAttempts > maxAttemptsLimit):
		return fmt.Errorf("%w: max attempts %d, want 1 to %d, or 0 for no limit", ErrInvalid, p.MaxAttempts, maxAttemptsLimit)
	case p.Rate != Unlimited && (p.Rate < 0 || p.Rate > maxRate):
		return fmt.Errorf("%w: rate %d/s, want 1 to %d, or 0 for no limit", ErrInvalid, p.Rate, maxRate)
	}
	if p.OnExhausted != "" {
		if _, err := ParseOutcome(string(p.OnExhausted)); err != nil {
			return err
		}
	}
	if p.OnExpired != "" {
		if _, err := ParseExpiry(string(p.OnExpired)); err != nil {
			return err
		}
	}
	return p.Backoff.validate()
}

// ParseExpiry parses an outcome of expired messages.
func ParseExpiry(text string) (Outcome, error) {
	if o := Outcome(text); o == DeadLetter || o == Drop {
		return o, nil
	}
	return "", fmt.Errorf("%w: on expired %q, want %s or %s", ErrInvalid, text, DeadLetter, Drop)
}

// ParseOutcome reads an outcome.
func ParseOutcome(text string) (Outcome, error) {
	switch o := Outcome(text); o {
	case DeadLetter, Drop, Block:
		return o, nil
	}
	return "", fmt.Errorf("%w: on exhausted %q, want %s, %s or %s", ErrInvalid, text, DeadLetter, Drop, Block)
}

// ParseRate reads a rate: "100/s" or "100"; "0" and "none" are Unlimited.
func ParseRate(text string) (int, error) {
	n, err := number(strings.TrimSuffix(text, "/s"))
	if err != nil || n > maxRate {
		return 0, fmt.Errorf("%w: rate %q, want a number of messages per second such as 100/s, at most %d, or none", ErrInvalid, text, maxRate)
	}
	return n, nil
}

// ParseMaxAttempts reads a number of attempts; "0" and "none" are Unlimited.
func ParseMaxAttempts(text string) (int, error) {
	n, err := number(text)
	if err != nil || n > maxAttemptsLimit {
		return 0, fmt.Errorf("%w: max attempts %q, want 1 to %d, or none", ErrInvalid, text, maxAttemptsLimit)
	}
	return n, nil
}

// number reads a number above zero, or Unlimited.
func number(text string) (int, error) {
	if text == "none" {
		return Unlimited, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err == nil && n == 0 {
		return Unlimited, nil
	}
	return int(n), err
}

// DeadLetterSuffix ends the default name of a dead-letter topic.
const DeadLetterSuffix = ".dlq"

// DeadLetters returns the topic for a channel's dead letters by an effective
// policy. Without a choice that is <topic>.<channel>.dlq, without the marks of
// ephemeral names.
func (p Policy) DeadLetters(topic, channel string) string {
	if p.DeadLetterTopic != "" {
		return p.DeadLetterTopic
	}
	return strings.TrimSuffix(topic, ephemeral) + "." + strings.TrimSuffix(channel, ephemeral) + DeadLetterSuffix
}

// ephemeral ends the names of topics and channels that are deleted with their
// last user.
const ephemeral = "#ephemeral"

// Patch changes a policy: a nil field changes nothing, and a zero value makes the
// field open again.
type Patch struct {
	MaxAttempts     *int     `json:"max_attempts,omitempty"`
	OnExhausted     *Outcome `json:"on_exhausted,omitempty"`
	OnExpired       *Outcome `json:"on_expired,omitempty"`
	DeadLetterTopic *string  `json:"dead_letter_topic,omitempty"`
	Backoff         *Backoff `json:"backoff,omitempty"`
	Rate            *int     `json:"rate,omitempty"`
}

// Exactly returns the patch with which every policy becomes p.
func Exactly(p Policy) Patch {
	return Patch{
		MaxAttempts: &p.MaxAttempts, OnExhausted: &p.OnExhausted, OnExpired: &p.OnExpired, DeadLetterTopic: &p.DeadLetterTopic, Backoff: &p.Backoff, Rate: &p.Rate,
	}
}

// Apply returns p with the patch's fields.
func (c Patch) Apply(p Policy) Policy {
	set(&p.MaxAttempts, c.MaxAttempts)
	set(&p.OnExhausted, c.OnExhausted)
	set(&p.OnExpired, c.OnExpired)
	set(&p.DeadLetterTopic, c.DeadLetterTopic)
	set(&p.Backoff, c.Backoff)
	set(&p.Rate, c.Rate)
	return p
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}
