package main

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newDLQCommand(g *globals) *cobra.Command {
	return newGroup("dlq", "Manage dead letters: messages that used up their attempts",
		newDLQListCommand(g), newDLQPeekCommand(g), newDLQRedriveCommand(g), newDLQPurgeCommand(g))
}

func newDLQListCommand(g *globals) *cobra.Command {
	var filter string
	cmd := acting(g, &cobra.Command{
		Use:   "list [TOPIC[/CHANNEL]]",
		Short: "List channels with dead letters, or with a limit of attempts",
		Long: `List the channels that limit the attempts of a message, and those that have a dead-letter topic, with the number
of dead letters that wait in it. A dead-letter topic that several channels share counts for each of them. With a
filter, only the channel's dead letters that it chooses are counted. DEAD-LETTERED and DROPPED count since the
current leaders of the partitions took over.`,
	}, func(cmd *cobra.Command, at target) error {
		ask := func(ctx context.Context) ([]api.DeadLetters, error) {
			return api.DeadLettersOf(g.client).List(ctx, at.topic, at.channel, filter)
		}
		return answer(cmd, g, ask, func(all []api.DeadLetters) output.View {
			name := func(l api.DeadLetters) string { return l.Topic + "/" + l.Channel }
			t := output.NewTable("CHANNEL", "MAX ATTEMPTS", "ON EXHAUSTED", "ON EXPIRED", "WAITING", "EXHAUSTED", "EXPIRED", "DEAD-LETTERED", "DROPPED", "DEAD-LETTER TOPIC")
			return output.List(api.DeadLetterList{Channels: all}, all, name, t, func(l api.DeadLetters) []any {
				return []any{
					name(l), numberOr(l.MaxAttempts, ""), l.OnExhausted, cmp.Or(l.OnExpired, "-"), count(l.Waiting), count(l.Exhausted), count(l.Expired),
					count(l.DeadLetteredTotal), count(l.DroppedTotal), l.DeadLetterTopic,
				}
			})
		})
	})
	filterVar(cmd.Flags(), &filter, "dead letters")
	return cmd
}

func newDLQPeekCommand(g *globals) *cobra.Command {
	var n int
	var filter string
	cmd := acting(g, &cobra.Command{
		Use:   "peek TOPIC/CHANNEL",
		Short: "Show dead letters of a channel without consuming them",
	}, func(cmd *cobra.Command, at target) error {
		if n < 1 {
			return usageError("-n must be above 0")
		}
		ask := func(ctx context.Context) ([]api.DeadLetter, error) {
			return api.DeadLettersOf(g.client).Peek(ctx, at.topic, at.channel, n, filter)
		}
		return answer(cmd, g, ask, func(letters []api.DeadLetter) output.View {
			t := output.NewTable("ORIGIN", "DEAD SINCE", "ATTEMPTS", "LAST CONSUMER", "REASON", "+ID", "+ORIGIN ID", "BODY")
			return output.List(api.DeadLetterMessages{Messages: letters}, letters, func(l api.DeadLetter) string { return l.ID }, t, func(l api.DeadLetter) []any {
				return []any{
					place(api.Peeked{Partition: l.Origin.Partition, Seq: l.Origin.Offset}), output.Time(l.Timestamp), l.Origin.Attempts,
					l.Origin.LastConsumer, l.Origin.Reason, l.ID, l.Origin.ID, g.bodyCell(l.Body),
				}
			})
		})
	})
	filterVar(cmd.Flags(), &filter, "dead letters")
	cmd.Flags().IntVarP(&n, "n", "n", 10, "number of dead letters")
	return cmd
}

// lettersAtOnce is how many dead letters one request redrives or purges.
const lettersAtOnce = 1000

