package meta

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
)

// Bounds of the trash: deleted topics whose data is kept until they are restored or purged.
const (
	DefaultTrash = 24 * time.Hour      // how long a topic without a time of its own is kept
	maxTrash     = 30 * 24 * time.Hour // the longest
	NoTrash      = time.Duration(-1)   // as TopicConfig.RetentionTrash: purged at once
	// maxTrashTopics and maxTrashPartitions bound the trash. The oldest topics are purged.
	maxTrashTopics     = 1000
	maxTrashPartitions = 10_000
)

// Trash returns how long the topic is kept once it is deleted; 0: not at all.
func (c TopicConfig) Trash() time.Duration {
	switch {
	case c.RetentionTrash == 0:
		return DefaultTrash
	case c.RetentionTrash < 0:
		return 0
	}
	return c.RetentionTrash
}

// Deleted is a topic in the trash: unchanged, except for what its nodes have lost since. Values
// returned by State are shared and must not be changed.
type Deleted struct {
	Index uint64   // the Raft index of the command that deleted it
	At    int64    // ns since 1970, by the clock of the metadata leader; 0: unknown
	Topic *Topic   // its partitions have no valid leader
	Saved []*Saved // saved positions of its channels
}

// Until returns when the topic is purged, by the clock that At is from.
func (d *Deleted) Until() time.Time { return time.Unix(0, d.At).Add(d.Topic.Config.Trash()) }

// Trash is the deleted topics that can be restored.
type Trash struct{ deleted []*Deleted }

// TrashOf returns the trash of a state.
func TrashOf(s *State) Trash { return Trash{s.trash} }

// All iterates over the trash, the first deleted first.
func (t Trash) All() iter.Seq[*Deleted] { return slices.Values(t.deleted) }

// Holds reports whether a topic is in the trash.
func (t Trash) Holds(name string, in Incarnation) bool { return t.find(name, in) >= 0 }

// Topic returns a topic in the trash, or nil.
func (t Trash) Topic(name string, in Incarnation) *Topic {
	if i := t.find(name, in); i >= 0 {
		return t.deleted[i].Topic
	}
	return nil
}

// Same reports whether two values are the same list, as of two states between which nothing entered
// or left the trash. It may be false for lists that are equal.
func (t Trash) Same(as Trash) bool {
	return len(t.deleted) == len(as.deleted) && (len(t.deleted) == 0 || &t.deleted[0] == &as.deleted[0])
}

// Gone iterates over the names of topics that were in an older trash and no longer are.
func (t Trash) Gone(since Trash) iter.Seq[string] {
	return func(yield func(string) bool) {
		if t.Same(since) {
			return
		}
		for _, d := range since.deleted {
			if !t.has(d.Index) && !yield(d.Topic.Name) {
				return
			}
		}
	}
}

// has reports whether a topic was deleted at an index.
func (t Trash) has(index uint64) bool {
	_, found := slices.BinarySearchFunc(t.deleted, index, func(d *Deleted, index uint64) int { return cmp.Compare(d.Index, index) })
	return found
}

// find returns the index of the last deleted topic with a name, of an incarnation or of any (0); -1
// if there is none.
func (t Trash) find(name string, in Incarnation) int {
	for i, d := range slices.Backward(t.deleted) {
		if d.Topic.Name == name && (in == 0 || d.Topic.Incarnation == in) {
			return i
		}
	}
	return -1
}

// count returns the number of topics with a name.
func (t Trash) count(name string) (n int) {
	for _, d := range t.deleted {
		if d.Topic.Name == name {
			n++
		}
	}
	return n
}

// with returns the trash with another topic, within its bounds, and the names of topics purged for
// that.
func (t Trash) with(d *Deleted) (all []*Deleted, gone []string) {
	all = append(slices.Clone(t.deleted), d)
	partitions := 0
	for i, d := range slices.Backward(all) {
		if partitions += len(d.Topic.Partitions); partitions > maxTrashPartitions || len(all)-i > maxTrashTopics {
			for _, old := range all[:i+1] {
				gone = append(gone, old.Topic.Name)
			}
			return all[i+1:], gone
		}
	}
	return all, nil
}

