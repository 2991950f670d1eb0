package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

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
		return listDeadLetters(cmd, g, at.topic, at.channel, filter)
	})
	filterVar(cmd.Flags(), &filter, "dead letters")
	return cmd
}

func listDeadLetters(cmd *cobra.Command, g *globals, topic, channel, filter string) error {
	ask := func(ctx context.Context) ([]api.DeadLetters, error) {
		return api.DeadLettersOf(g.client).List(ctx, topic, channel, filter)
	}
	return answer(cmd, g, ask, func(all []api.DeadLetters) view {
		name := func(l api.DeadLetters) string { return l.Topic + "/" + l.Channel }
		t := newTable("CHANNEL", "MAX ATTEMPTS", "ON EXHAUSTED", "ON EXPIRED", "WAITING", "EXHAUSTED", "EXPIRED", "DEAD-LETTERED", "DROPPED", "DEAD-LETTER TOPIC")
		return listView(api.DeadLetterList{Channels: all}, all, name, t, func(l api.DeadLetters) []any {
			return []any{
				name(l), numberOr(l.MaxAttempts, ""), l.OnExhausted, cmp.Or(l.OnExpired, "-"), count(l.Waiting), count(l.Exhausted), count(l.Expired),
				count(l.DeadLetteredTotal), count(l.DroppedTotal), l.DeadLetterTopic,
			}
		})
	})
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
		return peekDeadLetters(cmd, g, at, n, filter)
	})
	filterVar(cmd.Flags(), &filter, "dead letters")
	cmd.Flags().IntVarP(&n, "n", "n", 10, "number of dead letters")
	return cmd
}

func peekDeadLetters(cmd *cobra.Command, g *globals, at target, n int, filter string) error {
	ask := func(ctx context.Context) ([]api.DeadLetter, error) {
		return api.DeadLettersOf(g.client).Peek(ctx, at.topic, at.channel, n, filter)
	}
	return answer(cmd, g, ask, func(letters []api.DeadLetter) view {
		t := newTable("ORIGIN", "DEAD SINCE", "ATTEMPTS", "LAST CONSUMER", "REASON", "+ID", "+ORIGIN ID", "BODY")
		return listView(api.DeadLetterMessages{Messages: letters}, letters, func(l api.DeadLetter) string { return l.ID }, t, func(l api.DeadLetter) []any {
			return []any{
				place(api.Peeked{Partition: l.Origin.Partition, Seq: l.Origin.Offset}), timeText(l.Timestamp), l.Origin.Attempts,
				l.Origin.LastConsumer, l.Origin.Reason, l.ID, l.Origin.ID, g.bodyCell(l.Body),
			}
		})
	})
}
