package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// recovery is how long a healed cluster may take until all replicas are in sync.
const recovery = 30 * time.Second

// quiet is how long calls and processes may take to notice that the run has ended.
const quiet = 10 * time.Second

// run plays one run: faults, healing, the last checks.
func (w *world) run(seed uint64) {
	for _, n := range w.nodes {
		w.start(n)
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	for i := range w.plan.publishers {
		load.Go(func() { w.publish(i, rand.New(rand.NewPCG(seed, uint64(100+i))), stop) })
	}
	load.Go(func() { w.elect(rand.New(rand.NewPCG(seed, 75)), stop) })
	for end := time.Now().Add(w.plan.chaos); time.Now().Before(end) && !w.isWrong(); {
		time.Sleep(time.Duration(w.rnd.Int64N(int64(w.plan.pause))))
		w.fault()
	}
	w.heal()
	if !w.isWrong() {
		w.recover()
	}
	close(stop)
	load.Wait()
	time.Sleep(w.plan.publishTimeout + time.Second) // every publish that was taken has its answer now
	if !w.isWrong() {
		w.compareCopies()
	}
	for _, n := range w.nodes {
		if p := n.running(); p != nil {
			p.kill(vfs.Crash{KeepPercent: 100}, "is stopped")
		}
	}
	w.lives.Wait()
	time.Sleep(quiet)
	if !w.isWrong() {
		w.finish()
	}
}

// publish runs a publisher, which tries any node.
func (w *world) publish(number int, rnd *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(20 * time.Millisecond)))):
		}
		if p := w.nodes[rnd.IntN(len(w.nodes))].running(); p != nil {
			for range 1 + rnd.IntN(3) {
				p.publish(number, w.plan.padding(rnd))
			}
		}
	}
}

// padding returns how many bytes a message has beside its name: a few, about as many as the limits
// allow, or more.
func (p *plan) padding(rnd *rand.Rand) int {
	if rnd.IntN(20) != 0 {
		return rnd.IntN(60)
	}
	near := []int{p.sizes.Window, p.sizes.Forming, p.sizes.Group / 2, p.sizes.Entry, p.sizes.Frame}
	return max(0, near[rnd.IntN(len(near))]-rnd.IntN(40))
}

// sizes returns the limits that the replicas use.
func (w *world) sizes() limit.Sizes {
	s := w.plan.sizes
	if w.twist != nil && w.twist.sizes != nil {
		w.twist.sizes(&s)
	}
	return s
}

// elect acts as the controller. It learns late which nodes are gone, and makes members of the
// in-sync set leaders of partitions, from time to time without need.
func (w *world) elect(rnd *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(20*time.Millisecond + time.Duration(rnd.Int64N(int64(100*time.Millisecond)))):
		}
		part, state := w.reg.view()
		gone := map[meta.NodeID]bool{}
		for _, n := range w.nodes {
			n.mu.Lock()
			gone[n.id] = n.process == nil && time.Since(n.downSince) > 100*time.Millisecond
			n.mu.Unlock()
			if known := state.Node(n.id); gone[n.id] && known.State == meta.NodeUp {
				w.reg.apply(meta.SetNodeState{ID: n.id, State: meta.NodeDown, Incarnation: known.Incarnation})
			}
		}
		leader := part.Leader
		restless := !w.calm.Load() && rnd.IntN(30) == 0
		if leader != "" && !gone[leader] && !restless {
			continue
		}
		candidates := slices.DeleteFunc(slices.Clone(part.ISR), func(id meta.NodeID) bool { return gone[id] && rnd.IntN(20) != 0 })
		if w.twist != nil && w.twist.electAnybody {
			candidates = slices.DeleteFunc(slices.Clone(part.Replicas), func(id meta.NodeID) bool { return gone[id] })
		}
		next := meta.NodeID("")
		if len(candidates) > 0 {
			next = candidates[rnd.IntN(len(candidates))]
		}
		if next == "" && leader == "" {
			continue
		}
		e := meta.Election{Topic: theTopic, Version: part.Version, Leader: next, Unclean: w.twist != nil && w.twist.electAnybody}
		w.reg.apply(meta.ElectLeaders{Elections: []meta.Election{e}})
		w.trace.Add("elected %q over %q, of isr %v", next, leader, part.ISR)
	}
}