func newDLQRedriveCommand(g *globals) *cobra.Command {
	var rate, filter string
	var dry bool
	cmd := acting(g, &cobra.Command{
		Use:   "redrive TOPIC/CHANNEL",
		Short: "Return dead letters to the channel that failed",
		Long: `Return the dead letters of a channel to it, the oldest first, and to no other channel of the topic. Attempts
count from 1 again. A dead letter is finished once its message is stored, so that no message is lost or redriven
twice, however often the command is run or interrupted. Only if a leader fails in between, up to 64 dead letters
of a partition may be redriven twice.`,
		Example: `  brokerctl dlq redrive orders/invoice --rate 100/s
  brokerctl dlq redrive orders/invoice --dry-run
  brokerctl dlq redrive orders/invoice --filter 'header.type == "order"'`,
	}, func(cmd *cobra.Command, at target) error {
		perSecond, err := rateOf(rate)
		if err != nil {
			return err
		}
		return processDeadLetters(cmd, g, at, letterAction{"redriven", api.DeadLettersOf(g.client).Redrive, perSecond, dry, filter})
	})
	filterVar(cmd.Flags(), &filter, "dead letters")
	cmd.Flags().StringVar(&rate, "rate", "100/s", "redrive at most `N/s` messages per second; none means no limit")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count them without changing anything")
	return cmd
}

func newDLQPurgeCommand(g *globals) *cobra.Command {
	var filter string
	var dry bool
	cmd := acting(g, &cobra.Command{
		Use:   "purge TOPIC/CHANNEL",
		Short: "Discard dead letters of a channel",
	}, func(cmd *cobra.Command, at target) error {
		if !dry {
			if err := confirm(cmd, g, "purging the dead letters of channel", at.channel); err != nil {
				return err
			}
		}
		return processDeadLetters(cmd, g, at, letterAction{"purged", api.DeadLettersOf(g.client).Purge, 0, dry, filter})
	})
	filterVar(cmd.Flags(), &filter, "dead letters")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count them without changing anything")
	return cmd
}

// rateOf parses a rate; 0 means none.
func rateOf(text string) (int, error) {
	if text == "none" {
		return 0, nil
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(text, "/s"), 10, 31)
	if err != nil || n == 0 {
		return 0, usageError("--rate %q must be a number of messages per second, such as 100/s, or none", text)
	}
	return int(n), nil
}

// letterAction is an action on dead letters.
type letterAction struct {
	action    string
	request   func(context.Context, string, string, api.DeadLetterAction) (*api.DeadLetterResult, error)
	perSecond int // 0: as fast as possible
	dry       bool
	filter    string // "": all
}

// processDeadLetters redrives or purges all dead letters of a channel at a maximum rate per
// second.
func processDeadLetters(cmd *cobra.Command, g *globals, at target, s letterAction) error {
	total := api.DeadLetterResult{Topic: at.topic, Channel: at.channel, DryRun: s.dry}
	most := lettersAtOnce
	if s.perSecond > 0 && !s.dry {
		most = min(most, s.perSecond)
	}
	if s.dry {
		most = 10 * lettersAtOnce
	}
	for {
		part, err := query(cmd.Context(), g, func(ctx context.Context) (*api.DeadLetterResult, error) {
			return s.request(ctx, at.topic, at.channel, api.DeadLetterAction{Max: most, DryRun: s.dry, Filter: s.filter})
		})
		if err == nil {
			err = cmd.Context().Err()
		}
		if err != nil && total.Count == 0 {
			return err
		}
		if err != nil {
			return partial(cmd.Context(), err, resultText(s, &total))
		}
		total.Count += part.Count
		total.More, total.Skipped = part.More, part.Skipped
		if !part.More || part.Count == 0 || s.dry {
			break
		}
		if s.perSecond > 0 {
			g.env.pause(cmd.Context(), time.Second*time.Duration(part.Count)/time.Duration(s.perSecond))
		}
	}
	return g.show(cmd, output.View{Object: &total, Names: []string{at.topic + "/" + at.channel}, Text: func(p *output.Page) { p.Line("%s", resultText(s, &total)) }})
}

func resultText(s letterAction, d *api.DeadLetterResult) string {
	text := plural(d.Count, "dead letter") + " of " + d.Topic + "/" + d.Channel + " " + s.action
	if s.dry {
		text = plural(d.Count, "dead letter") + " of " + d.Topic + "/" + d.Channel + " would be " + s.action
		if d.More {
			text = "more than " + text
		}
	}
	if d.Skipped > 0 {
		text += "; " + strconv.Itoa(d.Skipped) + " skipped: in flight at a consumer of the dead-letter topic, or deferred"
	}
	return text
}
