package replica

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/simtest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// process is one process of a node, from its start to its end.
type process struct {
	w       *world
	node    *node
	mount   *simtest.Mount
	host    *host
	replica *coord.Replica
	life    sync.RWMutex // held for reading while a client is answered
	dead    bool         // guarded by life
	quit    chan struct{}
	work    sync.WaitGroup
	stored  *positions

	term       atomic.Pointer[coord.Term]
	closed     atomic.Uint64 // terms of this epoch and earlier ones have ended
	registered uint64        // index of this start in the metadata
	applied    atomic.Uint64 // index of the last entry that it has applied

	// Used by the goroutine that follows the metadata only.
	state meta.State
	last  coord.View

	copied atomic.Bool  // the log is being set aside
	doubt  atomic.Int32 // what is known of the log: whole, cut or holed

	// Used by the sampler only.
	seen      seq.Offset // the sampler has seen all committed batches below
	committed seq.Offset
	sharedIn  seq.Epoch // the epoch of its last term that shared positions
}

// start opens the node's disk and starts a process.
func (w *world) start(n *node) {
	p := &process{w: w, node: n, quit: make(chan struct{})}
	p.mount = simtest.NewMount(n.disk)
	if w.twist != nil && w.twist.lyingDisk {
		p.mount = simtest.NewLyingMount(n.disk)
	}
	dir := theLog
	if err := vfs.MkdirAllSynced(p.mount, dir); err != nil {
		w.wrong("%s: %v", n.id, err)
		return
	}
	replica, err := coord.OpenReplica(coord.ReplicaOptions{
		FS: p.mount, Dir: dir, Self: n.id, Now: time.Now,
		Log:    p.logOptions(),
		Failed: p.failed,
		DamageFound: func(error) {
			if p.replica.Damaged() {
				p.doubt.Store(holed)
			}
		},
		Partition: replication.Partition{Topic: 1, Index: 0},
		Peers:     peersOf{p},
		ProposeISR: func(t *coord.Term, c coord.ISRChange) {
			go p.proposeISR(t, c)
		},
		Yield: p.yields(), Sizes: w.sizes(), ReplicaLag: w.plan.lag, PublishTimeout: w.plan.publishTimeout,
	})
	if err != nil {
		w.wrong("%s cannot open its log: %v", n.id, err)
		return
	}
	n.mu.Lock()
	harmed := n.harmed || n.lostPower
	n.mu.Unlock()
	if d := replica.Recovery().Damaged; len(d) > 0 && !harmed {
		w.wrong("%s finds damage after a crash: %+v", n.id, d)
	}
	p.replica = replica
	p.doubts()
	p.stored = openPositions(p.mount, filepath.Join(dir, "number"))
	n.mu.Lock()
	n.process = p
	n.mu.Unlock()
	w.trace.Add("%s starts, log [%d,%d) committed %d epoch %d", n.id, replica.Log().Start(), replica.Log().End(), replica.Log().CommittedEnd(), replica.Log().LastEpoch())
	p.host = w.net.join(n.id, func(kind uint8, payload []byte, reply func([]byte)) { replica.Handle(nil, kind, payload, reply) })
	p.work.Go(p.follow)
	p.work.Go(p.tick)
	w.lives.Go(p.end)
}

// peersOf allows to open a process before it joins the network.
type peersOf struct{ p *process }

func (o peersOf) Follow(node meta.NodeID, e coord.LinkEvents) coord.Link {
	return o.p.host.Follow(node, e)
}

// kill ends a process at this moment. What it answered before remains valid.
func (p *process) kill(c vfs.Crash, how string) {
	p.life.Lock()
	if p.dead {
		p.life.Unlock()
		return
	}
	p.dead = true
	p.life.Unlock()
	if p.host != nil {
		p.w.net.leave(p.host)
	}
	disk := p.mount.Cut(c)
	p.w.trace.Add("%s %s", p.node.id, how)
	p.node.mu.Lock()
	p.node.disk, p.node.process, p.node.downSince = disk, nil, time.Now()
	if c.KeepPercent < 100 {
		p.node.lostPower, p.node.committed = true, 0
	}
	p.node.mu.Unlock()
	close(p.quit)
}

// end waits until the process is killed, and closes what it has open.
func (p *process) end() {
	<-p.quit
	p.work.Wait()
	_ = p.replica.Close()
}

// failed ends a process that cannot use its disk.
func (p *process) failed(err error) {
	if !p.mountBroken() {
		p.w.wrong("%s: its log failed: %v", p.node.id, err)
	}
	p.kill(vfs.Crash{KeepPercent: 100}, "ends, its disk failed")
}

func (p *process) mountBroken() bool {
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	return p.node.broken
}

// sleep waits, and reports whether the process is still alive.
func (p *process) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-p.quit:
		return false
	}
}

// reachable reports whether the node reaches the metadata.
func (p *process) reachable() bool {
	p.life.RLock()
	defer p.life.RUnlock()
	return !p.dead && !p.node.metaCut.Load()
}

