package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/filter"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/stats"
)

// DeadLetterAction asks to redrive or purge dead letters of a channel.
type DeadLetterAction struct {
	Topic   string `json:"topic"`
	Channel string `json:"channel"`
	Max     int    `json:"max"`
	Purge   bool   `json:"purge,omitempty"`   // only finish them
	DryRun  bool   `json:"dry_run,omitempty"` // only count them
	Filter  string `json:"filter,omitempty"`  // chooses some of them: see pkg/filter
}

// lettersArgs asks the leader of a partition of a dead-letter topic.
type lettersArgs struct {
	DeadLetterAction
	Letters   string `json:"letters"` // the topic
	Partition int    `json:"partition"`
}

var askLetters = question[lettersArgs, deadletter.Processed]{"letters", func(o *Node, ctx context.Context, a lettersArgs) (deadletter.Processed, error) {
	return processHere(ctx, o, a)
}}

// processHere redrives or purges dead letters of a partition that this node leads.
func processHere(ctx context.Context, o *Node, a lettersArgs) (s deadletter.Processed, err error) {
	h := o.host.Lookup(a.Letters)
	if h == nil {
		return s, failure.TopicNotFound
	}
	lp := h.Led(a.Partition)
	if lp == nil || !lp.Part.Gate.Leased(time.Now()) {
		return s, fmt.Errorf("%s/%d: %w", a.Letters, a.Partition, failure.NotLeading)
	}
	t, err := o.topics.Topic(a.Topic)
	if err != nil && !a.Purge {
		return s, err
	}
	of := deadletter.Selection{Topic: a.Topic, Channel: a.Channel}
	if a.Filter != "" {
		if of.Filter, err = filter.Compile(a.Filter); err != nil {
			return s, err
		}
	}
	bring := func(l *deadletter.Letter, done func(error)) {
		o.Letters.Bring(ctx, l, uint64(t.Channels[a.Channel].Version), t.Config.TTL, done)
	}
	if a.Purge {
		bring = nil
	} else if t.Channels[a.Channel] == nil {
		return s, fmt.Errorf("%w: %s", failure.ChannelNotFound, a.Channel)
	}
	s, err = lp.Letters.Process(ctx, lp.Part, of, a.Max, a.DryRun, bring)
	if errors.Is(err, failure.ChannelNotFound) {
		return s, nil // it was never created: there are no dead letters
	}
	return s, err
}

// LettersOf returns the dead-letter topic of a channel; "" if the channel does not exist.
func (p Policies) LettersOf(t *meta.Topic, channel string) string {
	name := meta.DeadLetterTopic(meta.PolicyOf(t, channel, p.ChannelDefaults()), t.Name, channel)
	if p.o.node.Meta.Topic(name) == nil {
		return ""
	}
	return name
}

