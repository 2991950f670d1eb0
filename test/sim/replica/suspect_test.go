package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// What the process knows of its replica's log, as in the broker: see pkg/broker.
const (
	whole = iota
	cut   // opening the log removed something from its end
	holed // a part of the log cannot be read
)

// theLog is the directory of the replica. markSuspect is the file in it that says that opening the
// log removed something.
const (
	theLog      = "p"
	markSuspect = "suspect"
)

// logOptions returns the options with which a process opens its log.
func (p *process) logOptions() commitlog.Options {
	w, n := p.w, p.node
	part, _ := w.reg.view()
	n.mu.Lock()
	defer n.mu.Unlock()
	return commitlog.Options{
		SegmentBytes: w.plan.segment, FillBytes: -1, TailBytes: w.plan.tail,
		CommittedMayBeLost: n.lostPower && (!w.plan.sync.Always() || !slices.Contains(part.ISR, n.id)),
		BeforeRepair: func(commitlog.Recovery) error {
			return vfs.WriteFileSynced(p.mount, filepath.Join(theLog, markSuspect), nil)
		},
	}
}

// doubts looks at what opening the log found, and at facts that the metadata need not contain.
func (p *process) doubts() {
	rec := p.replica.Recovery()
	if _, err := p.mount.Stat(filepath.Join(theLog, markSuspect)); err == nil {
		p.doubt.Store(cut)
	}
	if len(rec.Damaged) > 0 {
		p.doubt.Store(holed)
	}
	if tw := p.w.twist; tw != nil && tw.trustful {
		p.doubt.Store(whole)
	}
	n := p.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := p.replica.Log().CommittedEnd(); c < n.committed {
		p.w.wrong("%s: the committed end was %d before a kill and is %d behind it, the log is [%d,%d)", n.id, n.committed, c, p.replica.Log().Start(), p.replica.Log().End())
	}
}

// treat takes the next step with a replica that may have lost something, and reports whether the
// replica may take the role that the metadata gives it.
func (p *process) treat() bool {
	doubt := p.doubt.Load()
	if doubt == whole {
		return true
	}
	part := &p.state.Topic(theTopic).Partitions[0]
	inSync := slices.Contains(part.ISR, p.node.id)
	standing := meta.Suspect{Node: p.node.id, Epoch: p.replica.Log().LastEpoch(), End: p.replica.Log().End(), Damaged: doubt == holed}
	known, reported := part.SuspectOf(p.node.id)
	switch {
	case !inSync && doubt == holed:
		leader := p.state.Node(part.Leader)
		_, suspect := part.SuspectOf(part.Leader)
		if leader != nil && leader.State != meta.NodeDown && !suspect && part.Leader != p.node.id {
			go p.copyAgain(part.Leader, part.Epoch)
		}
		return false
	case inSync && len(part.ISR) > 1 && (!reported || known != standing):
		go p.report(standing)
		return false
	}
	if doubt == cut && (!inSync || len(part.ISR) == 1 || part.Leader == p.node.id) {
		_ = p.mount.Remove(filepath.Join(theLog, markSuspect))
		_ = p.mount.SyncDir(theLog)
		p.doubt.Store(whole)
	}
	return true
}

// report reports to the metadata that the replica is suspect, until the metadata knows.
func (p *process) report(s meta.Suspect) {
	for {
		err := p.w.reg.propose(meta.ReportSuspects{
			Node: p.node.id, Incarnation: p.incarnation(), Replicas: []meta.SuspectReplica{{Topic: theTopic, Suspect: s}},
		}, p.reachable)
		p.w.trace.Add("%s reports itself as suspect, epoch %d end %d damaged %v: %v", p.node.id, s.Epoch, s.End, s.Damaged, err)
		if err == nil || errors.Is(err, failure.StaleIncarnation) || !p.sleep(50*time.Millisecond) {
			return
		}
	}
}

func (p *process) incarnation() uint64 {
	_, state := p.w.reg.view()
	return state.Node(p.node.id).Incarnation
}

// copyAgain ends a process with a damaged log. It starts one with an empty log if the leader has
// dropped what it knows of the old log. Otherwise the next process tries again.
func (p *process) copyAgain(leader meta.NodeID, epoch seq.Epoch) {
	if p.copied.Swap(true) {
		return
	}
	p.kill(vfs.Crash{KeepPercent: 100}, "is to set its log aside")
	n := p.node
	at := slices.IndexFunc(p.w.nodes, func(n *node) bool { return n.id == leader })
	if at < 0 {
		return
	}
	l := p.w.nodes[at].running()
	if l == nil {
		return
	}
	if err := l.replica.Forget(epoch, n.id); err != nil {
		p.w.trace.Add("%s keeps its log: %v", n.id, err)
		return
	}
	p.w.trace.Add("%s sets its log aside", n.id)
	n.mu.Lock()
	err := n.disk.RemoveAll(theLog)
	n.lastLog = nil
	n.committed = 0
	n.mu.Unlock()
	if err != nil {
		p.w.wrong("%s: %v", n.id, err)
	}
}

// yields returns the function that a leader calls to yield, or nil if that mistake is planted.
func (p *process) yields() func(*coord.Term, coord.Yield) {
	if tw := p.w.twist; tw != nil && tw.unyielding {
		return nil
	}
	return func(_ *coord.Term, y coord.Yield) { go p.yield(y) }
}

