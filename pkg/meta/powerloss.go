package meta

import "slices"

// lostPower says whether a start of a node means that what it had not synced may
// be gone: its process did not end in order, and the machine was started since.
// A process that was killed on a machine that kept running has lost nothing.
// Where one of the boot ids is not known, the answer is the careful one.
func lostPower(was *Node, c *NodeStarted) bool {
	return was != nil && c.Unclean && (c.Node.BootID == "" || was.BootID != c.Node.BootID)
}

// unsynced says whether acknowledged messages of the topic may be in memory only.
func (t *Topic) unsynced() bool { return t.Config.Sync.Every != 1 }

// withoutReplica returns the topic with id out of every in-sync set that has
// another member, and not leading there; or nil where nothing changes.
func withoutReplica(t *Topic, id NodeID, index uint64) *Topic {
	var next *Topic
	for i := range t.Partitions {
		if isr := t.Partitions[i].ISR; len(isr) < 2 || !slices.Contains(isr, id) {
			continue
		}
		if next == nil {
			copied := *t
			copied.Version = index
			copied.Partitions = slices.Clone(t.Partitions)
			next = &copied
		}
		p := &next.Partitions[i]
		p.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(m NodeID) bool { return m == id })
		p.Version++
		if p.Leader == id {
			p.Leader = ""
			p.Epoch++
		}
	}
	return next
}

// SoleCopies lists the partitions of which id is the only in-sync replica though
// the topic does not sync always, by topic and number. After a loss of power the
// node serves what it has of them: the operator is to be told.
func (s *State) SoleCopies(id NodeID) map[string][]int {
	out := map[string][]int{}
	for _, t := range s.topics {
		for i := range t.Partitions {
			if isr := t.Partitions[i].ISR; t.unsynced() && len(isr) == 1 && isr[0] == id {
				out[t.Name] = append(out[t.Name], i)
			}
		}
	}
	return out
}
