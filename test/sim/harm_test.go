package sim

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// harm damages the files of one machine while no node runs. The other replicas are intact, and
// nothing may be lost.
type harm struct {
	m    *machine
	rnd  *rand.Rand
	past *vfs.Mem // what the machine stored at some moment; nil: that moment has not come yet
}

func newHarm(w *world, rnd *rand.Rand) *harm {
	return &harm{m: w.machines[rnd.IntN(len(w.machines))], rnd: rnd}
}

// remember copies what the machine stores, from time to time.
func (h *harm) remember() {
	if h.past != nil && h.rnd.IntN(10) > 0 {
		return
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	h.past = h.m.disk.CrashClone(vfs.Crash{KeepPercent: 100})
}

// do damages those replicas that are not the only one in sync of their partition. The nodes have
// ended with this metadata, cleanly or not. When nodes stop cleanly, all but the last leave the
// in-sync set: the set may have changed when no node could see the change any more.
func (h *harm) do(state *meta.State, inOrder bool) {
	if state == nil {
		return
	}
	self := meta.NodeID(h.m.host)
	harmFiles := []func(dir string){h.nothing, h.anyFiles, h.anyFiles, h.smallFiles, h.putBack, h.putBack, h.removeAll}[h.rnd.IntN(7)]
	for t := range state.Topics() {
		for i, p := range t.Partitions {
			inSync := slices.Contains(p.ISR, self)
			if inSync && (inOrder || len(p.ISR) == 1) || h.rnd.IntN(3) == 0 {
				continue
			}
			if dir := h.m.dirOf(t.Name, i); dir != "" {
				harmFiles(dir)
			}
		}
	}
}

// dirOf returns the directory of a replica; "": the machine has none.
func (m *machine) dirOf(topic string, partition int) string {
	topics := filepath.Join(m.dir, "topics")
	for _, name := range entries(m.disk, topics) {
		if strings.HasPrefix(name, topic+".") && strings.LastIndex(name, ".") == len(topic) { // and it is not a longer name
			dir := filepath.Join(topics, name, strconv.Itoa(partition))
			if _, err := m.disk.Stat(dir); err == nil {
				return dir
			}
		}
	}
	return ""
}

func (*harm) nothing(string) {}

// anyFiles damages some of the files in a directory.
func (h *harm) anyFiles(dir string) {
	for _, name := range entries(h.m.disk, dir) {
		if h.rnd.IntN(3) == 0 {
			h.spoil(filepath.Join(dir, name))
		}
	}
}

// smallFiles damages files in a directory that hold no messages.
func (h *harm) smallFiles(dir string) {
	for _, name := range entries(h.m.disk, dir) {
		if filepath.Ext(name) != ".log" && h.rnd.IntN(2) == 0 {
			h.spoil(filepath.Join(dir, name))
		}
	}
}

// spoil changes a byte of a file, truncates the file, or removes it.
func (h *harm) spoil(path string) {
	disk := h.m.disk
	raw, err := vfs.ReadFile(disk, path, 1<<30)
	if err != nil {
		return // a directory
	}
	k := h.rnd.IntN(5)
	if k == 0 || len(raw) == 0 {
		if oldestOfMany(disk, path) {
			return
		}
		h.m.w.trace.Add("%s is removed", path)
		_ = disk.Remove(path)
		return
	}
	f, err := disk.OpenReadWrite(path)
	if err != nil {
		return
	}
	defer f.Close()
	at := h.rnd.IntN(len(raw))
	if k == 1 {
		h.m.w.trace.Add("%s is cut at %d of %d", path, at, len(raw))
		_ = f.Truncate(int64(at))
	} else {
		h.m.w.trace.Add("%s has another byte at %d of %d", path, at, len(raw))
		_, _ = f.WriteAt([]byte{raw[at] ^ byte(1+h.rnd.IntN(255))}, int64(at))
	}
	_ = f.SyncData()
}

// oldestOfMany reports whether a file is the oldest of several segments. If it and the small files
// beside it are missing, a log looks as if retention had deleted the segment.
func oldestOfMany(disk *vfs.Mem, path string) bool {
	var segments []string
	for _, name := range entries(disk, filepath.Dir(path)) {
		if filepath.Ext(name) == ".log" {
			segments = append(segments, name)
		}
	}
	return len(segments) > 1 && segments[0] == filepath.Base(path)
}

// putBack restores a directory to its state at the remembered moment.
func (h *harm) putBack(dir string) {
	h.m.w.trace.Add("%s is put back to an older state", dir)
	_ = h.m.disk.RemoveAll(dir)
	names, err := h.past.ReadDir(dir)
	if err != nil {
		return // it was not there
	}
	_ = vfs.MkdirAllSynced(h.m.disk, dir)
	for _, name := range names {
		path := filepath.Join(dir, name)
		if raw, err := vfs.ReadFile(h.past, path, 1<<30); err == nil {
			_ = vfs.WriteFileSynced(h.m.disk, path, raw)
		}
	}
}

func (h *harm) removeAll(dir string) {
	h.m.w.trace.Add("%s is removed", dir)
	_ = h.m.disk.RemoveAll(dir)
}
