package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// completionTimeout bounds what a press of the tab key may take.
const completionTimeout = time.Second

// splitTarget reads T or T/C.
func splitTarget(text string) (topic, channel string, err error) {
	topic, channel, slash := strings.Cut(text, "/")
	if topic == "" || slash && channel == "" || strings.Contains(channel, "/") {
		return "", "", usageError("%q is neither TOPIC nor TOPIC/CHANNEL", text)
	}
	return topic, channel, nil
}

// missingOf returns the nodes that were missing for any of some objects.
func missingOf[T any](all []T, of func(T) []string) (missing []string) {
	for _, x := range all {
		missing = api.Union(missing, of(x))
	}
	return missing
}

// missing warns of nodes that lead partitions and have not answered.
func (p *page) missing(nodes []string) {
	if len(nodes) > 0 {
		p.line("")
		p.line("warning: no answer from %s: the partitions led there are missing in these numbers", list(nodes))
	}
}

// done is the answer of a command that changed something and has no more to say.
type done struct {
	Topic   string `json:"topic"`
	Channel string `json:"channel,omitempty"`
	Action  string `json:"action"` // such as deleted, paused
}

// reportDone shows that something was done.
func (g *globals) reportDone(cmd *cobra.Command, d done) error {
	kind, name := "topic", d.Topic
	if d.Channel != "" {
		kind, name = "channel", d.Topic+"/"+d.Channel
	}
	return g.show(cmd, view{
		object: d,
		names:  []string{name},
		text: func(p *page) {
			if !g.quiet {
				p.line("%s %s %s", kind, name, d.Action)
			}
		},
	})
}

// confirmation guards what cannot be undone.
type confirmation struct {
	yes bool
}

func (c *confirmation) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask: it cannot be undone")
}

// addYes adds --yes to what can be undone, with effort.
func (c *confirmation) addYes(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask")
}

// ask has the name typed, unless --yes was given. Where nobody is there to type
// it, it refuses.
func (c *confirmation) ask(cmd *cobra.Command, g *globals, what, name string) error {
	return c.askAfter(cmd, g, fmt.Sprintf("%s %s cannot be undone", what, name), name)
}

// askAfter has the name typed after a warning, unless --yes was given.
func (c *confirmation) askAfter(cmd *cobra.Command, g *globals, warning, name string) error {
	if c.yes {
		return nil
	}
	if !g.env.isTerminal {
		e := usageError("%s, and there is no terminal to ask at", warning)
		e.answer.Hint = "add --yes"
		return e
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s. Type the name to go on: ", warning) // the answer counts
	typed, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if strings.TrimSpace(typed) != name {
		f := usageError("that is not %q: nothing was changed", name)
		f.cause = err
		return f
	}
	return nil
}

type completer = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// completeNames completes a topic, and then, where withChannel says so, a
// channel of it, with names from the broker.
func completeNames(g *globals, withChannel bool) completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 1 || len(args) == 1 && !withChannel || g.connect() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		var names []string
		if len(args) == 1 {
			channels, _ := g.client.Channels(ctx, args[0]) // no names without a broker
			for _, c := range channels {
				names = append(names, c.Name)
			}
		} else {
			topics, _ := g.client.Topics(ctx) // no names without a broker
			for _, t := range topics {
				names = append(names, t.Name)
			}
		}
		return withPrefix(names, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTargets completes T and T/C.
func completeTargets(g *globals) completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || g.connect() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		topics, _ := g.client.Topics(ctx) // no names without a broker
		var names []string
		for _, t := range topics {
			names = append(names, t.Name)
			for _, c := range t.Channels {
				names = append(names, t.Name+"/"+c.Name)
			}
		}
		return withPrefix(names, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

func withPrefix(names []string, prefix string) []string {
	var out []string
	for _, n := range names {
		if strings.HasPrefix(n, prefix) {
			out = append(out, n)
		}
	}
	return out
}
