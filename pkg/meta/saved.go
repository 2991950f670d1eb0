package meta

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Bounds of the positions saved before an operator moves a channel.
const (
	maxSavedPerChannel = 10                 // the oldest are dropped
	maxSaved           = 1000               // of all channels, likewise
	savedFor           = 7 * 24 * time.Hour // older ones are dropped when another is saved
	// MaxSavedRanges is how many ranges of messages finished out of order are saved of a channel,
	// over all partitions. An undo delivers the others again.
	MaxSavedRanges = 500
	maxVerbBytes   = 32
	// maxFormer is as how many deleted channels one can be restored.
	maxFormer = 50
)

// Saved is the position of a channel before an operator moved, emptied or deleted it. Values
// returned by State are shared and must not be modified.
type Saved struct {
	Index       uint64           `json:"index"` // the Raft index at which it was saved: its name
	At          int64            `json:"at"`    // ns since 1970, by the clock of the node that saved it
	Verb        string           `json:"verb"`  // the change: seek, empty, skip, delete, restore
	Topic       string           `json:"topic"`
	Incarnation Incarnation      `json:"incarnation"` // of the topic
	Channel     string           `json:"channel"`
	Version     Incarnation      `json:"version,omitempty"`  // of the channel
	Former      []Incarnation    `json:"former,omitempty"`   // of the channel; set when it is deleted
	Restores    uint64           `json:"restores,omitempty"` // of a restore: the Index of the position to which it moves the channel
	Paused      bool             `json:"paused,omitempty"`   // the channel was
	Order       policy.Order     `json:"order,omitempty"`
	Policy      policy.Policy    `json:"policy,omitzero"`
	Filter      string           `json:"filter,omitempty"`
	Partitions  []SavedPartition `json:"partitions"` // by number; one whose leader did not answer is missing
}

// SavedPartition is the position of a channel in one partition.
type SavedPartition struct {
	Partition int             `json:"partition"`
	Floor     seq.Offset      `json:"floor"`              // everything below was finished
	Finished  [][2]seq.Offset `json:"finished,omitempty"` // also finished: [from, end), by offset
	Target    seq.Offset      `json:"target,omitempty"`   // target of the move
}

// SavePositions saves the position of a channel.
type SavePositions struct {
	Saved Saved `json:"saved"` // its Index is ignored
}

// restores reports whether v was saved by a restore to another saved position, which makes no room for v: a restore
// that fails in part is repeated.
func (v *Saved) restores(to *Saved) bool { return v.Restores != 0 && v.Restores == to.Index }

func (c SavePositions) validate() error { return c.Saved.validate() }

func (v *Saved) validate() error {
	if err := errors.Join(validateChannel(v.Topic, v.Channel), validatePolicy(v.Policy), validateFilter(v.Filter)); err != nil {
		return err
	}
	if len(v.Verb) == 0 || len(v.Verb) > maxVerbBytes || len(v.Partitions) > seq.MaxPartitions || len(v.Former) > maxFormer {
		return fmt.Errorf("%w: saved positions: verb of %d bytes, %d partitions, %d former channels", failure.InvalidConfig, len(v.Verb), len(v.Partitions), len(v.Former))
	}
	ranges, last := 0, -1
	for _, p := range v.Partitions {
		if p.Partition <= last || p.Partition >= seq.MaxPartitions || p.Floor > seq.MaxOffset || p.Target > seq.MaxOffset {
			return fmt.Errorf("%w: saved positions: partition %d", failure.InvalidConfig, p.Partition)
		}
		last = p.Partition
		end := p.Floor
		for _, r := range p.Finished {
			if r[0] <= end || r[1] <= r[0] || r[1] > seq.MaxOffset {
				return fmt.Errorf("%w: saved positions: finished from %d to %d", failure.InvalidConfig, r[0], r[1])
			}
			end = r[1]
		}
		ranges += len(p.Finished)
	}
	if ranges > MaxSavedRanges {
		return fmt.Errorf("%w: %d ranges in saved positions", failure.LimitReached, ranges)
	}
	return nil
}

