package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/units"
)

// Sync says how many acknowledged messages may be unsynced: 1 is always, 0
// leaves it to the interval alone.
type Sync struct{ Every int }

// String returns the policy as the sync setting spells it.
func (s Sync) String() string {
	switch s.Every {
	case 0:
		return "interval"
	case 1:
		return "always"
	}
	return strconv.Itoa(s.Every)
}

// value is one setting's place in Options: text in, text out.
type value interface {
	// native returns the value as JSON shows it: durations in ns, sizes in bytes.
	native() any
	set(text string) error
	String() string
	typeName() string
}

// typed is a place for a T.
type typed[T any] struct {
	p     *T
	name  string // of the type
	parse func(string) (T, error)
	print func(T) string
	json  func(T) any // nil: unchanged
}

func (v typed[T]) set(text string) error {
	x, err := v.parse(text)
	if err == nil {
		*v.p = x
	}
	return err
}
func (v typed[T]) String() string   { return v.print(*v.p) }
func (v typed[T]) typeName() string { return v.name }

func (v typed[T]) native() any {
	if v.json == nil {
		return *v.p
	}
	return v.json(*v.p)
}

func same(s string) string { return s }

func textValue(p *string) value {
	return typed[string]{p: p, name: "text", parse: func(s string) (string, error) { return s, nil }, print: same}
}

func choiceValue(p *string, allowed ...string) value {
	words := slices.Clone(allowed)
	for i, w := range words {
		if w == "" {
			words[i] = `""`
		}
	}
	return typed[string]{p: p, name: strings.Join(words, "|"), print: same, parse: func(s string) (string, error) {
		if !slices.Contains(allowed, s) {
			return "", fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		return s, nil
	}}
}

func numberValue(p *int) value {
	return typed[int]{p: p, name: "number", print: strconv.Itoa, parse: func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return 0, errors.New("is not an integer")
		}
		return n, nil
	}}
}

func boolValue(p *bool) value {
	return typed[bool]{p: p, name: "bool", print: strconv.FormatBool, parse: func(s string) (bool, error) {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return false, errors.New("must be true or false")
		}
		return b, nil
	}}
}

func sizeValue(p *units.Size) value {
	return typed[units.Size]{p, "size", units.ParseSize, units.Size.String, func(n units.Size) any { return int64(n) }}
}

func durationValue(p *time.Duration) value {
	return typed[time.Duration]{p, "duration", units.ParseDuration, units.FormatDuration, func(d time.Duration) any { return int64(d) }}
}

func syncValue(p *Sync) value {
	return typed[Sync]{p, "always|interval|number", parseSync, Sync.String, func(v Sync) any { return v.String() }}
}

func parseSync(s string) (Sync, error) {
	switch s {
	case "always":
		return Sync{Every: 1}, nil
	case "interval":
		return Sync{}, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return Sync{}, errors.New("must be always, interval or a number of messages")
	}
	return Sync{Every: n}, nil
}

// listValue holds several words. Text sets them all, separated by commas.
func listValue(p *[]string) value {
	return typed[[]string]{
		p: p, name: "list", print: func(words []string) string { return strings.Join(words, ",") },
		parse: func(s string) (words []string, err error) {
			for word := range strings.SplitSeq(s, ",") {
				if word = strings.TrimSpace(word); word != "" {
					words = append(words, word)
				}
			}
			return words, nil
		},
		json: func(words []string) any { return append([]string{}, words...) },
	}
}
