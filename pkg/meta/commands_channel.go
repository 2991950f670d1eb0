package meta

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/filter"
	"github.com/brokerd/brokerd/pkg/policy"
)

// CreateChannel creates a durable channel. If it exists it is returned unchanged,
// with Existed set, even if its configuration differs. An ephemeral channel is
// refused: it exists only on the node of its consumers.
type CreateChannel struct {
	Topic       string       `json:"topic"`
	Incarnation Incarnation  `json:"incarnation,omitempty"` // of the topic; 0: any
	Channel     string       `json:"channel"`
	Order       policy.Order `json:"order,omitempty"`
	CreatedAt   int64        `json:"created_at"` // ns since 1970
	// Version is that of a deleted channel with the name, of which a position is saved. The channel gets
	// the messages that are addressed to that one; its own version is new. One that exists is refused
	// with failure.ChannelAgain. 0: nothing is restored.
	Version Incarnation `json:"version,omitempty"`

	Policy policy.Policy `json:"policy,omitzero"`
	Filter string        `json:"filter,omitempty"` // see Channel.Filter
	Paused bool          `json:"paused,omitempty"`
}

func (c CreateChannel) validate() error {
	if err := validateChannel(c.Topic, c.Channel); err != nil {
		return err
	}
	return errors.Join(validatePolicy(c.Policy), validateOrder(c.Order), validateFilter(c.Filter))
}

// validateOrder refuses an invalid order.
func validateOrder(o policy.Order) error {
	if _, err := policy.ParseOrder(string(o)); err != nil || o == "none" {
		return fmt.Errorf("%w: order %q", policy.ErrInvalid, string(o))
	}
	return nil
}

func (c CreateChannel) apply(s *State, r *Result) error {
	t, err := s.edit(c.Topic, c.Incarnation)
	if err != nil {
		return err
	}
	if ch := t.Channels[c.Channel]; ch != nil {
		if c.Version != 0 {
			return fmt.Errorf("channel %s: %w", c.Channel, failure.ChannelAgain)
		}
		r.Existed, r.Topic, r.Channel = true, s.topics.get(c.Topic), ch
		return nil
	}
	if len(t.Channels) >= maxChannels {
		return fmt.Errorf("%w: topic %[3]s already has %[2]d channels", failure.LimitReached, maxChannels, c.Topic)
	}
	ch := &Channel{
		Name: c.Channel, Order: c.Order, CreatedAt: c.CreatedAt,
		Version: Incarnation(s.index), First: len(t.Channels) == 0, Policy: c.Policy, Filter: c.Filter, Paused: c.Paused,
	}
	if c.Version != 0 {
		if err := ch.restore(s, t, c.Version); err != nil {
			return err
		}
	}
	if c.Policy != (policy.Policy{}) { // inherited values keep no consumer from creating a channel
		if err := checkDeadLetters(t, ch); err != nil {
			return err
		}
	}
	s.setChannel(t, ch)
	r.Topic, r.Channel = t, ch
	return nil
}

// restore makes a channel that of a deleted version of its name, and all that the deleted one was restored as, which
// each position that was saved of it tells since its deletion.
func (c *Channel) restore(s *State, t *Topic, version Incarnation) error {
	i := slices.IndexFunc(s.saved, func(v *Saved) bool {
		return v.of(t.Name, c.Name) && v.Incarnation == t.Incarnation && v.Version == version
	})
	if i < 0 {
		return fmt.Errorf("channel %s: no position of the deleted channel is saved: %w", c.Name, failure.StaleVersion)
	}
	former := slices.Concat(c.Former, s.saved[i].Former, []Incarnation{version})
	slices.Sort(former)
	former = slices.DeleteFunc(slices.Compact(former), func(v Incarnation) bool { return v == c.Version })
	if len(former) > maxFormer {
		return fmt.Errorf("%w: channel %s would replace %d deleted channels, more than %d; create it if it is missing, and move it with channel seek: "+
			"of messages that are in the log for a deleted one alone (long requeues, redrives) it then gets the originals", failure.LimitReached, c.Name, len(former), maxFormer)
	}
	c.Former = former
	return nil
}

