package sim

import (
	"path/filepath"
	"strings"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// rotPositions damages what a machine without a process has stored of the positions of some
// partitions: it changes a bit of one file or of every file, or removes files. The node must start,
// and no message may be skipped.
func (m *machine) rotPositions() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life != nil {
		return
	}
	m.w.lost.Add(1)
	topics := filepath.Join(m.dir, "topics")
	for _, topic := range entries(m.disk, topics) {
		for _, partition := range entries(m.disk, filepath.Join(topics, topic)) {
			if m.w.rnd.IntN(2) == 0 {
				m.rot(filepath.Join(topics, topic, partition))
			}
		}
	}
	for _, kind := range m.w.channels {
		for _, ch := range kind {
			ch.LosePositions()
		}
	}
}

func entries(disk *vfs.Mem, dir string) []string {
	all, err := disk.ReadDir(dir)
	if err != nil {
		return nil
	}
	return all
}

// rot damages the positions in a replica's directory. The caller holds the machine's lock.
func (m *machine) rot(dir string) {
	every, gone := m.w.rnd.IntN(3) == 0, m.w.rnd.IntN(4) == 0
	for _, name := range entries(m.disk, dir) {
		if !strings.HasPrefix(name, "positions.") || !every && m.w.rnd.IntN(3) > 0 {
			continue
		}
		path := filepath.Join(dir, name)
		m.w.trace.Add("%s: rot in %s, all of it %v", m.host, path, gone)
		if gone {
			_ = m.disk.Remove(path)
			continue
		}
		info, err := m.disk.Stat(path)
		if err != nil || info.Size() == 0 {
			continue
		}
		f, err := m.disk.OpenReadWrite(path)
		if err != nil {
			continue
		}
		at, bit := m.w.rnd.Int64N(info.Size()), byte(1)<<m.w.rnd.IntN(8)
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, at); err == nil {
			b[0] ^= bit
			_, _ = f.WriteAt(b, at)
		}
		_ = f.SyncData()
		_ = f.Close()
	}
	_ = m.disk.SyncDir(dir)
}
