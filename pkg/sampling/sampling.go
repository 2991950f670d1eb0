// Package sampling decides which messages of a topic are traced, by a rule in text form. It is
// stateless.
package sampling

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Bounds of a rule.
const (
	maxRule     = 4096    // bytes of its text
	maxNames    = 32      // ids and channels, each
	maxInterval = 1 << 30 // of "1/N"
)

// Rule selects the messages that are traced, and the channels in which they are. The
// zero Rule traces none.
type Rule struct {
	every    uint64       // one in n; 0: only those in ids
	ids      []seq.WireID // traced in any case
	channels []string     // the only ones whose deliveries are traced; empty: all
}

// ParseRule reads words with spaces between them: "off", "on" (all messages), "1/N" (one of
// N, always the same ones), "id:ID" (this message), and "channel:NAME" (deliveries in this
// channel alone). "" is off.
func ParseRule(text string) (Rule, error) {
	var r Rule
	if len(text) > maxRule {
		return r, fmt.Errorf("trace has %d bytes, limit is %d", len(text), maxRule)
	}
	words := strings.Fields(text)
	for _, word := range words {
		if word == "off" {
			if len(words) > 1 {
				return Rule{}, fmt.Errorf("trace %q: off cannot be combined", text)
			}
			return Rule{}, nil
		}
		if err := r.add(word); err != nil {
			return Rule{}, err
		}
	}
	switch {
	case len(r.ids) > maxNames || len(r.channels) > maxNames:
		return Rule{}, fmt.Errorf("trace names %d ids and %d channels, limit is %d each", len(r.ids), len(r.channels), maxNames)
	case len(r.channels) > 0 && !r.On():
		return Rule{}, fmt.Errorf("trace %q: a channel also needs on, 1/N or id:ID", text)
	}
	return r, nil
}

// add adds one word to the rule.
func (r *Rule) add(word string) error {
	kind, value, _ := strings.Cut(word, ":")
	switch {
	case word == "on":
		return r.setShare(1, word)
	case strings.HasPrefix(word, "1/"):
		n, err := strconv.ParseUint(word[2:], 10, 64)
		if err != nil || n < 1 || n > maxInterval {
			return fmt.Errorf("trace is %q, want 1/N with N from 1 to %d", word, maxInterval)
		}
		return r.setShare(n, word)
	case kind == "id":
		id, err := seq.ParseID([]byte(value))
		if err != nil {
			return fmt.Errorf("trace names %q, which is not a message id: it has 16 hexadecimal digits", value)
		}
		if !slices.Contains(r.ids, id) {
			r.ids = append(r.ids, id)
		}
		return nil
	case kind == "channel" && value != "":
		if !slices.Contains(r.channels, value) {
			r.channels = append(r.channels, value)
		}
		return nil
	}
	return fmt.Errorf("trace is %q, want off, on, 1/N, id:ID or channel:NAME", word)
}

func (r *Rule) setShare(every uint64, word string) error {
	if r.every != 0 {
		return fmt.Errorf("trace names %q besides another share: give either on or 1/N", word)
	}
	r.every = every
	return nil
}

// String returns the rule in the form of ParseRule; "": it traces none.
func (r Rule) String() string {
	var words []string
	switch r.every {
	case 0:
	case 1:
		words = append(words, "on")
	default:
		words = append(words, "1/"+strconv.FormatUint(r.every, 10))
	}
	for _, id := range r.ids {
		words = append(words, "id:"+id.String())
	}
	for _, c := range r.channels {
		words = append(words, "channel:"+c)
	}
	return strings.Join(words, " ")
}

// On reports whether the rule traces anything.
func (r Rule) On() bool { return r.every > 0 || len(r.ids) > 0 }

// All reports whether it traces every message.
func (r Rule) All() bool { return r.every == 1 }

// Has reports whether it traces a message, by its id at clients. All nodes agree.
func (r Rule) Has(id seq.WireID) bool {
	switch {
	case r.every == 1:
		return true
	case r.every > 1 && mix(uint64(id))%r.every == 0:
		return true
	}
	return slices.Contains(r.ids, id)
}

// HasChannel reports whether deliveries in a channel are traced.
func (r Rule) HasChannel(name string) bool {
	return len(r.channels) == 0 || slices.Contains(r.channels, name)
}

// mix spreads numbers that follow each other, as the finalizer of SplitMix64 does.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
