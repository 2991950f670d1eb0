package meta

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// CreateTopic creates a topic. If one with the name and the same configuration exists, it is
// returned with Existed set; with another configuration the error is failure.TopicExists.
type CreateTopic struct {
	Name   string      `json:"name"`
	Config TopicConfig `json:"config"` // complete, see TopicConfig.WithDefaults
	// Assignment names the replicas of each partition, its first leader first.
	Assignment [][]NodeID `json:"assignment"`
}

func (c CreateTopic) validate() error {
	return cmp.Or(checkTopic(c.Name), ownDeadLetters(c.Name, c.Config), c.Config.Validate())
}

func (c CreateTopic) apply(s *State, r *Result) error {
	if was := s.topics.get(c.Name); was != nil {
		r.Existed, r.Topic = true, was
		if !r.Topic.Config.AsAskedFor(c.Config) {
			return fmt.Errorf("topic %s: %w", c.Name, failure.TopicExists)
		}
		return nil
	}
	if s.topics.count >= maxTopics {
		return fmt.Errorf("%w: %d topics", failure.LimitReached, maxTopics)
	}
	if len(c.Assignment) != c.Config.Partitions {
		return fmt.Errorf("%w: %d of %d partitions assigned", failure.InvalidAssignment, len(c.Assignment), c.Config.Partitions)
	}
	partitions, err := s.newPartitions(c.Assignment, c.Config.Replicas)
	if err != nil {
		return err
	}
	r.Topic = s.topics.put(&Topic{
		Name: c.Name, Incarnation: Incarnation(s.index), Config: c.Config,
		Version: s.index, Partitions: partitions,
	})
	return nil
}

// newPartitions returns the partitions of an assignment, each led by its first replica in epoch 1.
func (s *State) newPartitions(assignment [][]NodeID, replicas int) ([]Partition, error) {
	if s.topics.partitions+len(assignment) > maxClusterPartitions {
		return nil, fmt.Errorf("%w: %d partitions", failure.LimitReached, maxClusterPartitions)
	}
	out := make([]Partition, len(assignment))
	for i, ids := range assignment {
		if len(ids) != replicas {
			return nil, fmt.Errorf("%w: %d of %d replicas assigned", failure.InvalidAssignment, len(ids), replicas)
		}
		for k, id := range ids {
			if slices.Contains(ids[:k], id) {
				return nil, fmt.Errorf("%w: duplicate node %q", failure.InvalidAssignment, id)
			}
			if s.Node(id) == nil {
				return nil, fmt.Errorf("%w: %q: %w", failure.InvalidAssignment, id, failure.NodeNotFound)
			}
		}
		all := s.intern(ids...)
		// The two share an array: both are immutable.
		out[i] = Partition{Replicas: all, ISR: all, Leader: all[0], Epoch: 1, Version: 1}
	}
	return out, nil
}

// AlterTopic changes the settings of a topic's configuration that differ between Was, which the
// proposer has seen, and Will. Others keep what another command has set meanwhile. Partitions have
// their own command. A changed number of replicas is no longer open, unless Will opens it; likewise
// MinISR. Replicas is the number per partition; existing replicas stay until they are reassigned.
type AlterTopic struct {
	Name        string      `json:"name"`
	Incarnation Incarnation `json:"incarnation,omitempty"` // 0: any
	Was         TopicConfig `json:"was"`
	Will        TopicConfig `json:"will"`
}

func (c AlterTopic) validate() error {
	if c.Was.Partitions != c.Will.Partitions {
		return fmt.Errorf("%w: altering a topic cannot change its partitions; add partitions instead", failure.InvalidConfig)
	}
	return checkTopic(c.Name)
}

// change makes the change in a configuration.
func (c *AlterTopic) change(config *TopicConfig) {
	config.AutoReplicas = config.AutoReplicas && c.Was.Replicas == c.Will.Replicas
	config.AutoMinISR = config.AutoMinISR && c.Was.MinISR == c.Will.MinISR
	was, will, is := reflect.ValueOf(c.Was), reflect.ValueOf(c.Will), reflect.ValueOf(config).Elem()
	for i := range is.NumField() {
		if !was.Field(i).Equal(will.Field(i)) {
			is.Field(i).Set(will.Field(i))
		}
	}
}