// update returns the trash with each topic replaced by the result of f; nil: it stays.
func (t Trash) update(f func(*Topic) *Topic) []*Deleted {
	var changed []*Deleted
	for i, d := range t.deleted {
		next := f(d.Topic)
		if next == nil {
			continue
		}
		if changed == nil {
			changed = slices.Clone(t.deleted)
		}
		changed[i] = &Deleted{d.Index, d.At, next, d.Saved}
	}
	if changed == nil {
		return t.deleted
	}
	return changed
}

// withoutNode removes the replicas of a node that leaves the cluster from the trash, and topics of
// which a partition has no other replica, and returns their names.
func (t Trash) withoutNode(id NodeID) (left []*Deleted, lost []string) {
	gone := []NodeID{id}
	left = t.update(func(topic *Topic) *Topic {
		if !slices.ContainsFunc(topic.Partitions, func(p Partition) bool { return slices.Contains(p.Replicas, id) }) {
			return nil
		}
		next := *topic
		next.Partitions = slices.Clone(topic.Partitions)
		for i := range next.Partitions {
			p := &next.Partitions[i]
			p.Replicas, p.ISR = minus(p.Replicas, gone), minus(p.ISR, gone)
			if p.Leader == id {
				p.Leader = ""
			}
			p.absolve()
		}
		return &next
	})
	whole := make([]*Deleted, 0, len(left))
	for _, d := range left {
		if slices.ContainsFunc(d.Topic.Partitions, func(p Partition) bool { return len(p.Replicas) == 0 }) {
			lost = append(lost, d.Topic.Name)
		} else {
			whole = append(whole, d)
		}
	}
	if len(lost) == 0 {
		return left, nil
	}
	return whole, lost
}

// Of returns how many topics in the trash have a copy on a node, and the names of those that cannot
// be restored without it, since no other copy is in sync. Topics in the trash do not move to other nodes.
func (t Trash) Of(id NodeID) (topics int, only []string) {
	for _, d := range t.deleted {
		has, alone := false, false
		for _, p := range d.Topic.Partitions {
			if slices.Contains(p.Replicas, id) {
				has, alone = true, alone || len(p.Replicas) == 1 || len(p.ISR) == 1 && p.ISR[0] == id
			}
		}
		if has {
			topics++
		}
		if alone {
			only = append(only, d.Topic.Name)
		}
	}
	return topics, only
}

// Without returns the topics in the trash of which a node has no copy.
func (t Trash) Without(id NodeID) (gone []Incarnation) {
	for _, d := range t.deleted {
		if !slices.ContainsFunc(d.Topic.Partitions, func(p Partition) bool { return slices.Contains(p.Replicas, id) }) {
			gone = append(gone, d.Topic.Incarnation)
		}
	}
	return gone
}

// settled returns the topic without reassignments in progress: at the target if all its replicas
// are in sync, otherwise at the origin, if an in-sync replica is there.
func (t *Topic) settled() *Topic {
	next := *t
	next.Partitions = slices.Clone(t.Partitions)
	for i := range next.Partitions {
		p := &next.Partitions[i]
		to := p.Target()
		if len(minus(to, p.ISR)) > 0 {
			to = p.Before
		}
		if in := minus(p.ISR, minus(p.ISR, to)); p.Moving() && len(in) > 0 {
			p.Replicas, p.ISR = slices.Clone(to), in
			if !slices.Contains(in, p.Leader) {
				p.Leader = ""
			}
			p.absolve()
		}
		p.Adding, p.Removing, p.Before = nil, nil, nil
	}
	return &next
}

// RestoreTopic restores a topic from the trash unchanged, with all its messages, channels and
// positions, and each partition in a new epoch.
type RestoreTopic struct {
	Name        string      `json:"name"`
	Incarnation Incarnation `json:"incarnation,omitempty"` // 0: the only one with the name
	Replaces    Incarnation `json:"replaces,omitempty"`    // delete this topic with the name; only with Incarnation
}

func (c RestoreTopic) validate() error {
	if err := checkTopic(c.Name); err != nil {
		return err
	}
	if c.Replaces != 0 && c.Incarnation == 0 {
		return fmt.Errorf("%w: replacing topic %s needs the incarnation to restore", failure.InvalidConfig, c.Name)
	}
	return nil
}