// fault causes one fault.
func (w *world) fault() {
	n := w.nodes[w.rnd.IntN(len(w.nodes))]
	m := w.nodes[w.rnd.IntN(len(w.nodes))]
	p := n.running()
	switch k := w.rnd.IntN(100); {
	case p == nil && k < 70:
		w.start(n)
	case p == nil:
	case k < 12:
		p.mount.Trap(w.rnd.IntN(30), func() { p.kill(vfs.Crash{KeepPercent: 100}, "is killed at a change of its disk") })
	case k < 18:
		p.kill(vfs.Crash{KeepPercent: 100}, "is killed")
	case k < 28:
		w.cutPower(n, p)
	case k < 30:
		w.cutAllPower()
	case k < 33:
		w.wipe(n, p)
	case k < 34, w.plan.harm && k >= 80 && k < 87:
		w.remember(n, p)
	case k < 36, w.plan.harm && k >= 87:
		w.harm(n)
	case k < 38:
		n.mu.Lock()
		n.broken = true
		n.mu.Unlock()
		w.trace.Add("%s's disk breaks", n.id)
		p.mount.Break(syscall.EIO)
	case k < 46:
		w.trace.Add("cut %s from %s", n.id, m.id)
		w.net.cut(edge{n.id, m.id})
		w.net.cut(edge{m.id, n.id})
	case k < 54:
		w.trace.Add("cut %s to %s", n.id, m.id)
		w.net.cut(edge{n.id, m.id})
	case k < 66:
		w.trace.Add("the network heals")
		w.net.heal()
	case k < 76:
		w.trace.Add("sessions between %s and %s break", n.id, m.id)
		w.net.breakUp(n.id, m.id)
	case k < 80:
		w.net.setSlow(edge{n.id, m.id}, time.Duration(w.rnd.IntN(300))*time.Millisecond)
	case k < 86:
		w.trace.Add("%s is cut from the metadata", n.id)
		n.metaCut.Store(true)
	case k < 89:
		w.trace.Add("the queue from %s to %s is full now and then", n.id, m.id)
		w.net.setBusy(edge{n.id, m.id}, 1+w.rnd.IntN(20))
	case k < 94:
		w.trace.Add("everybody reaches the metadata")
		for _, n := range w.nodes {
			n.metaCut.Store(false)
		}
	}
}

// crash chooses what a power cut does to data that was not synced.
func (w *world) crash() vfs.Crash {
	return vfs.Crash{Rand: rand.New(rand.NewPCG(w.rnd.Uint64(), 1)), KeepPercent: w.rnd.IntN(100), TornPercent: w.rnd.IntN(30)}
}

// cutPower cuts a machine's power. If acknowledged messages may be in memory only, at most one copy
// at a time may be lost in this way.
func (w *world) cutPower(n *node, p *process) {
	if !w.plan.sync.Always() {
		part, _ := w.reg.view()
		if len(part.ISR) < 2 || time.Since(w.lastCut) < 2*time.Second || time.Since(w.lastWipe) < 2*time.Second {
			return
		}
		w.lastCut = time.Now()
	}
	c, boot := w.crash(), w.nextBoot(n)
	at := 0
	if w.rnd.IntN(2) == 0 {
		at = w.rnd.IntN(30)
	}
	fall := func() {
		n.mu.Lock()
		n.boot = boot
		n.mu.Unlock()
		p.kill(c, "loses power")
	}
	if at == 0 || !w.plan.sync.Always() {
		fall()
		return
	}
	p.mount.Trap(at, fall)
}

func (w *world) nextBoot(n *node) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w.twist != nil && w.twist.sameBoot {
		return n.boot
	}
	return n.boot + "'"
}

// cutAllPower cuts the power of all machines at once.
func (w *world) cutAllPower() {
	if !w.plan.sync.Always() {
		return
	}
	w.trace.Add("the power goes")
	for _, n := range w.nodes {
		if p := n.running(); p != nil {
			boot := w.nextBoot(n)
			n.mu.Lock()
			n.boot = boot
			n.mu.Unlock()
			p.kill(w.crash(), "loses power")
		}
	}
}

// wipe replaces a machine's disk by an empty one, if all other replicas have everything.
func (w *world) wipe(n *node, p *process) {
	part, _ := w.reg.view()
	if len(part.ISR) < len(part.Replicas) || len(part.ISR) < 2 || time.Since(w.lastWipe) < time.Second ||
		!w.plan.sync.Always() && time.Since(w.lastCut) < 2*time.Second {
		return
	}
	for _, n := range w.nodes {
		n.mu.Lock()
		ok := n.process != nil && !n.empty && !n.broken
		n.mu.Unlock()
		if !ok {
			return
		}
	}
	w.lastWipe = time.Now()
	p.kill(vfs.Crash{}, "gets a new disk")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disk, n.empty, n.boot, n.lastLog, n.committed = vfs.NewCrashable(), true, n.boot+"'", nil, 0
}

