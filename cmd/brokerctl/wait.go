package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
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
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s  %s\n", g.env.now().Format(time.TimeOnly), text) // for whoever watches
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
func troubleLines(p *page, all []api.Trouble) {
	for _, t := range all {
		p.line("stuck: %s/%d: %s (%s)", t.Topic, t.Partition, t.What, list(t.Nodes))
	}
}