func (c RestoreTopic) apply(s *State, r *Result) error {
	at, now := TrashOf(s).find(c.Name, c.Incarnation), s.topics.get(c.Name)
	free := 0 // partitions of the replaced topic
	if now != nil && c.Replaces == now.Incarnation {
		free = len(now.Partitions)
	}
	switch {
	case at < 0:
		return fmt.Errorf("topic %s: %w", c.Name, failure.NotInTrash)
	case now != nil && free == 0:
		return fmt.Errorf("%w: topic %s was created again after the deletion", failure.NameTaken, c.Name)
	case c.Incarnation == 0 && TrashOf(s).count(c.Name) > 1:
		return fmt.Errorf("%w: %d deleted topics are named %s", failure.ManyDeleted, TrashOf(s).count(c.Name), c.Name)
	}
	d := s.trash[at]
	if free == 0 && s.topics.count >= maxTopics || s.topics.partitions-free+len(d.Topic.Partitions) > maxClusterPartitions {
		return fmt.Errorf("%w: %d topics, %d partitions", failure.LimitReached, maxTopics, maxClusterPartitions)
	}
	t := *d.Topic
	t.Version = s.index
	t.Partitions = slices.Clone(t.Partitions)
	for i := range t.Partitions {
		p := &t.Partitions[i]
		p.Epoch++
		p.Version++
	}
	s.trash = slices.Delete(slices.Clone(s.trash), at, at+1)
	if free > 0 {
		if err := (DeleteTopic{Name: c.Name}).apply(s, r); err != nil {
			return err
		}
	}
	for _, v := range d.Saved {
		s.saved = insertSaved(s.saved, v)
	}
	r.Topic = s.topics.put(&t)
	return nil
}

// insertSaved inserts saved positions in the order of their indexes.
func insertSaved(all []*Saved, v *Saved) []*Saved {
	at, _ := slices.BinarySearchFunc(all, v.Index, func(v *Saved, index uint64) int { return cmp.Compare(v.Index, index) })
	all = slices.Insert(slices.Clone(all), at, v)
	return all[max(0, len(all)-maxSaved):]
}

// PurgeTopics purges topics from the trash: every node deletes its data. Topics that are not in the
// trash are ignored.
type PurgeTopics struct {
	Incarnations []Incarnation `json:"incarnations"`
}

func (c PurgeTopics) validate() error {
	if len(c.Incarnations) == 0 || len(c.Incarnations) > maxTrashTopics {
		return fmt.Errorf("%w: %d topics to purge", failure.InvalidConfig, len(c.Incarnations))
	}
	return nil
}

func (c PurgeTopics) apply(s *State, r *Result) error {
	named := func(d *Deleted) bool { return slices.Contains(c.Incarnations, d.Topic.Incarnation) }
	if !slices.ContainsFunc(s.trash, named) {
		return failure.NotInTrash
	}
	for _, d := range s.trash {
		if named(d) {
			r.Purged = append(r.Purged, d.Topic.Name)
		}
	}
	s.trash = slices.DeleteFunc(slices.Clone(s.trash), named)
	return nil
}

// snapshotDeleted is a line of a snapshot.
type snapshotDeleted struct {
	Index uint64        `json:"index"`
	At    int64         `json:"at"`
	Topic snapshotTopic `json:"topic"`
	Saved []*Saved      `json:"saved,omitempty"`
}

func (t Trash) encode(e *json.Encoder) error {
	for _, d := range t.deleted {
		if err := e.Encode(snapshotDeleted{d.Index, d.At, d.Topic.snapshot(), d.Saved}); err != nil {
			return err
		}
	}
	return nil
}

// decodeTrash decodes n lines of a snapshot.
func decodeTrash(s *State, n int, next func(any) error) error {
	for range n {
		var in snapshotDeleted
		if err := next(&in); err != nil {
			return fmt.Errorf("trash: %w", err)
		}
		if err := in.restore(s); err != nil {
			return fmt.Errorf("trash: topic %q: %w", in.Topic.Name, err)
		}
	}
	return nil
}

func (in *snapshotDeleted) restore(s *State) error {
	if n := len(s.trash); in.Index == 0 || in.Index > s.index || n > 0 && s.trash[n-1].Index >= in.Index {
		return fmt.Errorf("index %d out of order", in.Index)
	}
	t, err := in.Topic.topic(s)
	if err != nil {
		return err
	}
	last := uint64(0)
	for _, v := range in.Saved {
		if err := v.validate(); err != nil {
			return err
		}
		if v.Index <= last || v.Index > s.index {
			return fmt.Errorf("saved positions %d out of order", v.Index)
		}
		last = v.Index
	}
	s.trash = append(s.trash, &Deleted{in.Index, in.At, t, in.Saved})
	return nil
}