// heal ends all faults.
func (w *world) heal() {
	w.calm.Store(true)
	w.trace.Add("everything heals")
	w.net.heal()
	for _, n := range w.nodes {
		n.metaCut.Store(false)
		n.mu.Lock()
		broken, p := n.broken, n.process
		n.mu.Unlock()
		if p != nil && broken {
			p.kill(vfs.Crash{KeepPercent: 100}, "gets a disk that works")
		} else if p != nil {
			p.mount.Trap(1<<30, func() {})
		}
	}
	for _, n := range w.nodes {
		if n.running() == nil {
			w.start(n)
		}
	}
}

// recover waits until all replicas are in sync, and compares them.
func (w *world) recover() {
	began := time.Now()
	for why := "it has not begun"; why != ""; why = w.unsettled() {
		if time.Since(began) > recovery {
			w.wrong("%v after the last fault: %s", recovery, why)
			return
		}
		if w.isWrong() {
			return
		}
		for _, n := range w.nodes { // a trap may have gone off late
			if n.running() == nil {
				w.start(n)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.trace.Add("everybody is in sync after %v", time.Since(began))
}

// unsettled returns what is not as it must be in the end, or "".
func (w *world) unsettled() string {
	part, _ := w.reg.view()
	for _, n := range w.nodes {
		p := n.running()
		if p == nil {
			return string(n.id) + " is down"
		}
		if p.doubt.Load() == holed { // the process is about to end, to set its log aside
			return string(n.id) + " is damaged"
		}
	}
	if len(part.ISR) < len(part.Replicas) || part.Leader == "" || len(part.Suspects) > 0 {
		return "leader " + string(part.Leader) + ", in sync are " + join(part.ISR) + w.states()
	}
	return ""
}

// compareCopies demands that all replicas hold the same bytes and know that they are committed.
// Nothing is published any more. A disk that was damaged may hold damage that no process has read
// yet: a read must detect it, and another copy must be intact.
func (w *world) compareCopies() {
	var intact *commitlog.Log
	for _, n := range w.nodes {
		p := n.running()
		if p == nil {
			w.wrong("%s has ended by itself", n.id)
			return
		}
		log := p.replica.Log()
		_, err := recordsIn(log, log.Start(), log.End())
		n.mu.Lock()
		harmed := n.harmed
		n.mu.Unlock()
		switch {
		case err != nil && (!harmed || fate.Of(err) != fate.Corrupt):
			w.wrong("the copy of %s cannot be read: %v", n.id, err)
		case err != nil:
			w.trace.Add("%s holds damage that nothing has read: %v", n.id, err)
		case intact == nil:
			intact = log
		default:
			w.compareWith(intact, n.id, log)
		}
	}
	if intact == nil {
		w.wrong("no copy is intact")
	}
}

// compareWith compares a copy with another one.
func (w *world) compareWith(first *commitlog.Log, id meta.NodeID, log *commitlog.Log) {
	if log.End() != first.End() || log.CommittedEnd() != first.End() {
		w.wrong("the copies are not even%s", w.states())
		return
	}
	from := max(first.Start(), log.Start())
	a, errA := recordsIn(first, from, first.End())
	b, errB := recordsIn(log, from, log.End())
	if errA != nil || errB != nil || !slices.Equal(a, b) {
		w.wrong("the copy of %s is another one: %v, %v", id, errA, errB)
	}
}

func (w *world) states() string {
	var text strings.Builder
	for _, n := range w.nodes {
		p := n.running()
		if p == nil {
			text.WriteString("; " + string(n.id) + " is down")
			continue
		}
		log := p.replica.Log()
		text.WriteString("; " + string(n.id) + " " + span(log.Start(), log.CommittedEnd(), log.End()))
		if t := p.term.Load(); t != nil {
			for _, f := range t.Followers() {
				text.WriteString(followerText(f))
			}
		}
	}
	return text.String()
}

func span(start, committed, end seq.Offset) string {
	return fmt.Sprintf("[%d,%d) committed %d", start, end, committed)
}

func followerText(f coord.FollowerStats) string {
	return fmt.Sprintf(" {%s connected %v %s acked %d}", f.Node, f.Connected, f.State, f.Acked)
}

func join(ids []meta.NodeID) string {
	var parts []string
	for _, id := range ids {
		parts = append(parts, string(id))
	}
	return strings.Join(parts, " ")
}
