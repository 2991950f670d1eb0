package sim

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// scrubEvery is how often the scrubber reads every stored byte.
const scrubEvery = time.Second

// rotLogs damages logs while nodes run and all replicas are in sync. The scrubber finds damage
// that no consumer reads, and the node repairs it: in the end all replicas are the same.
func (w *world) rotLogs() {
	if w.plan.damage {
		w.eachState(w.rotAll)
	} else {
		w.rotOne()
	}
	w.rotted = time.Now()
	time.Sleep(3 * scrubEvery)
}

// rotOne changes a byte in each file of the logs that a machine stores, or removes some of the
// files, while its node runs. In some runs the node is killed, stopped or cut off before the damage
// is found.
func (w *world) rotOne() {
	m := w.machines[w.rnd.IntN(len(w.machines))]
	l := m.running()
	if l == nil {
		return
	}
	harmed := 0
	for t := range newest([]*life{l}).Topics() {
		for i, p := range t.Partitions {
			dir := m.dirOf(t.Name, i)
			if len(p.ISR) < 2 || dir == "" {
				continue
			}
			for _, name := range entries(m.disk, dir) {
				if w.rnd.IntN(3) == 0 && w.harm(m, filepath.Join(dir, name)) {
					harmed++
				}
			}
		}
	}
	w.trace.Add("%d files of %s rot", harmed, m.host)
	if w.rnd.IntN(2) == 0 {
		for range 1 + w.rnd.IntN(3) {
			w.hinder(m)
		}
	}
}

// rotAll damages every copy of the partitions, each in another part of the log, so that each
// message is intact in some copy.
func (w *world) rotAll(t *meta.Topic) {
	harmed := 0
	for i, p := range t.Partitions {
		for k, id := range p.Replicas {
			m := w.machines[slices.IndexFunc(w.machines, func(m *machine) bool { return m.host == string(id) })]
			if dir := m.dirOf(theTopic, i); dir != "" {
				harmed += w.harmPart(m, dir, uint64(k), uint64(len(p.Replicas)))
			}
		}
	}
	w.trace.Add("%d segments rot, on all machines", harmed)
}

// harmPart damages those segments of a log that hold part k of n of its offsets, and nothing else.
func (w *world) harmPart(m *machine, dir string, k, n uint64) (harmed int) {
	x, err := commitlog.Inspect(m.disk, dir, nil)
	if err != nil {
		w.wrong("the log of %s in %s: %v", m.host, dir, err)
		return 0
	}
	var names []string
	bases := []seq.Offset{x.End}
	for _, name := range slices.Backward(entries(m.disk, dir)) {
		if base, ok := segmenthead.ParseName(name); ok {
			names, bases = append(names, name), append(bases, base)
		}
	}
	from, next := seq.Offset(uint64(x.End)*k/n), seq.Offset(uint64(x.End)*(k+1)/n)
	for i, name := range names {
		if i == 0 && !w.plan.sync.Always() {
			continue // the end of the log: a loss of power may have removed it from all copies
		}
		if bases[i+1] >= from && bases[i] <= next && w.rnd.IntN(2) == 0 && w.harm(m, filepath.Join(dir, name)) {
			harmed++
		}
	}
	return harmed
}

// hinder makes one node fail for a moment, and no other.
func (w *world) hinder(m *machine) {
	pause := func(most time.Duration) { time.Sleep(time.Duration(w.rnd.Int64N(int64(most)))) }
	pause(scrubEvery / 2)
	l := m.running()
	switch k := w.rnd.IntN(5); {
	case l == nil:
	case k == 0:
		l.kill(vfs.Crash{KeepPercent: 100}, "is killed")
	case k == 1 && w.plan.sync.Always():
		m.losePower(l, w.crash())
	case k == 2:
		w.trace.Add("%s is to stop", m.host)
		l.stop()
		<-l.gone
	default:
		w.isolate(m)
	}
	pause(scrubEvery / 2)
	w.healNetwork()
	m.start()
}

// harm changes a byte of a file of a log, or removes the file. It returns whether there was a file
// to damage.
func (w *world) harm(m *machine, path string) bool {
	segment := strings.HasSuffix(path, ".log")
	if !segment && !strings.HasSuffix(path, ".index") && filepath.Base(path) != "checkpoint" {
		return false
	}
	if segment && w.rnd.IntN(4) == 0 && !oldestOfMany(m.disk, path) {
		return m.disk.Remove(path) == nil
	}
	raw, err := vfs.ReadFile(m.disk, path, 1<<30)
	if err != nil || len(raw) == 0 {
		return false
	}
	f, err := m.disk.OpenReadWrite(path)
	if err != nil {
		return false
	}
	defer f.Close()
	at := w.rnd.Int64N(int64(len(raw)))
	_, err = f.WriteAt([]byte{raw[at] ^ byte(1+w.rnd.IntN(255))}, at)
	return err == nil
}

// damaged names a node that holds a log it cannot read in full, or that has not read everything
// since the last damage.
func (w *world) damaged() string {
	for _, m := range w.machines {
		l := m.running()
		if l == nil {
			continue
		}
		h := l.broker.Load().Host
		if h.Topics.LogStats().Unreadable > 0 {
			return m.host + " holds damaged data"
		}
		if s := h.Scrubber.Stats(); s.Oldest > time.Since(w.rotted) {
			return m.host + " has not read all that it stores since"
		}
	}
	return w.unsynced()
}