// setChannel sets a channel in a copy of the topic, and replaces the topic by it.
func (s *State) setChannel(t *Topic, ch *Channel) {
	channels := make(map[string]*Channel, len(t.Channels)+1)
	maps.Copy(channels, t.Channels)
	channels[ch.Name] = ch
	t.Channels = channels
	s.topics.put(t)
}

// DeleteChannel removes a channel and its position.
type DeleteChannel struct {
	Topic   string      `json:"topic"`
	Channel string      `json:"channel"`
	Version Incarnation `json:"version,omitempty"` // of the channel; 0: any
}

func (c DeleteChannel) validate() error { return validateChannel(c.Topic, c.Channel) }

func (c DeleteChannel) apply(s *State, r *Result) error {
	t, ch, err := s.editChannel(c.Topic, c.Channel)
	if err != nil {
		return err
	}
	if c.Version != 0 && c.Version != ch.Version {
		return fmt.Errorf("channel %s: %w", c.Channel, failure.StaleVersion)
	}
	t.Channels = maps.Clone(t.Channels)
	if delete(t.Channels, c.Channel); len(t.Channels) == 0 {
		t.Channels = nil
	}
	s.saved = History{s.saved}.afterDelete(c.Topic, ch)
	r.Topic = s.topics.put(t)
	return nil
}

// AlterChannel changes the fields that are not nil.
type AlterChannel struct {
	Topic   string        `json:"topic"`
	Channel string        `json:"channel"`
	Paused  *bool         `json:"paused,omitempty"`
	Skipped *bool         `json:"skipped,omitempty"`
	Order   *policy.Order `json:"order,omitempty"`

	Policy *policy.Patch `json:"policy,omitempty"`
	Filter *string       `json:"filter,omitempty"` // "" removes it
	// Restores is the version of a deleted channel with the name, of which a position is saved. The channel
	// also gets the messages that are addressed to that one.
	Restores Incarnation `json:"restores,omitempty"`
}

func (c AlterChannel) validate() error {
	err := validateChannel(c.Topic, c.Channel)
	if c.Order != nil {
		err = errors.Join(err, validateOrder(*c.Order))
	}
	if c.Policy != nil {
		err = errors.Join(err, validatePolicy(c.Policy.Apply(policy.Policy{})))
	}
	if c.Filter != nil {
		err = errors.Join(err, validateFilter(*c.Filter))
	}
	return err
}

func (c AlterChannel) apply(s *State, r *Result) error {
	t, ch, err := s.editChannel(c.Topic, c.Channel)
	if err != nil {
		return err
	}
	set(&ch.Paused, c.Paused)
	set(&ch.Skipped, c.Skipped)
	set(&ch.Order, c.Order)
	set(&ch.Filter, c.Filter)
	if c.Restores != 0 {
		if err := ch.restore(s, t, c.Restores); err != nil {
			return err
		}
	}
	if c.Policy != nil {
		ch.Policy = c.Policy.Apply(ch.Policy)
		if err := checkDeadLetters(t, ch); err != nil {
			return err
		}
	}
	s.setChannel(t, ch)
	r.Topic, r.Channel = t, ch
	return nil
}

// editChannel returns copies of a topic and of its channel.
func (s *State) editChannel(topic, channel string) (*Topic, *Channel, error) {
	t, err := s.edit(topic, 0)
	if err != nil {
		return nil, nil, err
	}
	was := t.Channels[channel]
	if was == nil {
		return nil, nil, failure.ChannelNotFound
	}
	return t, new(*was), nil
}

func validateChannel(topic, channel string) error {
	switch {
	case !NSQName(topic):
		return fmt.Errorf("%w: topic %q", failure.InvalidName, topic)
	case !NSQName(channel):
		return fmt.Errorf("%w: channel %q", failure.InvalidName, channel)
	case IsEphemeral(channel):
		return fmt.Errorf("%w: ephemeral channel %q cannot be stored in metadata", failure.InvalidName, channel)
	}
	return nil
}

// validateFilter checks a filter's limits. The node that receives it from an operator checks
// whether it compiles: here all nodes must reach the same answer, whatever their release.
func validateFilter(text string) error {
	if len(text) > filter.MaxText || !utf8.ValidString(text) {
		return fmt.Errorf("%w: filter of %d bytes, want at most %d of UTF-8", failure.InvalidConfig, len(text), filter.MaxText)
	}
	return nil
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}
