package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/pkg/units"
)

// measure is the value of a flag in a unit, a pflag.Value.
type measure[T any] struct {
	p     *T
	parse func(string) (T, error)
	print func(T) string
	kind  string
}

func (m measure[T]) Set(text string) error {
	v, err := m.parse(text)
	if err != nil {
		return fmt.Errorf("it %w", err)
	}
	*m.p = v
	return nil
}

func (m measure[T]) String() string { return m.print(*m.p) }
func (m measure[T]) Type() string   { return m.kind }

// durationVar adds a flag for a duration. What p points at is its default.
func durationVar(f *pflag.FlagSet, p *time.Duration, name, usage string) {
	durationVarP(f, p, name, "", usage)
}

// durationVarP adds one that has a letter, too.
func durationVarP(f *pflag.FlagSet, p *time.Duration, name, letter, usage string) {
	f.VarP(measure[time.Duration]{p, units.ParseDuration, units.FormatDuration, "duration"}, name, letter, usage)
	if *p == 0 {
		f.Lookup(name).DefValue = "" // none is shown
	}
}

// sizeVar adds a flag for a size. What p points at is its default.
func sizeVar(f *pflag.FlagSet, p *units.Size, name, usage string) {
	f.Var(measure[units.Size]{p, units.ParseSize, units.Size.String, "size"}, name, usage)
}

// countVar adds a flag for a number of things, which may be written as 10k or 2M. What p points at is
// its default.
func countVar(f *pflag.FlagSet, p *int64, name, usage string) {
	f.Var(measure[int64]{p, units.ParseCount, func(n int64) string { return strconv.FormatInt(n, 10) }, "count"}, name, usage)
	if *p == 0 {
		f.Lookup(name).DefValue = "" // none is shown
	}
}
