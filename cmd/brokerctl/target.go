package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// completionTimeout limits the time of a completion.
const completionTimeout = time.Second

// form is the kind of object that a command acts on, as in its usage. The topic may be a separate
// argument instead of the part before the slash.
type form string

const (
	topicForm     form = "TOPIC"
	anyTopicForm  form = "[TOPIC]"
	channelForm   form = "TOPIC/CHANNEL"
	eitherForm    form = "TOPIC[/CHANNEL]"
	anyForm       form = "[TOPIC[/CHANNEL]]"
	partitionForm form = "TOPIC/PARTITION"
)

// target is the object of a command: a topic, a channel or a partition.
type target struct {
	text      string
	topic     string
	channel   string // "": none
	partition int
	unsaved   *[]int // partitions in which the position of the channel that was deleted is not saved
}

// String returns the target as one word.
func (t target) String() string { return t.text }

func (t target) describe(g *globals) func(context.Context) (*api.PartitionDetail, error) {
	return func(ctx context.Context) (*api.PartitionDetail, error) {
		return g.client.Partition(ctx, t.topic, t.partition)
	}
}

// acting makes cmd act on the object named by the second word of its Use.
func acting(g *globals, cmd *cobra.Command, run func(cmd *cobra.Command, at target) error) *cobra.Command {
	f := form(strings.Fields(cmd.Use)[1])
	cmd.ValidArgsFunction = f.complete(g)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := f.parse(cmd, args)
		if err != nil {
			return err
		}
		return run(cmd, at)
	}
	return cmd
}

// parse parses a target from all arguments of a command.
func (f form) parse(cmd *cobra.Command, args []string) (target, error) {
	text := strings.Join(args, "/")
	topic, rest, slash := strings.Cut(text, "/")
	at := target{text: text, topic: topic}
	var fits bool
	switch f {
	case topicForm, anyTopicForm:
		fits = !slash
	case partitionForm:
		n, err := strconv.ParseUint(rest, 10, 31)
		at.partition, fits = int(n), err == nil
	default:
		at.channel = rest
		fits = !strings.Contains(rest, "/") && (rest != "" || (f == eitherForm || f == anyForm) && !slash)
	}
	if fits && (topic != "" || (f == anyTopicForm || f == anyForm) && len(args) == 0) {
		return at, nil
	}
	e := usageError("%s requires %s", cmd.CommandPath(), f)
	if len(args) > 0 {
		e = usageError("%s requires %s, not %q", cmd.CommandPath(), f, strings.Join(args, " "))
	}
	e.answer.Hint = "usage: " + cmd.UseLine()
	return at, e
}

// missingNote prints a warning about nodes that lead partitions and did not respond.
func missingNote(p *output.Page, nodes []string) {
	if len(nodes) > 0 {
		p.Line("\nwarning: no answer from %s: partitions led there are not included", list(nodes))
	}
}

// change performs a change whose only result is the action.
func (g *globals) change(cmd *cobra.Command, at *target, action string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	if err := do(ctx); err != nil {
		return err
	}
	d := struct {
		Topic   string `json:"topic"`
		Channel string `json:"channel,omitempty"`
		Action  string `json:"action"` // such as deleted, paused
		Unsaved *[]int `json:"unsaved,omitempty"`
	}{at.topic, at.channel, action, at.unsaved}
	kind, name := "topic", d.Topic
	if d.Channel != "" {
		kind, name = "channel", d.Topic+"/"+d.Channel
	}
	return g.show(cmd, output.View{Object: d, Names: []string{name}, Text: func(p *output.Page) {
		if !g.quiet {
			p.Line("%s %s %s", kind, name, d.Action)
		}
	}})
}

// changing makes cmd perform a change whose only result is the action.
func (g *globals) changing(cmd *cobra.Command, action string, do func(context.Context, *target) error) *cobra.Command {
	return acting(g, cmd, func(cmd *cobra.Command, at target) error {
		return g.change(cmd, &at, action, func(ctx context.Context) error { return do(ctx, &at) })
	})
}

