package meta

import "slices"

// loss is what a node has lost of acknowledged data.
type loss uint8

const (
	lossNone     loss = iota
	lossUnsynced      // data only in memory: messages that were not synced each, and confirmed positions of ordered channels
	lossAll
)

// lossOf returns what a node has lost according to its start.
func lossOf(was *Node, c *NodeStarted) loss {
	switch {
	case was != nil && c.Empty:
		return lossAll
	case was != nil && was.Disk.Outdated(c.Node.Disk, c.Follows):
		return lossAll
	case lostPower(was, c):
		return lossUnsynced
	}
	return lossNone
}

// apply returns the topic without id in the in-sync sets that it must leave, or nil if nothing
// changes.
func (l loss) apply(t *Topic, id NodeID, index uint64) *Topic {
	switch {
	case l == lossAll:
		return withoutReplica(t, id, 1, index)
	case l == lossUnsynced && (t.unsynced() || t.ordering()):
		return withoutReplica(t, id, 2, index)
	}
	return nil
}

// lostPower reports whether a start of a node means that unsynced data may be gone: its process did
// not stop cleanly, and the machine was started since. A process that was killed on a running
// machine has lost nothing. If a boot id is unknown, the cautious answer is true.
func lostPower(was *Node, c *NodeStarted) bool {
	return was != nil && c.Unclean && (c.Node.BootID == "" || was.BootID != c.Node.BootID)
}

// unsynced reports whether acknowledged messages of the topic may be only in memory. The policy at
// the time of the acknowledgement counts, not the current one.
func (t *Topic) unsynced() bool { return !t.Config.Sync.Always() || t.Tightened }

// SyncedEach reports whether each message of the topic was synced before the next was appended,
// since its creation.
func (t *Topic) SyncedEach() bool { return !t.unsynced() }

// ordering reports whether a channel of the topic has an order. Positions that such a channel has
// confirmed are replicated before they count, and synced a moment later.
func (t *Topic) ordering() bool {
	if t.Config.Ordered {
		return true
	}
	for _, ch := range t.Channels {
		if ch.Order.Some() {
			return true
		}
	}
	return false
}

// withoutReplica returns the topic without id in every in-sync set of at least that many members,
// and without its leaderships there, or nil if nothing changes.
func withoutReplica(t *Topic, id NodeID, least int, index uint64) *Topic {
	var next *Topic
	for i := range t.Partitions {
		if isr := t.Partitions[i].ISR; len(isr) < least || !slices.Contains(isr, id) {
			continue
		}
		if next == nil {
			copied := *t
			copied.Version = index
			copied.Partitions = slices.Clone(t.Partitions)
			next = &copied
		}
		p := &next.Partitions[i]
		if p.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(m NodeID) bool { return m == id }); len(p.ISR) == 0 {
			p.ISR = nil // as decoded from a snapshot
		}
		p.absolve()
		p.Version++
		if p.Leader == id {
			p.Leader = ""
			p.Epoch++
		}
	}
	return next
}

// SoleCopies lists the partitions with id as the only in-sync replica whose topic does not sync
// always, by topic and number. After a power failure the node serves what it has of them, and
// the operator is warned.
func (s *State) SoleCopies(id NodeID) map[string][]int {
	out := map[string][]int{}
	for t := range s.topics.all() {
		for i := range t.Partitions {
			if isr := t.Partitions[i].ISR; t.unsynced() && len(isr) == 1 && isr[0] == id {
				out[t.Name] = append(out[t.Name], i)
			}
		}
	}
	return out
}
