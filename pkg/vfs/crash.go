package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash describes what a power cut does to data that was not synced.
type Crash struct {
	// Rand decides. nil: everything that was not synced is lost.
	Rand *rand.Rand
	// KeepPercent is how likely an unsynced change survives, per block of data and per change of a
	// directory. 100 keeps everything, as when only the process is killed.
	KeepPercent int
	// TornPercent is how likely a block whose new content survives is torn: some of its sectors are
	// new, the others old.
	TornPercent int
}

func (c Crash) keep() bool {
	return c.KeepPercent >= 100 || c.Rand != nil && c.Rand.IntN(100) < c.KeepPercent
}

func (c Crash) torn() bool { return c.Rand != nil && c.Rand.IntN(100) < c.TornPercent }

// CrashClone returns a file system in a state in which a power cut at this moment could leave m.
// Synced data is there. Each unsynced block of data and each unsynced change of a directory is
// there, is missing, or is torn, at random and independently. The clone is crashable, and
// everything in it counts as synced. Its locks are free. m is not changed, and must be crashable.
func (m *Mem) CrashClone(c Crash) *Mem {
	if !m.track {
		panic("BUG: CrashClone of a file system that does not track syncs")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	clone := NewCrashable()
	clone.root = c.dir(m.root, map[*memData]*memData{})
	return clone
}

// dir clones a directory. done holds the files that were cloned before: a file that an unfinished
// rename left under two names stays one file.
func (c Crash) dir(n *memNode, done map[*memData]*memData) *memNode {
	names := maps.Clone(n.synced)
	if names == nil {
		names = map[string]*memNode{}
	}
	for _, change := range n.pending {
		if c.keep() {
			change.apply(names)
		}
	}
	clone := newDir()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		node := names[name]
		if node.file == nil {
			clone.children[name] = c.dir(node, done)
			continue
		}
		if done[node.file] == nil {
			done[node.file] = c.file(node.file)
		}
		clone.children[name] = &memNode{file: done[node.file]}
	}
	clone.synced = maps.Clone(clone.children)
	return clone
}

func (c Crash) file(d *memData) *memData {
	d.mu.RLock()
	defer d.mu.RUnlock()
	size := d.syncedSize
	if size != d.size && c.keep() {
		size = d.size
	}
	clone := &memData{track: true}
	clone.growLocked(size)
	for i := range clone.blocks {
		var now *block
		if i < len(d.blocks) {
			now = d.blocks[i]
		}
		old, changed := d.dirty[int64(i)]
		switch {
		case !changed:
			clone.blocks[i] = now
		case !c.keep():
			clone.blocks[i] = old
		case c.torn():
			clone.blocks[i] = c.tear(old, now)
		default:
			clone.blocks[i] = now.copy()
		}
	}
	if at := size % blockSize; at != 0 {
		if last := &clone.blocks[len(clone.blocks)-1]; *last != nil {
			*last = (*last).copy()
			clear((*last)[at:])
		}
	}
	clone.syncedSize = size
	return clone
}

func (c Crash) tear(old, now *block) *block {
	torn := new(block)
	for at := 0; at < blockSize; at += sectorSize {
		from := old
		if c.Rand.IntN(2) == 0 {
			from = now
		}
		if from != nil {
			copy(torn[at:at+sectorSize], from[at:at+sectorSize])
		}
	}
	return torn
}

func (b *block) copy() *block {
	if b == nil {
		return nil
	}
	return new(*b)
}
