package meta

import "slices"

// loss is what a node no longer holds of what it had acknowledged.
type loss uint8

const (
	lossNone     loss = iota
	lossUnsynced      // what was in memory only: messages where not each is synced, and confirmed positions of ordered channels
	lossAll
)

// lossOf says what a start of a node means for what it held.
func lossOf(was *Node, c *NodeStarted) loss {
	switch {
	case was != nil && c.Empty:
		return lossAll
	case lostPower(was, c):
		return lossUnsynced
	}
	return lossNone
}

// apply returns the topic with id out of the in-sync sets that it has no place
// in any more, or nil where nothing changes.
func (l loss) apply(t *Topic, id NodeID, index uint64) *Topic {
	switch {
	case l == lossAll:
		return withoutReplica(t, id, 1, index)
	case l == lossUnsynced && (t.unsynced() || t.ordering()):
		return withoutReplica(t, id, 2, index)
	}
	return nil
}

// lostPower reports whether a start of a node means that what it had not synced may
// be gone: its process did not end in order, and the machine was started since.
// A process that was killed on a machine that kept running has lost nothing.
// Where one of the boot ids is not known, the answer is the careful one.
func lostPower(was *Node, c *NodeStarted) bool {
	return was != nil && c.Unclean && (c.Node.BootID == "" || was.BootID != c.Node.BootID)
}

// unsynced reports whether acknowledged messages of the topic may be in memory only.
// What it was acknowledged by counts, and not how the topic syncs now.
func (t *Topic) unsynced() bool { return !t.Config.Sync.Always() || t.Tightened }

// SyncedEach reports whether each message of the topic was synced before the next was
// appended, since the topic was made.
func (t *Topic) SyncedEach() bool { return !t.unsynced() }

// ordering reports whether a channel of the topic has an order. What such a channel has
// confirmed is replicated before it counts, and synced a moment later.
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

// withoutReplica returns the topic with id out of every in-sync set of at least
// that many members, and not leading there; or nil where nothing changes.
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
			p.ISR = nil // as a snapshot reads it
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