// register reports the start to the metadata, and repeats that until it succeeds.
func (p *process) register() bool {
	n := p.node
	for {
		if p.reachable() {
			n.mu.Lock()
			c := meta.NodeStarted{Node: meta.Node{ID: n.id, BootID: n.boot}, Unclean: true, Empty: n.empty}
			n.mu.Unlock()
			if index, result := p.w.reg.apply(c); result.Err == nil {
				n.mu.Lock()
				n.empty = false
				n.mu.Unlock()
				p.registered = index
				return true
			}
		}
		if !p.sleep(20 * time.Millisecond) {
			return false
		}
	}
}

// follow applies the metadata, late, and takes the role that the metadata gives the node.
func (p *process) follow() {
	if !p.register() {
		return
	}
	if w := p.w.twist; w != nil && w.actOnOld {
		p.registered = 0
	}
	for {
		commands, changed := p.w.reg.since(p.state.Index())
		for _, c := range commands {
			if p.state.Index() >= p.registered && !p.awaitNews() {
				return
			}
			p.state.Apply(p.state.Index()+1, c)
			p.applied.Store(p.state.Index())
			if p.state.Index() >= p.registered {
				p.converge()
			}
		}
		select {
		case <-changed:
		case <-p.quit:
			return
		}
	}
}

// awaitNews waits until there are new commands of the metadata.
func (p *process) awaitNews() bool {
	for {
		if !p.sleep(p.w.reg.delay(p.w.plan.metaLag)) {
			return false
		}
		if !p.node.metaCut.Load() {
			return true
		}
	}
}

// viewOf returns the partition in a state of the metadata.
func (p *process) viewOf(s *meta.State) (coord.View, bool) {
	t := s.Topic(theTopic)
	if t == nil {
		return coord.View{}, false
	}
	m := &t.Partitions[0]
	v := coord.View{Epoch: m.Epoch, Version: m.Version, Leader: m.Leader, ISR: m.ISR, MinISR: t.Config.MinISR, Sync: t.Config.Sync, Unclean: m.Unclean}
	if w := p.w.twist; w != nil && w.view != nil {
		w.view(p, &v)
	}
	for _, id := range m.Replicas {
		r := coord.ReplicaView{Node: id, Down: true}
		if n := s.Node(id); n != nil {
			r.Incarnation, r.Down = n.Incarnation, n.State == meta.NodeDown
		}
		r.SuspectAs(m)
		v.Replicas = append(v.Replicas, r)
	}
	return v, true
}

// converge takes the role that the metadata gives the node.
func (p *process) converge() {
	v, ok := p.viewOf(&p.state)
	if !ok || v.Epoch == p.last.Epoch && v.Version == p.last.Version && v.Leader == p.last.Leader && slices.Equal(v.Replicas, p.last.Replicas) {
		return
	}
	p.last = v
	if !p.treat() {
		p.term.Store(nil)
		if err := p.replica.Rest(v); err != nil {
			p.refusedRole(err)
		}
		return
	}
	var err error
	role := "follows " + string(v.Leader)
	switch v.Leader {
	case p.node.id:
		role = "leads"
		err = p.replica.Lead(v, func(commitlog.Batch) {})
	case "":
		p.term.Store(nil)
		role = "rests"
		err = p.replica.Rest(v)
	default:
		p.term.Store(nil)
		err = p.replica.Follow(v, p.stored)
	}
	p.w.trace.Add("%s %s at epoch %d version %d isr %v: %v", p.node.id, role, v.Epoch, v.Version, v.ISR, err)
	if err != nil {
		p.refusedRole(err)
		return
	}
	p.closed.Store(uint64(v.Epoch - 1))
	p.host.epoch.Store(uint64(v.Epoch))
	if t := p.replica.Term(); t != nil && t != p.term.Load() {
		p.w.led(p, v)
		p.term.Store(t)
		p.share(t)
	}
}

// refusedRole checks why the replica refused a role. It may do so if the metadata is older than
// what the node has stored.
func (p *process) refusedRole(err error) {
	p.life.RLock()
	dead := p.dead
	p.life.RUnlock()
	if !dead && !p.mountBroken() && !errors.Is(err, commitlog.ErrFenced) {
		p.w.wrong("%s cannot take its role: %v", p.node.id, err)
	}
	if p.mountBroken() {
		p.kill(vfs.Crash{KeepPercent: 100}, "ends, its disk failed")
	}
}

// tick calls the replica's periodic work.
func (p *process) tick() {
	contact := time.Now()
	for p.sleep(100 * time.Millisecond) {
		if !p.node.metaCut.Load() {
			contact = time.Now()
		}
		if t := p.term.Load(); t != nil {
			t.Tick(time.Now(), contact)
			if p.w.reg.chance(20) {
				p.share(t)
			}
		}
		p.w.sample(p)
	}
}

