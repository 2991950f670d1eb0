package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/units"
)

const (
	// waitEvery is the polling interval.
	waitEvery = time.Second
	// waitThrough is how many consecutive requests may fail, because the node in use may be the
	// one that stops.
	waitThrough = 15
)

// waitFor polls until done returns true, and prints the remaining work to standard error whenever
// it changes. It returns the last result.
func waitFor[T any](cmd *cobra.Command, g *globals, ask func(context.Context) (*T, error), left func(*T) (text string, done bool)) (*T, error) {
	ctx := cmd.Context()
	said, silent := "", 0
	for {
		v, err := query(ctx, g, ask)
		switch {
		case err != nil:
			if silent++; silent > waitThrough || api.CodeOf(err) != failure.Unavailable || ctx.Err() != nil {
				return nil, err
			}
		default:
			silent = 0
			text, done := left(v)
			if done {
				return v, nil
			}
			if text != said && !g.quiet {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s  %s\n", g.env.now().Format(time.TimeOnly), text)
			}
			said = text
		}
		if g.env.pause(ctx, waitEvery); ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// progress formats the remaining copying: 1.2 GiB at 50.0 MiB/s, 24s.
func progress(p api.Progress) string {
	if p.Bytes <= 0 {
		return ""
	}
	text := words.Size(p.Bytes) + " to copy"
	if p.BytesPerSecond > 0 {
		text += " at " + words.Size(p.BytesPerSecond) + "/s"
	}
	if p.TimeLeft > 0 {
		text += ", " + age(p.TimeLeft) + " left"
	}
	return text
}

// troubleLines formats what the controller cannot do.
func troubleLines(p *output.Page, all []api.Trouble) {
	for _, t := range all {
		p.Line("stuck: %s/%d: %s (%s)", t.Topic, t.Partition, t.What, list(t.Nodes))
	}
}

// defaultWatch is the default interval of --watch, and minWatch its minimum.
const (
	defaultWatch = 2 * time.Second
	minWatch     = 100 * time.Millisecond
)

// watchable are the names of the read-only commands, which --watch can repeat.
var watchable = []string{"list", "describe", "explain", "lag", "health", "info", "map", "raft", "peek", "get", "top", "log", "events", "deferred"}

// clearScreen moves to the upper left of a terminal and clears it.
const clearScreen = "\x1b[H\x1b[2J"

func (g *globals) addWatch(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	durationVarP(f, &g.watch, "watch", "w", "repeat a read-only command every `INTERVAL` (-w alone: 2s) until Ctrl-C")
	f.Lookup("watch").NoOptDefVal = units.FormatDuration(defaultWatch)
}

// makeWatchable makes every command below cmd obey --watch, or refuse it.
func (g *globals) makeWatchable(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		g.makeWatchable(c)
	}
	once := cmd.RunE
	if once == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case g.watch == 0:
			return once(cmd, args)
		case cmd.HasSubCommands() || !slices.Contains(watchable, cmd.Name()):
			return usageError("--watch repeats read-only commands only, and %s is not one", cmd.CommandPath())
		case g.watch < minWatch:
			return usageError("--watch must be at least %v", minWatch)
		}
		err := g.repeat(cmd, g.watch, func() error { return once(cmd, args) })
		if err == nil {
			return nil
		}
		return intervalApart(diagnose(cmd.Context(), err), args)
	}
}

// intervalApart returns the error of a command with -w, with another hint if an argument is an interval: -w takes one
// only with =, so it was taken for the name of an object.
func intervalApart(e *exitError, args []string) error {
	for _, a := range args {
		if _, err := units.ParseDuration(a); err == nil && (e.answer.Code == failure.Usage || e.answer.Code == failure.NotFound) {
			e.answer.Hint = "an interval is written with =: --watch=" + a
		}
	}
	return e
}

// repeat repeats a command until it is interrupted. It continues after a negative result, and
// while the cluster does not respond.
func (g *globals) repeat(cmd *cobra.Command, every time.Duration, once func() error) error {
	ctx := cmd.Context()
	for {
		if g.env.isScreen && (g.format == output.FormatTable || g.format == output.FormatWide) {
			if _, err := cmd.OutOrStdout().Write([]byte(clearScreen)); err != nil {
				return err
			}
		}
		err := once()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			f := diagnose(ctx, err)
			if !f.shown && f.answer.Code != failure.Unavailable {
				return err
			}
			if !f.shown {
				f.print(cmd.ErrOrStderr(), g.format)
			}
		}
		if g.env.pause(ctx, every); ctx.Err() != nil {
			return nil
		}
	}
}