func (c AlterTopic) apply(s *State, r *Result) error {
	t, err := s.edit(c.Name, c.Incarnation)
	if err != nil {
		return err
	}
	t.Tightened = t.unsynced()
	c.change(&t.Config)
	t.Tightened = t.Tightened && t.Config.Sync.Always()
	if t.Config.AutoMinISR {
		t.Config.MinISR = min(t.Config.MinISR, DefaultMinISR(t.Config.Replicas)) // it grows once more replicas are in sync
	}
	if err := t.Config.Validate(); err != nil {
		return err
	}
	if c.Was.Channels != c.Will.Channels {
		if err := ownDeadLetters(c.Name, t.Config); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(t.Channels)) {
			if err := checkDeadLetters(t, t.Channels[name]); err != nil {
				return err
			}
		}
	}
	if c.Was.Replicas != c.Will.Replicas && t.Config.Replicas > len(s.nodes) {
		return fmt.Errorf("%w: %d replicas requested, but only %d nodes available", failure.TooFewNodes, t.Config.Replicas, len(s.nodes))
	}
	r.Topic = s.topics.put(t)
	return nil
}

// FitTopic raises automatic settings of a topic as the cluster grows. Replicas is the number
// per partition; existing replicas stay until they are reassigned. MinISR is refused while a
// partition has fewer replicas in sync, so a raise stops no publish. A number set by the
// operator is never changed.
type FitTopic struct {
	Name        string      `json:"name"`
	Incarnation Incarnation `json:"incarnation"`
	Replicas    int         `json:"replicas,omitempty"` // 0: unchanged
	MinISR      int         `json:"min_isr,omitempty"`  // 0: unchanged
}

func (c FitTopic) validate() error {
	return checkTopic(c.Name)
}

func (c FitTopic) apply(s *State, r *Result) error {
	t, err := s.edit(c.Name, c.Incarnation)
	if err != nil {
		return err
	}
	if c.Replicas != 0 {
		switch {
		case c.Replicas <= t.Config.Replicas:
			return fmt.Errorf("topic %s already requires %d replicas: %w", c.Name, t.Config.Replicas, failure.StaleVersion)
		case !t.Config.AutoReplicas, c.Replicas > WantedReplicas(s):
			return fmt.Errorf("%w: replicas of %[3]s cannot be raised automatically from %[2]d to %[4]d", failure.InvalidConfig, t.Config.Replicas, c.Name, c.Replicas)
		}
		t.Config.Replicas = c.Replicas
	}
	if c.MinISR != 0 {
		switch least := t.LeastInSync(); {
		case c.MinISR <= t.Config.MinISR:
			return fmt.Errorf("topic %s already has min_isr %d: %w", c.Name, t.Config.MinISR, failure.StaleVersion)
		case !t.Config.AutoMinISR:
			return fmt.Errorf("%w: min_isr of %[3]s cannot be raised automatically from %[2]d to %[4]d", failure.InvalidConfig, t.Config.MinISR, c.Name, c.MinISR)
		case c.MinISR > least:
			return fmt.Errorf("%w: min_isr %d exceeds the %d in-sync replicas", failure.InvalidISR, c.MinISR, least)
		}
		t.Config.MinISR = c.MinISR
	}
	if err := t.Config.Validate(); err != nil {
		return err
	}
	r.Topic = s.topics.put(t)
	return nil
}

// LeastInSync returns the smallest number of in-sync replicas of any partition, without those
// being removed by a reassignment.
func (t *Topic) LeastInSync() int {
	least := maxReplicas
	for i := range t.Partitions {
		least = min(least, len(minus(t.Partitions[i].ISR, t.Partitions[i].Removing)))
	}
	return least
}

