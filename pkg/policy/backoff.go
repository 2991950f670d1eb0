package policy

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/units"
)

// Backoff is the delay before a message is delivered again: it doubles with each attempt,
// from Min to Max. The zero value is no choice. Off is the choice to have no delay.
type Backoff struct{ Min, Max time.Duration }

// Off returns the Backoff of a level that chose to have no delay.
func Off() Backoff { return Backoff{Unlimited, Unlimited} }

// On reports whether there is a delay.
func (b Backoff) On() bool { return b.Min > 0 }

// Delay returns the delay after a number of attempts of a message. It is between Min and
// Max, and varies within a factor of two between messages that failed together. The
// variation depends only on the message's seed, so that equal calls return equal delays.
func (b Backoff) Delay(attempts uint16, seed uint64) time.Duration {
	if !b.On() {
		return 0
	}
	full := b.Max // of this attempt
	if n := int(attempts); n < bits.LeadingZeros64(uint64(b.Min))-1 {
		full = min(b.Max, b.Min<<n)
	}
	least := max(b.Min, full/2)
	return least + time.Duration(mix(seed+uint64(attempts))%uint64(full-least+1))
}

// mix spreads a number over all bits, by the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// ParseBackoff reads "1s..10m", a single duration, or "off".
func ParseBackoff(text string) (Backoff, error) {
	if text == "off" || text == "none" {
		return Off(), nil
	}
	low, high, both := strings.Cut(text, "..")
	if !both {
		high = low
	}
	var b Backoff
	var err error
	if b.Min, err = units.ParseDuration(low); err == nil {
		b.Max, err = units.ParseDuration(high)
	}
	if err != nil || b.Min == 0 {
		return Backoff{}, fmt.Errorf("%w: backoff %q, want a range such as 1s..10m, or off", ErrInvalid, text)
	}
	return b, b.validate()
}

func (b Backoff) validate() error {
	if b == (Backoff{}) || b == Off() {
		return nil
	}
	if b.Min < MinBackoff || b.Max < b.Min || b.Max > maxBackoff {
		return fmt.Errorf("%w: backoff %v, want delays from %v to %v, the shorter one first", ErrInvalid, b, MinBackoff, maxBackoff)
	}
	return nil
}

// String returns the backoff as ParseBackoff reads it; "" is no choice.
func (b Backoff) String() string {
	switch {
	case b == Backoff{}:
		return ""
	case !b.On():
		return "off"
	}
	return units.FormatDuration(b.Min) + ".." + units.FormatDuration(b.Max)
}

// MarshalText returns the backoff as String does.
func (b Backoff) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads the backoff as ParseBackoff does.
func (b *Backoff) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*b = Backoff{}
		return nil
	}
	parsed, err := ParseBackoff(string(text))
	if err == nil {
		*b = parsed
	}
	return err
}