// yield makes another replica the leader.
func (p *process) yield(y coord.Yield) {
	for {
		err := p.w.reg.propose(meta.YieldLeader{
			Topic: theTopic, Epoch: y.Epoch, To: y.To, LastEpoch: y.LastEpoch, End: y.End,
		}, p.reachable)
		p.w.trace.Add("%s yields to %s, its log ended at %d: %v", p.node.id, y.To, y.End, err)
		if errors.Is(err, failure.NotInISR) { // the replica was moved to another node
			err = p.stays(y)
		}
		if err == nil || errors.Is(err, failure.StaleEpoch) || !p.sleep(50*time.Millisecond) {
			return
		}
	}
}

// stays makes this leader continue in a new epoch.
func (p *process) stays(y coord.Yield) error {
	q, _ := p.w.reg.view()
	if q.Epoch != y.Epoch || q.Leader != p.node.id {
		return failure.StaleEpoch
	}
	e := meta.Election{Topic: theTopic, Version: q.Version, Leader: p.node.id}
	if !q.Electable(p.node.id) {
		e.Leader = ""
	}
	err := p.w.reg.propose(meta.ElectLeaders{Elections: []meta.Election{e}}, p.reachable)
	if q, _ = p.w.reg.view(); q.Epoch == y.Epoch {
		return errors.Join(failure.NotInISR, err) // tried again
	}
	return err
}

// remember keeps a copy of a disk, to which harm may restore the disk later.
func (w *world) remember(n *node, p *process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == p {
		n.lastLog = n.disk.CrashClone(vfs.Crash{KeepPercent: 100})
	}
}

// harm kills one process or all, and damages what one disk has: it changes a byte of the log,
// removes the end of the log, or removes everything that was written after some moment. It does so
// only if all other replicas have everything. The damaged node starts again at once or some time
// later.
func (w *world) harm(n *node) {
	if !w.plan.sync.Always() || !w.everyoneWhole() {
		return
	}
	w.lastWipe = time.Now()
	all := w.rnd.IntN(2) == 0
	for _, o := range w.nodes {
		if q := o.running(); q != nil && (all || o == n) {
			q.kill(vfs.Crash{KeepPercent: 100}, "is killed")
		}
	}
	n.mu.Lock()
	old := n.lastLog
	n.committed, n.harmed = 0, true
	disk := n.disk
	n.mu.Unlock()
	var what string
	switch k := w.rnd.IntN(3); {
	case k == 0 && old != nil:
		what = "is put back to an older state"
		if raw, err := vfs.ReadFile(disk, filepath.Join(theLog, "number"), 8); err == nil {
			_ = vfs.WriteFileSynced(old, filepath.Join(theLog, "number"), raw)
		}
		n.mu.Lock()
		n.disk, n.lastLog = old, nil
		n.mu.Unlock()
	default:
		what = spoil(disk, w.rnd, k == 1)
	}
	w.trace.Add("%s's disk: %s", n.id, what)
	if w.rnd.IntN(2) == 0 {
		w.start(n)
	}
}

// everyoneWhole reports whether all replicas are in sync, run, and are not suspect.
func (w *world) everyoneWhole() bool {
	part, _ := w.reg.view()
	if len(part.ISR) < len(part.Replicas) || len(part.ISR) < 2 || len(part.Suspects) > 0 || time.Since(w.lastWipe) < time.Second {
		return false
	}
	for _, n := range w.nodes {
		n.mu.Lock()
		ok := n.process != nil && !n.empty && !n.broken && n.process.doubt.Load() == whole
		n.mu.Unlock()
		if !ok {
			return false
		}
	}
	return true
}

// spoil changes a byte of the newest segment on a disk, or truncates the segment.
func spoil(disk *vfs.Mem, rnd *rand.Rand, truncate bool) string {
	names, err := disk.ReadDir(theLog)
	if err != nil {
		return err.Error()
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	if len(names) == 0 {
		return "holds no segment"
	}
	path := filepath.Join(theLog, names[len(names)-1])
	raw, err := vfs.ReadFile(disk, path, 1<<30)
	used := len(raw)
	for used > 0 && raw[used-1] == 0 { // preallocated
		used--
	}
	if err != nil || used == 0 {
		return "holds nothing"
	}
	f, err := disk.OpenReadWrite(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	at := int64(rnd.IntN(used))
	if rnd.IntN(2) == 0 { // close to the end
		at = int64(max(0, used-1-rnd.IntN(200)))
	}
	if truncate {
		err = f.Truncate(at)
	} else {
		_, err = f.WriteAt([]byte{raw[at] ^ byte(1<<rnd.IntN(8))}, at)
	}
	if err = errors.Join(err, f.SyncData()); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s, byte %d of %d, cut off %v", names[len(names)-1], at, used, truncate)
}

// knows notes up to where a node knows the log as committed. It ignores a process that is dead or
// whose disk is broken: what such a process does from then on is on no disk.
func (p *process) knows(committed seq.Offset) {
	p.life.RLock()
	defer p.life.RUnlock()
	if p.dead {
		return
	}
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	if !p.node.broken {
		p.node.committed = max(p.node.committed, committed)
	}
}