// confirming makes a command of changing ask for confirmation first, after a warning.
func (g *globals) confirming(warning func(target) string, cmd *cobra.Command) *cobra.Command {
	dry := addTry(cmd)
	change := cmd.RunE
	return acting(g, cmd, func(cmd *cobra.Command, at target) error {
		if *dry {
			return g.try(cmd, at, warning(at))
		}
		if err := confirmAfter(cmd, g, warning(at), cmp.Or(at.channel, at.topic)); err != nil {
			return err
		}
		return change(cmd, []string{at.text})
	})
}

// addTry adds --dry-run for try.
func addTry(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("dry-run", false, "show what it is of without changing anything")
}

// planVar adds --dry-run of a change that the cluster can plan.
func planVar(cmd *cobra.Command, dry *bool) {
	cmd.Flags().BoolVar(dry, "dry-run", false, "check whether it is possible, and show the result, without changing anything")
}

// withDryRun adds that nothing was changed, if that is so.
func withDryRun(v output.View, is bool) output.View {
	if !is {
		return v
	}
	return v.Then(func(p *output.Page) { p.Line("dry run: nothing was changed") })
}

// try shows what a command, empty or delete, would be of, if the cluster permits it.
func (g *globals) try(cmd *cobra.Command, at target, warning string) error {
	said := func(p *output.Page) { p.Line("dry run: %s", warning) }
	if at.channel == "" {
		ask := func(ctx context.Context) (*api.Topic, error) {
			return g.client.Trash.TryTopic(ctx, cmd.Name(), at.topic)
		}
		return answer(cmd, g, ask, func(t *api.Topic) output.View { return topicDetails(t).Then(said) })
	}
	ask := func(ctx context.Context) (*api.Channel, error) {
		return g.client.Trash.TryChannel(ctx, cmd.Name(), at.topic, at.channel)
	}
	return answer(cmd, g, ask, func(c *api.Channel) output.View { return channelView(c).Then(said) })
}

// confirm asks for the name as confirmation of what cannot be undone, unless --yes was given. It
// refuses if stdin is not a terminal.
func confirm(cmd *cobra.Command, g *globals, what, name string) error {
	return confirmAfter(cmd, g, fmt.Sprintf("%s %s cannot be undone", what, name), name)
}

// confirmAfter asks for the name after a warning, unless --yes was given.
func confirmAfter(cmd *cobra.Command, g *globals, warning, name string) error {
	if g.yes {
		return nil
	}
	if !g.env.isTerminal {
		e := usageError("%s; confirmation required, but standard input is not a terminal", warning)
		e.answer.Hint = "add --yes"
		return e
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s. Type the name to confirm: ", warning) // the answer decides
	typed, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if strings.TrimSpace(typed) != name {
		f := usageError("confirmation does not match %q: nothing was changed", name)
		f.cause = err
		return f
	}
	return nil
}

type completer = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// complete completes targets of the form with names from the broker, if it responds.
func (f form) complete(g *globals) completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if g.connect() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		before := ""
		if len(args) > 0 {
			before = strings.Join(args, "/") + "/"
		}
		names := withPrefix(f.names(ctx, g.client), before+typed)
		for i := range names {
			names[i] = names[i][len(before):]
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// names lists all existing targets of the form.
func (f form) names(ctx context.Context, client *api.Client) (names []string) {
	if f == partitionForm {
		all, _ := client.Partitions(ctx)
		return listing.Names(all, partitionName)
	}
	topics, _ := client.Topics(ctx)
	for _, t := range topics {
		if f != channelForm {
			names = append(names, t.Name)
		}
		for _, c := range t.Channels {
			if f != topicForm && f != anyTopicForm {
				names = append(names, t.Name+"/"+c.Name)
			}
		}
	}
	return names
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
