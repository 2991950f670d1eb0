package raftstore

import (
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/meta"
)

// local reads the state on this node.
type local struct{ machine *machine }

// Read calls f with the state under a lock. f must be short and must not call the store. Values
// from the state stay valid.
func (s local) Read(f func(*meta.State)) { s.machine.read(f) }

// View returns the current state as an immutable value.
func (s local) View() (v *meta.State) {
	s.Read(func(m *meta.State) { v = m.Snapshot() })
	return v
}

// Topic returns a topic from the local metadata, or nil.
func (s local) Topic(name string) (t *meta.Topic) {
	s.Read(func(m *meta.State) { t = m.Topic(name) })
	return t
}

// Topics returns all topics, sorted by name. The slice is the caller's.
func (s local) Topics() (all []*meta.Topic) {
	s.Read(func(m *meta.State) {
		all = make([]*meta.Topic, 0, m.TopicCount())
		for t := range m.Topics() {
			all = append(all, t)
		}
	})
	return all
}

// Node returns a node from the local metadata, or nil.
func (s local) Node(id meta.NodeID) (n *meta.Node) {
	s.Read(func(m *meta.State) { n = m.Node(id) })
	return n
}

// Nodes returns all nodes, sorted by id. The slice is the caller's.
func (s local) Nodes() (all []*meta.Node) {
	s.Read(func(m *meta.State) {
		all = make([]*meta.Node, 0, m.NodeCount())
		for n := range m.Nodes() {
			all = append(all, n)
		}
	})
	return all
}

// Settings returns the cluster-wide settings from the local metadata.
func (s local) Settings() (v meta.Settings) {
	s.Read(func(m *meta.State) { v = m.Settings() })
	return v
}

// Applied returns the index of the last command in the state.
func (s local) Applied() (index uint64) {
	s.Read(func(m *meta.State) { index = m.Index() })
	return index
}

// AccessOf returns the access control directory on this node: the same pointer until it changes. It
// takes no lock.
func AccessOf(s *Store) *access.Directory { return s.machine.access.Load() }

// Changed returns a channel that is closed when the state has changed. Get it before reading, so
// that no change is missed.
func (s local) Changed() <-chan struct{} { return s.machine.wait() }