// proposeISR proposes a change of the in-sync set to the metadata.
func (p *process) proposeISR(t *coord.Term, c coord.ISRChange) {
	command := meta.AlterISR{
		Topic: theTopic, Epoch: c.Epoch, Version: c.Version, ISR: c.ISR, Joiner: c.Joiner, JoinerIncarnation: c.Incarnation,
	}
	if w := p.w.twist; w != nil && w.propose != nil {
		w.propose(p, &command)
	}
	err := p.w.reg.propose(command, p.reachable)
	p.w.trace.Add("%s proposed isr %v of version %d: %v", p.node.id, c.ISR, c.Version, err)
	t.ISRProposed(c, err)
}

// entry is one message that a term is appending.
type entry struct {
	p    *process
	term *coord.Term
	name string
	pad  int
}

// publish passes a message to the process if the process leads as far as it knows.
func (p *process) publish(publisher, pad int) {
	t := p.term.Load()
	if t == nil {
		return
	}
	e := &entry{p: p, term: t, name: p.w.history.Call(publisher), pad: pad}
	if err := t.Append(e); err != nil {
		e.Complete(commitlog.Placed{}, err)
	}
}

// Size implements commitlog.Entry.
func (e *entry) Size() int { return commitlog.RecordBytes(1 + len(e.name) + e.pad) }

// AppendTo implements commitlog.Entry.
func (e *entry) AppendTo(b *commitlog.Builder) {
	record := b.Next(1 + len(e.name) + e.pad)
	record[0] = byte(len(e.name))
	copy(record[1:], e.name)
}

// nameOf returns the name of the message in a record.
func nameOf(record []byte) string {
	if len(record) == 0 || int(record[0]) >= len(record) {
		return "?"
	}
	return string(record[1 : 1+record[0]])
}

// Complete implements commitlog.Entry.
func (e *entry) Complete(at commitlog.Placed, err error) {
	e.p.life.RLock()
	defer e.p.life.RUnlock()
	h := e.p.w.history
	switch {
	case e.p.dead: // the answer is lost
		h.Resolve(e.name, simtest.Unknown, 0, 0)
	case err == nil:
		if closed := e.p.closed.Load(); uint64(e.term.Epoch()) <= closed {
			e.p.w.wrong("%s: its term of epoch %d is over and acknowledged %s", e.p.node.id, e.term.Epoch(), e.name)
		}
		h.Resolve(e.name, simtest.Acked, uint64(at.First), uint64(e.term.Epoch()))
		e.p.w.acked(e.name, at.First, e.term.Epoch())
	case fate.Of(err) == fate.Refused, e.p.w.twist != nil && e.p.w.twist.callItFailed:
		h.Resolve(e.name, simtest.Failed, 0, 0)
	default:
		h.Resolve(e.name, simtest.Unknown, 0, 0)
	}
}

// positions replaces the positions of channels in the simulation: a number that only grows.
type positions struct {
	fs   vfs.FS
	path string

	mu  sync.Mutex // guards now
	now uint64
}

func openPositions(fsys vfs.FS, path string) *positions {
	s := &positions{fs: fsys, path: path}
	if raw, err := vfs.ReadFile(fsys, path, 8); err == nil && len(raw) == 8 {
		s.now = binary.LittleEndian.Uint64(raw)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.now = 0
	}
	return s
}

// Replace implements replication.Positions.
func (s *positions) Replace(snapshot []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := vfs.WriteFileSynced(s.fs, s.path, snapshot); err != nil {
		return err
	}
	s.now = binary.LittleEndian.Uint64(snapshot)
	return nil
}

// Update implements replication.Positions.
func (s *positions) Update(update []byte) error { return s.Replace(update) }

// Cut implements replication.Positions.
func (s *positions) Cut(seq.Offset) error { return nil }

// Advance implements replication.Positions.
func (s *positions) Advance(change []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = max(s.now, binary.LittleEndian.Uint64(change))
	return nil
}

func (s *positions) number() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// share sends the next number to the replicas. Each of them must be answered.
func (p *process) share(t *coord.Term) {
	if !t.Shared() {
		return
	}
	number := max(p.stored.number(), uint64(t.Epoch())<<32) + 1
	raw := binary.LittleEndian.AppendUint64(nil, number)
	if err := p.stored.Replace(raw); err != nil {
		return
	}
	p.w.sharing.Add(1)
	done := func(err error) {
		p.w.sharing.Add(-1)
		p.life.RLock()
		defer p.life.RUnlock()
		if err == nil && !p.dead {
			p.w.sharedPositions(number, t.Epoch())
		}
	}
	// Every other number is an update. From time to time a snapshot replaces all updates up to it.
	if p.sharedIn != t.Epoch() || number%2 == 0 {
		p.sharedIn = t.Epoch()
		t.SharePositions(raw, done)
		return
	}
	if fold := t.ShareUpdate(raw, done); number%8 == 1 {
		fold(raw)
	}
}