// AddPartitions adds partitions to a topic.
type AddPartitions struct {
	Name        string      `json:"name"`
	Incarnation Incarnation `json:"incarnation,omitempty"` // 0: any
	// Was is the number of partitions when the assignment was made. With another current number the
	// command is refused with failure.StaleVersion.
	Was        int        `json:"was"`
	Assignment [][]NodeID `json:"assignment"` // of the new partitions
}

func (c AddPartitions) validate() error {
	switch {
	case !NSQName(c.Name):
		return fmt.Errorf("%w: topic %q", failure.InvalidName, c.Name)
	case len(c.Assignment) == 0:
		return fmt.Errorf("%w: no partitions to add", failure.InvalidAssignment)
	case c.Was < 1 || c.Was+len(c.Assignment) > seq.MaxPartitions:
		return fmt.Errorf("%w: %d partitions", failure.LimitReached, seq.MaxPartitions)
	}
	return nil
}

func (c AddPartitions) apply(s *State, r *Result) error {
	t, err := s.edit(c.Name, c.Incarnation)
	if err != nil {
		return err
	}
	if c.Was != len(t.Partitions) {
		return fmt.Errorf("topic %s already has %d partitions: %w", c.Name, len(t.Partitions), failure.StaleVersion)
	}
	if err := keepsKeyOrder(t); err != nil {
		return err
	}
	more, err := s.newPartitions(c.Assignment, t.Config.Replicas)
	if err != nil {
		return err
	}
	t.Partitions = slices.Concat(t.Partitions, more)
	t.Config.Partitions = len(t.Partitions)
	r.Topic = s.topics.put(t)
	return nil
}

// keepsKeyOrder refuses to add partitions while a channel has order by key: keys would move to other partitions, and
// their new messages would be delivered before those that wait in the old ones.
func keepsKeyOrder(t *Topic) error {
	for _, name := range slices.Sorted(maps.Keys(t.Channels)) {
		if t.Channels[name].Order == policy.ByKey {
			return fmt.Errorf("%w: channel %s/%s has order by key, and keys would move to other partitions before their messages are finished: "+
				"stop publishing, wait until the channel has no unfinished messages, set its order to none, add the partitions, and set it to key again",
				failure.InvalidConfig, t.Name, name)
		}
	}
	return nil
}

// DeleteTopic deletes a topic with its channels. It is moved to the trash unless it is
// ephemeral, its retention is 0, or Purge is set.
type DeleteTopic struct {
	Name        string      `json:"name"`
	Incarnation Incarnation `json:"incarnation,omitempty"` // 0: any
	Purge       bool        `json:"purge,omitempty"`
	Unused      bool        `json:"unused,omitempty"` // a topic with a channel is refused with failure.StaleVersion
}

func (c DeleteTopic) validate() error {
	return checkTopic(c.Name)
}

func (c DeleteTopic) apply(s *State, r *Result) error {
	t, err := s.edit(c.Name, c.Incarnation)
	if err != nil {
		return err
	}
	if c.Unused && len(t.Channels) > 0 {
		return fmt.Errorf("topic %s has channels: %w", c.Name, failure.StaleVersion)
	}
	s.topics.remove(t)
	of := HistoryOf(s).of(t)
	s.saved = HistoryOf(s).without(t.Name)
	if !c.Purge && t.Config.Trash() > 0 && !IsEphemeral(t.Name) {
		s.trash, r.Purged = TrashOf(s).with(&Deleted{Index: s.index, At: r.at, Topic: t.settled(), Saved: of})
	}
	return nil
}

// PauseTopic withholds a topic's messages from its channels, or resumes it.
type PauseTopic struct {
	Name   string `json:"name"`
	Paused bool   `json:"paused"`
}

func (c PauseTopic) validate() error {
	return checkTopic(c.Name)
}

func (c PauseTopic) apply(s *State, r *Result) error {
	t, err := s.edit(c.Name, 0)
	if err != nil {
		return err
	}
	t.Paused = c.Paused
	r.Topic = s.topics.put(t)
	return nil
}
