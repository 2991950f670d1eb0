package meta

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
)

// Cluster is the cluster's name, and what its nodes may rely on.
type Cluster struct {
	ID    string      `json:"id"`              // "" if not yet named
	Level level.Level `json:"level,omitempty"` // the feature level
}

// State is the metadata at one index. The zero value is the state before the first command. Any
// number of goroutines may read it while none applies; values returned by its methods stay valid
// and unchanged.
type State struct {
	index    uint64
	cluster  Cluster
	settings Settings
	nodes    []*Node // by ID
	topics   topicSet
	saved    []*Saved   // by index; replaced, never changed
	trash    []*Deleted // by index, likewise
	past     past
	access   *access.Directory // nil: nothing was ever changed
}

// Result is the outcome of a command.
type Result struct {
	Index   uint64   // of the command
	Err     error    // why it was refused; nil: success
	Existed bool     // what it should create existed already, and matches
	Topic   *Topic   // as it is now, for commands on one topic that still exists
	Channel *Channel // as it is now, for commands on one channel that still exists
	Node    *Node    // as it is now, for commands on one node that still exists
	Purged  []string // names of topics that were purged from the trash
	Failed  []error  // of a command with many parts: an error or nil for each; nil: all succeeded

	DiskBefore Disk // of NodeStarted: the disk of the start before

	at int64 // when the command was proposed, ns since 1970; 0: unknown
}

// Index returns the index of the last command applied.
func (s *State) Index() uint64 { return s.index }

// Cluster returns the cluster's name.
func (s *State) Cluster() Cluster { return s.cluster }

// Settings returns the cluster-wide settings.
func (s *State) Settings() Settings { return s.settings }

// Topic returns a topic, or nil.
func (s *State) Topic(name string) *Topic {
	return s.topics.get(name)
}

// Topics iterates over the topics in the order of their names.
func (s *State) Topics() iter.Seq[*Topic] { return s.topics.all() }

// TopicCount returns the number of topics.
func (s *State) TopicCount() int { return s.topics.count }

// Changes iterates over the topics that differ from those of an older state, by name, with the old
// and the new value; nil: none. If one state was derived from the other, it visits little more than
// the differences, however many topics there are.
func (s *State) Changes(since *State) iter.Seq2[*Topic, *Topic] { return s.topics.since(&since.topics) }

// EachPartition calls f with every partition, by topic and number.
func EachPartition(s *State, f func(t *Topic, i int, p *Partition)) {
	for t := range s.Topics() {
		for i := range t.Partitions {
			f(t, i, &t.Partitions[i])
		}
	}
}

// Node returns a node, or nil.
func (s *State) Node(id NodeID) *Node {
	if i, ok := s.findNode(id); ok {
		return s.nodes[i]
	}
	return nil
}

// Nodes iterates over the nodes in the order of their ids.
func (s *State) Nodes() iter.Seq[*Node] { return slices.Values(s.nodes) }

// SameNodes reports whether no node differs between two states of one history.
func SameNodes(a, b *State) bool { return slices.Equal(a.nodes, b.nodes) }

// NodeCount returns the number of nodes, in whatever state.
func (s *State) NodeCount() int { return len(s.nodes) }

// Apply applies one command. Indexes must increase; a command at an earlier index is refused. A
// refused command changes only the index.
func (s *State) Apply(index uint64, c Command) Result { return ApplyAt(s, index, 0, c) }

// ApplyAt is Apply of a command that was proposed at a moment, ns since 1970: its change is an
// event of the journal.
func ApplyAt(s *State, index uint64, at int64, c Command) Result {
	if index <= s.index {
		return Result{Index: index, Err: failure.StaleIndex}
	}
	s.index = index
	r := Result{Index: index}
	before := s.topics
	if r.Err = c.validate(); r.Err == nil {
		r.at = at
		r.Err = c.apply(s, &r)
	}
	if r.Err != nil {
		return Result{Index: index, Err: r.Err}
	}
	s.past.happened(s, at, c, &r, &before)
	return r
}

func (s *State) findNode(id NodeID) (int, bool) {
	return slices.BinarySearchFunc(s.nodes, id, func(n *Node, id NodeID) int { return cmp.Compare(n.ID, id) })
}

// edit returns a copy of a topic, to change and store. Incarnation 0 means any. The copy shares
// partitions and channels with the old value.
func (s *State) edit(name string, in Incarnation) (*Topic, error) {
	was := s.topics.get(name)
	if was == nil {
		return nil, failure.TopicNotFound
	}
	if in != 0 && in != was.Incarnation {
		return nil, failure.StaleIncarnation
	}
	t := *was
	t.Version = s.index
	return &t, nil
}

// found returns a node that there is.
func (s *State) found(id NodeID) (*Node, error) {
	if n := s.Node(id); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("node %s: %w", id, failure.NodeNotFound)
}

// started returns a node that has not started again since an incarnation.
func (s *State) started(id NodeID, incarnation uint64) (*Node, error) {
	n, err := s.found(id)
	if err == nil && n.Incarnation != incarnation {
		return nil, fmt.Errorf("node %s: %w", id, failure.StaleIncarnation)
	}
	return n, err
}

// replaceNode replaces a node, or adds it, and returns it.
func (s *State) replaceNode(n *Node) *Node {
	i, ok := s.findNode(n.ID)
	if !ok {
		s.nodes = slices.Insert(s.nodes, i, n)
	}
	s.nodes[i] = n
	return n
}

// intern replaces ids by the strings of the registered nodes, so that a thousand topics do not hold
// a thousand copies of each.
func (s *State) intern(ids ...NodeID) []NodeID {
	if len(ids) == 0 {
		return nil
	}
	out := make([]NodeID, len(ids))
	for i, id := range ids {
		out[i] = id
		if n := s.Node(id); n != nil {
			out[i] = n.ID
		}
	}
	return out
}
