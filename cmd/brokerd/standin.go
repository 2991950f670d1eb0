package main

import (
	"errors"
	"flag"
	"io"
	"log/slog"
)

// standInArg is an option as it was given.
type standInArg struct {
	name, value string
	where       string
	flag        bool
}

// standInArgs are the arguments of the stand-in.
type standInArgs struct {
	options []standInOption
	flags   []standInArg
	file    []standInArg // of the configuration file, after it was read
	unknown []string     // keys of the file
}

// recorder is the flag of one option; it accepts any value.
type recorder struct {
	option standInOption
	into   *standInArgs
}

func (r *recorder) String() string { return "" }

func (r *recorder) Set(value string) error {
	r.into.flags = append(r.into.flags, standInArg{r.option.name, value, "flag --" + r.option.name, true})
	return nil
}

// IsBoolFlag makes the value of the option optional.
func (r *recorder) IsBoolFlag() bool { return r.option.bool }

// parseStandIn reads a command line with options of one dash or two.
func parseStandIn(name string, options []standInOption, args []string, out io.Writer) (*standInArgs, error) {
	given := &standInArgs{options: options}
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(out)
	for _, o := range options {
		usage := "same as in " + name
		if o.note != "" {
			usage = "ignored: " + o.note
		}
		set.Var(&recorder{o, given}, o.name, usage)
	}
	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil, silent{exitOK}
	}
	if err != nil {
		return nil, silent{exitUsage} // the flag set has printed it
	}
	return given, nil
}

func (a *standInArgs) has(name string) bool {
	for _, g := range a.flags {
		if g.name == name && g.value != "false" {
			return true
		}
	}
	return false
}

// last returns the effective value of an option on the command line, or "".
func (a *standInArgs) last(name string) string {
	value := ""
	for _, g := range a.flags {
		if g.name == name {
			value = g.value
		}
	}
	return value
}

// complain logs a warning for each option without effect, once.
func (a *standInArgs) complain(log *slog.Logger) {
	said := map[string]bool{}
	for _, g := range append(a.file, a.flags...) {
		for _, o := range a.options {
			if o.name == g.name && o.note != "" && !said[o.name] {
				said[o.name] = true
				log.Warn("option ignored", "option", o.name, "because", o.note)
			}
		}
	}
	for _, key := range a.unknown {
		log.Warn("unknown configuration file key ignored", "key", key)
	}
}
