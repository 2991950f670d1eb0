package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/pkg/units"
)

// quantity is the value of a flag with a unit, a pflag.Value.
type quantity[T any] struct {
	p     *T
	parse func(string) (T, error)
	print func(T) string
	kind  string
}

func (m quantity[T]) Set(text string) error {
	v, err := m.parse(text)
	if err != nil {
		return fmt.Errorf("it %w", err)
	}
	*m.p = v
	return nil
}

func (m quantity[T]) String() string { return m.print(*m.p) }
func (m quantity[T]) Type() string   { return m.kind }

// durationVar adds a flag for a duration. The value of p is its default.
func durationVar(f *pflag.FlagSet, p *time.Duration, name, usage string) {
	durationVarP(f, p, name, "", usage)
}

// durationVarP adds one with a shorthand letter.
func durationVarP(f *pflag.FlagSet, p *time.Duration, name, letter, usage string) {
	f.VarP(quantity[time.Duration]{p, units.ParseDuration, units.FormatDuration, "duration"}, name, letter, usage)
	if *p == 0 {
		f.Lookup(name).DefValue = "" // do not print a default
	}
}

// sizeVar adds a flag for a size. The value of p is its default.
func sizeVar(f *pflag.FlagSet, p *units.Size, name, usage string) {
	f.Var(quantity[units.Size]{p, units.ParseSize, units.Size.String, "size"}, name, usage)
}

// countVar adds a flag for a count, which may be written as 10k or 2M. The value of p is its
// default.
func countVar(f *pflag.FlagSet, p *int64, name, usage string) {
	f.Var(quantity[int64]{p, units.ParseCount, func(n int64) string { return strconv.FormatInt(n, 10) }, "count"}, name, usage)
	if *p == 0 {
		f.Lookup(name).DefValue = "" // do not print a default
	}
}