// RedriveOrPurge redrives or purges dead letters of a channel, partition by partition. On an error,
// the result includes what was done until then.
func (p Policies) RedriveOrPurge(ctx context.Context, a DeadLetterAction) (s deadletter.Processed, err error) {
	t, err := p.o.node.topics.Topic(a.Topic)
	if err != nil {
		return s, err
	}
	if meta.IsEphemeral(a.Channel) && !a.Purge {
		return s, fmt.Errorf("%w: messages cannot be redelivered to an ephemeral channel: copy them to a topic instead", failure.InvalidConfig)
	}
	letters := p.LettersOf(t, a.Channel)
	if letters == "" {
		return s, nil
	}
	from, err := p.o.node.topics.Topic(letters)
	if err != nil {
		return s, err
	}
	a.Max = max(1, min(a.Max, deadletter.MaxBatch))
	for i := range from.Partitions {
		if s.Letters >= a.Max && s.More {
			break
		}
		one := lettersArgs{DeadLetterAction: a, Letters: letters, Partition: i}
		one.Max = a.Max - s.Letters
		if one.Max == 0 { // check whether there are more
			one.Max, one.DryRun = 1, true
		}
		part, err := tryAtLeader(ctx, p.o.node, askLetters, partitionAt{letters, i}, one, one.DryRun)
		if one.DryRun && !a.DryRun {
			s.More = s.More || part.Letters > 0
			part = deadletter.Processed{Skipped: part.Skipped}
		}
		s.Add(part)
		if err != nil && s.Letters > 0 && !a.DryRun { // the error of this partition may say that nothing was changed
			err = fate.Mark(fmt.Errorf("%d dead letters are processed, others are not; repeat the command: %v", s.Letters, err), fate.Uncertain) //nolint:errorlint // its code says that nothing changed
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// DeadLetters lists the channels that have, or may have, dead letters, by topic and name. An empty
// filter selects all.
func (p Policies) DeadLetters(ctx context.Context, topicFilter, channelFilter string) []api.DeadLetters {
	figures := map[[2]string]stats.Channel{}
	for _, t := range p.o.ClusterStats(ctx, "", "", false) {
		for _, c := range t.Channels {
			figures[[2]string{t.Name, c.Name}] = c
		}
	}
	all := []api.DeadLetters{}
	defaults := p.ChannelDefaults()
	for _, t := range p.o.node.topics.Topics() {
		if topicFilter != "" && topicFilter != t.Name {
			continue
		}
		for name := range t.Channels {
			if channelFilter != "" && channelFilter != name {
				continue
			}
			counts := meta.PolicyOf(t, name, defaults)
			letters := meta.DeadLetterTopic(counts, t.Name, name)
			kept, failing := figures[[2]string{letters, deadletter.Channel}], figures[[2]string{t.Name, name}]
			if !counts.HasDeadLetters() && counts.MaxAttempts <= 0 && p.o.node.Meta.Topic(letters) == nil && failing.Exhausted+failing.Expired == 0 {
				continue
			}
			all = append(all, api.DeadLetters{
				Topic: t.Name, Channel: name, DeadLetterTopic: letters, MaxAttempts: counts.MaxAttempts, OnExhausted: string(counts.OnExhausted), OnExpired: string(counts.OnExpired),
				Waiting: kept.Depth + kept.InFlight + kept.Deferred, Exhausted: failing.Exhausted, Expired: failing.Expired, DeadLetteredTotal: failing.DeadLetteredTotal, DroppedTotal: failing.DroppedTotal,
			})
		}
	}
	slices.SortFunc(all, func(a, b api.DeadLetters) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Channel, b.Channel))
	})
	return all
}

// Policies gives operators access to how channels treat failed messages. Its methods are safe for
// concurrent use.
type Policies struct{ o *Contents }

// Policies returns the Policies of the node.
func (o *Contents) Policies() Policies { return Policies{o} }

// ChannelDefaults returns the policy of channels without a choice of their own or of their topics.
func (p Policies) ChannelDefaults() policy.Policy { return p.o.node.Meta.Settings().ChannelDefaults() }

// CreateChannel creates a channel of an existing topic, with a policy. An existing channel is no
// error, and is not changed.
func (p Policies) CreateChannel(ctx context.Context, c meta.CreateChannel) error {
	if err := checkEphemeral(c); err != nil {
		return err
	}
	return p.o.node.topics.EnsureChannel(ctx, c)
}

// checkEphemeral refuses settings that an ephemeral channel cannot have.
func checkEphemeral(c meta.CreateChannel) error {
	switch {
	case meta.IsEphemeral(c.Channel) && c.Filter != "":
		return fmt.Errorf("%w: ephemeral channel %q cannot have a filter", failure.InvalidConfig, c.Channel)
	case meta.IsEphemeral(c.Channel) && c.Policy != (policy.Policy{}):
		return fmt.Errorf("%w: ephemeral channel %q has the policy of its topic", failure.InvalidConfig, c.Channel)
	}
	return nil
}

// AlterChannel changes a durable channel, at every leader of its topic.
func (p Policies) AlterChannel(ctx context.Context, c meta.AlterChannel) error {
	return p.o.node.topics.Change(ctx, c.Topic, c)
}
