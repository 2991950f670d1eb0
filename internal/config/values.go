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

type textValue struct{ p *string }

func (v textValue) set(s string) error { *v.p = s; return nil }
func (v textValue) String() string     { return *v.p }
func (v textValue) typeName() string   { return "text" }

type choiceValue struct {
	p       *string
	allowed []string
}

func (v choiceValue) set(s string) error {
	if !slices.Contains(v.allowed, s) {
		return fmt.Errorf("must be one of %s", strings.Join(quoteEmpty(v.allowed), ", "))
	}
	*v.p = s
	return nil
}
func (v choiceValue) String() string   { return *v.p }
func (v choiceValue) typeName() string { return strings.Join(quoteEmpty(v.allowed), "|") }

func quoteEmpty(words []string) []string {
	out := slices.Clone(words)
	for i, w := range out {
		if w == "" {
			out[i] = `""`
		}
	}
	return out
}

type numberValue struct{ p *int }

func (v numberValue) set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil {
		return errors.New("is not an integer")
	}
	*v.p = n
	return nil
}
func (v numberValue) String() string   { return strconv.Itoa(*v.p) }
func (v numberValue) typeName() string { return "number" }

type boolValue struct{ p *bool }

func (v boolValue) set(s string) error {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("must be true or false")
	}
	*v.p = b
	return nil
}
func (v boolValue) String() string   { return strconv.FormatBool(*v.p) }
func (v boolValue) typeName() string { return "bool" }

type sizeValue struct{ p *units.Size }

func (v sizeValue) set(s string) error {
	n, err := units.ParseSize(s)
	if err != nil {
		return err
	}
	*v.p = n
	return nil
}
func (v sizeValue) String() string   { return v.p.String() }
func (v sizeValue) typeName() string { return "size" }

type durationValue struct{ p *time.Duration }

func (v durationValue) set(s string) error {
	d, err := units.ParseDuration(s)
	if err != nil {
		return err
	}
	*v.p = d
	return nil
}
func (v durationValue) String() string   { return units.FormatDuration(*v.p) }
func (v durationValue) typeName() string { return "duration" }

type syncValue struct{ p *Sync }

func (v syncValue) set(s string) error {
	switch s {
	case "always":
		v.p.Every = 1
		return nil
	case "interval":
		v.p.Every = 0
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return errors.New("must be always, interval or a number of messages")
	}
	v.p.Every = n
	return nil
}
func (v syncValue) String() string   { return v.p.String() }
func (v syncValue) typeName() string { return "always|interval|number" }

// listValue holds several words. Text sets them all, separated by commas.
type listValue struct{ p *[]string }

func (v listValue) set(s string) error {
	var words []string
	for word := range strings.SplitSeq(s, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	*v.p = words
	return nil
}
func (v listValue) String() string   { return strings.Join(*v.p, ",") }
func (v listValue) typeName() string { return "list" }

func (v textValue) native() any { return *v.p }

func (v choiceValue) native() any { return *v.p }

func (v numberValue) native() any { return *v.p }

func (v boolValue) native() any { return *v.p }

func (v sizeValue) native() any { return int64(*v.p) }

func (v durationValue) native() any { return int64(*v.p) }

func (v syncValue) native() any { return v.String() }

func (v listValue) native() any { return append([]string{}, *v.p...) }
