package meta

import (
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/policy"
)

// PolicyOf returns the effective policy of a channel: its own settings, the topic's, then the
// cluster's (Settings.ChannelDefaults). A channel missing from the metadata, such as an ephemeral
// one, has no settings of its own. Channels of dead-letter topics do not use the cluster's
// defaults: otherwise their failures would go to a further dead-letter topic, and so on.
func PolicyOf(t *Topic, channel string, cluster policy.Policy) policy.Policy {
	var own policy.Policy
	if c := t.Channels[channel]; c != nil {
		own = c.Policy
	}
	if strings.HasSuffix(t.Name, policy.DeadLetterSuffix) {
		cluster = policy.Policy{}
	}
	return policy.Effective(own, t.Config.Channels, cluster)
}

// DeadLetterTopic returns the dead-letter topic of a channel with an effective policy. A
// default name that would be too long is truncated and gets a checksum.
func DeadLetterTopic(p policy.Policy, topic, channel string) string {
	name := p.DeadLetters(topic, channel)
	if len(name) <= MaxNameLength {
		return name
	}
	tail := fmt.Sprintf("-%08x%s", crc32.Checksum([]byte(name), castagnoli), policy.DeadLetterSuffix)
	return name[:MaxNameLength-len(tail)] + tail
}

// checkDeadLetters refuses a channel that has dead letters, by its own or its topic's choice,
// without a valid dead-letter topic.
func checkDeadLetters(t *Topic, c *Channel) error {
	chosen := policy.Effective(c.Policy, t.Config.Channels)
	if !chosen.HasDeadLetters() {
		return nil
	}
	switch name := chosen.DeadLetters(t.Name, c.Name); {
	case len(name) > MaxNameLength:
		return fmt.Errorf("%w: the dead-letter topic of channel %s would be named %s, which has %d bytes, over the limit of %d: choose another dead-letter topic",
			failure.InvalidConfig, c.Name, name, len(name), MaxNameLength)
	case name == t.Name:
		return fmt.Errorf("%w: the dead letters of channel %s cannot go to its own topic: choose another dead-letter topic", failure.InvalidConfig, c.Name)
	}
	return nil
}

// ownDeadLetters refuses a topic that is the dead-letter topic of its own channels.
func ownDeadLetters(name string, c TopicConfig) error {
	if c.Channels.DeadLetterTopic == name {
		return fmt.Errorf("%w: the dead letters of topic %s cannot go to itself: choose another dead-letter topic", failure.InvalidConfig, name)
	}
	return nil
}

// validatePolicy checks a policy.
func validatePolicy(p policy.Policy) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("%w: %w", failure.InvalidConfig, err)
	}
	if name := p.DeadLetterTopic; name != "" && (!ValidTopicName(name) || IsEphemeral(name)) {
		return fmt.Errorf("%w: dead-letter topic %q", failure.InvalidName, name)
	}
	return nil
}
