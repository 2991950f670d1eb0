package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/units"
)

// Duration is a time.Duration encoded as a string such as "72h0m0s" in JSON and YAML. It accepts
// everything that units.ParseDuration accepts, and negative durations, because ages can be
// negative if clocks differ.
type Duration time.Duration

// String returns the duration as time.Duration prints it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the string form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the string form.
func (d *Duration) UnmarshalText(text []byte) error {
	magnitude, negative := strings.CutPrefix(string(text), "-")
	v, err := units.ParseDuration(magnitude)
	if err != nil {
		return fmt.Errorf("%q %w", text, err)
	}
	if *d = Duration(v); negative {
		*d = -*d
	}
	return nil
}

// Milliseconds returns a duration as a number for JSON. It rounds away from 0, so that only 0
// becomes 0.
func Milliseconds(d time.Duration) int64 {
	if d < 0 {
		return -Milliseconds(-d)
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// Sync is the time by which an acknowledged message is on disk. SyncAlways: before the
// acknowledgement. SyncInterval: within the configuration's sync interval. Any other N: after
// at most N messages or the interval, whichever is first. In JSON it is "always", "interval" or
// the number N.
type Sync int

// The policies that have a name.
const (
	SyncInterval Sync = 0
	SyncAlways   Sync = 1
)

// ParseSync reads "always", "interval" or a number above 1.
func ParseSync(text string) (Sync, error) {
	switch text {
	case "always":
		return SyncAlways, nil
	case "interval":
		return SyncInterval, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a sync policy: use always, interval or a number of messages", text)
	}
	return Sync(n), nil
}

// String returns "always", "interval" or the number.
func (s Sync) String() string {
	switch s {
	case SyncAlways:
		return "always"
	case SyncInterval:
		return "interval"
	}
	return strconv.Itoa(int(s))
}

// MarshalJSON writes a string for the named policies and a number otherwise.
func (s Sync) MarshalJSON() ([]byte, error) {
	if s == SyncAlways || s == SyncInterval {
		return json.Marshal(s.String())
	}
	return json.Marshal(int(s))
}

// UnmarshalJSON parses the output of MarshalJSON, and a number in a string.
func (s *Sync) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	if len(raw) > 0 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
	}
	v, err := ParseSync(text)
	if err != nil {
		return err
	}
	*s = v
	return nil
}
