package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash says what a power cut does to what was not synced.
type Crash struct {
	// Rand decides. With nil all that was not synced is lost.
	Rand *rand.Rand
	// KeepPercent is how likely it is that an unsynced change survives, per
	// block of data and per change of a directory. 100 keeps everything: that is
	// a killed process.
	KeepPercent int
	// TornPercent is how likely it is that a block of which the new content
	// survives is torn: some of its sectors are new, the others old.
	TornPercent int
}

func (c Crash) keep() bool {
	return c.KeepPercent >= 100 || c.Rand != nil && c.Rand.IntN(100) < c.KeepPercent
}

func (c Crash) torn() bool { return c.Rand != nil && c.Rand.IntN(100) < c.TornPercent }

// CrashClone returns a file system as a power cut at this moment could leave m:
// what was synced is there; each block of data and each change of a directory
// that was not is there, is not, or is torn, by chance and one by one. The
// clone is crashable, and all that it holds counts as synced. Locks are free in
// it. m is not changed, and must be crashable.
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

// dir clones a directory. done holds the files that were cloned before: a file
// that a half-done rename left under two names stays one file.
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