func (c SavePositions) apply(s *State, _ *Result) error {
	t := s.topics.get(c.Saved.Topic)
	switch {
	case t == nil:
		return failure.TopicNotFound
	case c.Saved.Incarnation != t.Incarnation:
		return failure.StaleIncarnation
	}
	fresh := c.Saved
	if ch := t.Channels[fresh.Channel]; fresh.Version != 0 { // the position may be that of a channel created since
		if ch == nil || ch.Version != fresh.Version {
			return fmt.Errorf("channel %s: %w", fresh.Channel, failure.StaleVersion)
		}
	}
	fresh.Index = s.index
	kept := make([]*Saved, 0, len(s.saved)+1)
	same := 0
	for _, v := range s.saved {
		if v.of(fresh.Topic, fresh.Channel) {
			same++
		}
	}
	for _, v := range s.saved {
		old := fresh.At-v.At > int64(savedFor)
		if v.of(fresh.Topic, fresh.Channel) {
			same--
			old = old || same >= maxSavedPerChannel-1
		}
		if !old || fresh.restores(v) {
			kept = append(kept, v)
		}
	}
	excess := len(kept) + 1 - maxSaved
	kept = slices.DeleteFunc(kept, func(v *Saved) bool {
		drop := excess > 0 && !fresh.restores(v)
		if drop {
			excess--
		}
		return drop
	})
	s.saved = append(kept, &fresh)
	return nil
}

// DropSaved drops saved positions after they were restored.
type DropSaved struct {
	Saved uint64 `json:"saved"` // its Index
}

func (DropSaved) validate() error { return nil }

func (c DropSaved) apply(s *State, _ *Result) error {
	i := slices.IndexFunc(s.saved, func(v *Saved) bool { return v.Index == c.Saved })
	if i < 0 {
		return failure.SavedNotFound
	}
	s.saved = slices.Delete(slices.Clone(s.saved), i, i+1)
	return nil
}

func (v *Saved) of(topic, channel string) bool { return v.Topic == topic && v.Channel == channel }

// History is the saved positions of channels.
type History struct{ saved []*Saved }

// HistoryOf returns the history of a state.
func HistoryOf(s *State) History { return History{s.saved} }

// Of returns the saved positions of a channel of a topic, the last first.
func (h History) Of(topic *Topic, channel string) []*Saved {
	var found []*Saved
	for _, v := range slices.Backward(h.saved) {
		if v.of(topic.Name, channel) && v.Incarnation == topic.Incarnation {
			found = append(found, v)
		}
	}
	return found
}

// Floor returns the first offset of a partition that an undo of changes since a time (ns since
// 1970) would redeliver; false if there is none.
func (h History) Floor(topic *Topic, partition int, since int64) (floor seq.Offset, some bool) {
	for _, v := range h.saved {
		if v.Topic != topic.Name || v.Incarnation != topic.Incarnation || v.At < since {
			continue
		}
		for _, p := range v.Partitions {
			if p.Partition == partition && (!some || p.Floor < floor) {
				floor, some = p.Floor, true
			}
		}
	}
	return floor, some
}

// of returns the saved positions of a topic's channels, by index.
func (h History) of(topic *Topic) []*Saved {
	var found []*Saved
	for _, v := range h.saved {
		if v.Topic == topic.Name && v.Incarnation == topic.Incarnation {
			found = append(found, v)
		}
	}
	return found
}

// without returns the saved positions without those of a deleted topic.
func (h History) without(topic string) []*Saved {
	of := func(v *Saved) bool { return v.Topic == topic }
	if !slices.ContainsFunc(h.saved, of) {
		return h.saved
	}
	return slices.DeleteFunc(slices.Clone(h.saved), of)
}

// afterDelete returns the saved positions once a channel is deleted. Those of its version get the versions
// as which it was restored since they were saved: a restore of the deleted channel replaces those, too.
func (h History) afterDelete(topic string, ch *Channel) []*Saved {
	all := slices.Clone(h.saved)
	for i, v := range all {
		if v.of(topic, ch.Name) && v.Version == ch.Version {
			last := *v
			last.Former = ch.Former
			all[i] = &last
		}
	}
	return all
}

// restore appends saved positions from a snapshot.
func (v *Saved) restore(s *State) error {
	if err := v.validate(); err != nil {
		return err
	}
	if n := len(s.saved); v.Index == 0 || v.Index > s.index || n > 0 && s.saved[n-1].Index >= v.Index {
		return fmt.Errorf("saved positions %d out of order", v.Index)
	}
	s.saved = append(s.saved, v)
	return nil
}

// UnsavedIn returns the partitions of a topic in which the position was not saved.
func (v *Saved) UnsavedIn(t *Topic) (unsaved []int) {
	for i := range t.Partitions {
		if !slices.ContainsFunc(v.Partitions, func(p SavedPartition) bool { return p.Partition == i }) {
			unsaved = append(unsaved, i)
		}
	}
	return unsaved
}
