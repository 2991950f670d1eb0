package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/peertest"
	"github.com/brokerd/brokerd/internal/simtest"
	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/cluster"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stall"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
	"github.com/brokerd/brokerd/pkg/vfs/hook"
)

// The topic, and the address at which nodes listen.
const (
	theTopic = "events"
	port     = ":4160"
)

// channelNames are the names of the channels: one without order, one with strict order, one with
// order by key, and one without order that has no consumer until everything else has ended.
var channelNames = [...]string{"any", "turn", "key", "late"}

// channelOrders are the orders of the channels.
var channelOrders = [len(channelNames)]policy.Order{1: policy.Strict, 2: policy.ByKey}

// readWhole is how many of the channels are read from the beginning.
const readWhole = 3

// keyOf returns the key of the message with a name: a digit.
func keyOf(name string) string { return name[len(name)-1:] }

// lease is how long a replaced leader may continue: its lease, and the time that the news of the
// change may take to reach a consumer.
const lease = host.DefaultLease + 500*time.Millisecond

// plan is what a seed chooses before the run begins.
type plan struct {
	nodes      int
	partitions int
	sync       meta.SyncPolicy
	segment    int64
	syncAll    bool // a start syncs all that its disk holds with one call
	volumeFrom int  // so many files or more are synced with one call when the redo journal is settled
	together   int  // the redo journal takes syncs when at least this many happen at once
	publishers int  // of each partition
	consumers  int  // of each channel
	chaos      time.Duration
	pause      time.Duration // at most, between two faults
	timeout    time.Duration // of a delivered message
	stalls     int           // consumers do not read once in so many turns; 0: they always do
	body       int           // largest of a message, bytes
	repeats    bool          // there are publishers with dedup ids
	moves      bool          // requeued messages are appended again, for their channel
	work       bool          // there is the topic with headers, tags and delays, and it is traced
	trash      bool          // there is the topic that is deleted and restored
	damage     bool          // all copies rot, each in another part
	lives      bool          // messages have a time to live, and at most one clock is wrong at a time: nothing expires
	slowSync   time.Duration // a sync of a log takes less than this; 0: no time
}

func newPlan(rnd *rand.Rand) plan {
	pick := func(values ...int) int { return values[rnd.IntN(len(values))] }
	p := plan{
		nodes: pick(3, 3, 3, 4, 5), partitions: pick(1, 1, 2, 3), sync: meta.SyncAlways(),
		segment: int64(pick(4<<10, 1<<20)), publishers: pick(1, 2), consumers: pick(1, 2, 3),
		chaos: time.Duration(pick(2, 4, 6)) * time.Second, pause: time.Duration(pick(50, 200, 1000)) * time.Millisecond,
		timeout: time.Duration(pick(500, 2000)) * time.Millisecond,
	}
	if rnd.IntN(4) == 0 {
		p.sync = meta.SyncPolicy{Interval: 200 * time.Millisecond}
	}
	p.slowSync = time.Duration(pick(0, 0, 5, 20)) * time.Millisecond
	p.together = pick(1, 1, 2, 100)
	p.syncAll = rnd.IntN(2) == 0
	p.moves = rnd.IntN(2) == 0
	p.volumeFrom = pick(1, 2, 1000)
	return p
}

// movePolicy appends each delayed message again whose delay is longer than a tick, and each message
// that keeps two segments for long, if the plan lets messages move.
func (p *plan) movePolicy() topic.MovePolicy {
	if !p.moves {
		return topic.MovePolicy{}
	}
	return topic.MovePolicy{RequeueInMemory: time.Millisecond, CarryBytes: 2 * p.segment}
}

// smallBody is the largest body of most runs, in bytes.
const smallBody = 100

// readers chooses how clients read, and the size of bodies. In some runs the messages
// exceed the limit of a relay. If clients stall often, relays hold messages and fetch
// no more.
func readers(rnd *rand.Rand) (stalls, body int) {
	body = smallBody
	if rnd.IntN(2) == 0 {
		stalls = seldom
	}
	if rnd.IntN(8) == 0 {
		stalls, body = seldom, 100<<10
	}
	if rnd.IntN(4) == 0 {
		stalls = often
	}
	return stalls, body
}

// In how many turns a consumer stalls once.
const (
	seldom = 30
	often  = 5
)

// world is one run.
type world struct {
	t         *testing.T
	rnd       *rand.Rand // of the script
	hangs     *rand.Rand // how long disks hang
	plan      plan
	trace     *simtest.Trace
	net       *peertest.Network
	machines  []*machine
	histories []*simtest.History                    // of each partition
	channels  [len(channelNames)][]*simtest.Channel // of each partition
	offline   *harm
	lives     sync.WaitGroup
	calm      atomic.Bool // publishers publish little
	draining  atomic.Bool // consumers finish every message that they get
	clocks    *clocks
	work      *work        // nil if none
	lost      atomic.Int64 // how often positions may have been lost
	rotted    time.Time    // when the script last damaged files

	mu      sync.Mutex // guards what follows
	wrongs  []string
	late    bool         // the only failure is a missed time limit
	first   string       // the trace at the first failure
	lastCut time.Time    // the last power cut
	leaders []leadership // of each partition
}

// leadership is who leads a partition, as far as any node knows.
type leadership struct {
	epoch seq.Epoch
	node  meta.NodeID
	two   time.Time // until then a former leader may believe that it still leads
}

// machine is where nodes run, one process after the other.
type machine struct {
	w    *world
	host string
	dir  string // the data directory: the metadata is really there, the rest is in the field disk

	lateUntil atomic.Int64 // until then the network may deliver old data, ns since 1970
	offset    atomic.Int64 // of its wall clock, ns

	mu     sync.Mutex // guards what follows
	disk   *vfs.Mem   // of the next process
	life   *life      // nil: no process runs
	last   *life      // the last process, which may not have been buried yet
	boot   int
	lives  int
	broken bool
}

// life is one process of a node.
type life struct {
	w      *world
	m      *machine
	mount  *simtest.Mount
	net    *ownNetwork
	cancel context.CancelFunc
	over   chan struct{} // closed when the process is to end
	gone   chan struct{} // closed when it has ended
	leave  chan struct{} // closed when it is to stop cleanly

	leaving atomic.Bool
	silent  atomic.Int64 // for how long the disk has not responded, ns

	mu      sync.RWMutex // guards dead; held for reading while a client is answered
	dead    bool
	broker  atomic.Pointer[broker.Broker] // set once the broker serves
	cluster atomic.Pointer[cluster.Node]
}

func newWorld(t *testing.T, seed uint64) *world {
	rnd := rand.New(rand.NewPCG(seed, 91))
	plan := newPlan(rnd)
	plan.stalls, plan.body = readers(rand.New(rand.NewPCG(seed, 92)))
	plan.repeats = rand.New(rand.NewPCG(seed, 95)).IntN(2) == 0
	plan.work = rand.New(rand.NewPCG(seed, 96)).IntN(3) == 0
	plan.trash = *trashAll
	plan.lives = *livesAll || rand.New(rand.NewPCG(seed, 90)).IntN(2) == 0
	if plan.damage = *damageAll || rand.New(rand.NewPCG(seed, 97)).IntN(4) == 0; plan.damage {
		plan.segment = 4 << 10
	}
	w := &world{t: t, rnd: rnd, hangs: rand.New(rand.NewPCG(seed, 99)), plan: plan, trace: simtest.NewTrace(), net: peertest.NewNetwork(), clocks: newClocks()}
	dir, err := os.MkdirTemp(fast(), "sim") //nolint:usetesting // in a file system in memory, if there is one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for i := range w.plan.nodes {
		host := fmt.Sprint("n", i+1)
		w.machines = append(w.machines, &machine{w: w, host: host, dir: filepath.Join(dir, host), disk: vfs.NewCrashable()})
	}
	for range w.plan.partitions {
		h := simtest.NewHistory()
		w.histories = append(w.histories, h)
		w.leaders = append(w.leaders, leadership{})
		for i := range w.channels {
			c := simtest.NewChannel(h, channelOrders[i] == policy.Strict)
			if channelOrders[i] == policy.ByKey {
				c = simtest.NewKeyedChannel(h, keyOf)
			}
			if w.plan.moves {
				c.ExpectCopies(i == 0)
			}
			w.channels[i] = append(w.channels[i], c)
		}
	}
	w.offline = newHarm(w, rand.New(rand.NewPCG(seed, 93)))
	w.trace.Add("%+v", w.plan)
	return w
}

// fast returns a directory in which files cost least: one in memory, if there is one.
func fast() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		if f, err := os.CreateTemp(shm, "sim"); err == nil {
			f.Close()
			os.Remove(f.Name())
			return shm
		}
	}
	return ""
}

// wrong notes a failure.
func (w *world) wrong(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.trace.Add("WRONG: %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrongs) == 0 {
		w.first = w.trace.String()
	}
	w.wrongs = append(w.wrongs, text)
}

func (w *world) isWrong() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.wrongs) > 0
}

// isLate reports whether the run's only failure is a missed time limit.
func (w *world) isLate() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late && len(w.wrongs) == 1
}

// report fails the test if there was a failure.
func (w *world) report() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrongs) > 0 {
		w.t.Errorf("%s\n\n%s", simtest.Report(w.wrongs), w.first)
	}
}

// running returns the process of a machine if it serves, or nil.
func (m *machine) running() *life {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == nil || m.life.broker.Load() == nil {
		return nil
	}
	return m.life
}

func (m *machine) alive() *life {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life
}

// mayHearLate reports whether data may still arrive that a cut of the network held back.
func (m *machine) mayHearLate() bool { return time.Now().UnixNano() < m.lateUntil.Load() }

// twoLeaders reports whether a replaced leader that is alive may not know yet that it was replaced.
// It delivers for as long as its lease lets it, but the answers that it gets have no effect.
func (w *world) twoLeaders(partition int) bool {
	alive := map[meta.NodeID]bool{}
	for _, m := range w.machines {
		alive[meta.NodeID(m.host)] = m.alive() != nil
	}
	two := false
	w.eachState(func(t *meta.Topic) {
		w.mu.Lock()
		defer w.mu.Unlock()
		p, l := &t.Partitions[partition], &w.leaders[partition]
		if p.Epoch > l.epoch {
			if l.node != "" && l.node != p.Leader && alive[l.node] {
				l.two = time.Now().Add(lease)
			}
			l.epoch, l.node = p.Epoch, p.Leader
		}
		two = time.Now().Before(l.two)
	})
	return two
}

// isBehind reports whether a process does not know the newest epoch of a partition yet: what a relay there
// holds is of an earlier one.
func (w *world) isBehind(l *life, partition int) bool {
	b := l.broker.Load()
	if b == nil {
		return false
	}
	t, err := b.Directory.Topic(theTopic)
	w.mu.Lock()
	defer w.mu.Unlock()
	return err != nil || t.Partitions[partition].Epoch < w.leaders[partition].epoch
}

// start begins the next life, once the last one is buried.
func (m *machine) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life != nil {
		return
	}
	m.broken = false
	m.lives++
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{
		w: m.w, m: m, mount: simtest.NewMount(m.disk), cancel: cancel, over: make(chan struct{}), gone: make(chan struct{}), leave: make(chan struct{}),
		net: &ownNetwork{inner: m.w.net, host: m.host},
	}
	if slow := int64(m.w.plan.slowSync); slow > 0 {
		var syncs atomic.Int64
		l.mount.Slow(func() time.Duration { return time.Duration(syncs.Add(1) * 7_919_000 % slow) })
	}
	before := m.last
	m.life, m.last = l, l
	m.restartClock()
	m.w.trace.Add("%s starts", m.host)
	m.w.lives.Go(func() {
		defer close(l.gone)
		if before != nil {
			<-before.gone
		}
		l.run(ctx)
	})
}

// run runs a process from its start to its end.
func (l *life) run(ctx context.Context) {
	disk := hook.NewWatch(l.mount)
	go stall.WatchDisk(ctx, disk, l.watch)
	node, err := l.openCluster(ctx)
	if err != nil {
		l.ends(err)
		return
	}
	defer node.Close()
	l.cluster.Store(node)
	b, err := broker.Open(ctx, broker.Options{Options: host.Options{
		Self: meta.NodeID(l.m.host), FS: disk, DataDir: l.m.dir, Meta: node.Store(), Calls: forward.Caller{Remote: node}, Peers: node.Peers(), Registered: true,
		Log:            commitlog.Options{SegmentBytes: l.w.plan.segment, FillBytes: -1},
		PublishTimeout: 2 * time.Second, Logger: l.logger(slog.LevelInfo), WallClock: node.Clock().Read, ScrubInterval: scrubEvery,
		Fatal: func(err error) { go l.ends(err) }, Moves: l.w.plan.movePolicy(),
		Trace: l.traces(ctx),
		Redo:  redo.Options{Together: l.w.plan.together, FileBytes: 64 << 10, SyncAll: l.w.plan.syncAll, VolumeFrom: l.w.plan.volumeFrom},
	}})
	if err != nil {
		l.ends(err)
		return
	}
	defer b.Close()
	node.Serve(cluster.Handlers{Replicate: b.Host.Topics.HandleReplication, Forward: b.Calls.HandleForward, ForwardDown: b.Calls.ForwardDown})
	l.broker.Store(b)
	l.w.trace.Add("%s serves", l.m.host)
	select {
	case <-l.over:
	case <-l.leave:
		l.endsInOrder(b, node)
	case <-node.Failed():
		l.ends(node.Err())
	}
}

// watch does what a process does while its disk does not respond.
func (l *life) watch(_ vfs.Op, unanswered time.Duration) bool {
	stalled := unanswered >= cluster.DefaultDiskTimeout
	if was := time.Duration(l.silent.Swap(int64(unanswered))); was >= cluster.DefaultDiskTimeout != stalled {
		l.w.trace.Add("%s: disk stalled: %v", l.m.host, stalled)
	}
	if unanswered >= cluster.DefaultDiskTimeout+3*time.Second {
		l.kill(vfs.Crash{KeepPercent: 100}, "ends because of its disk")
		return false
	}
	return true
}

func (l *life) openCluster(ctx context.Context) (*cluster.Node, error) {
	listener, err := l.net.Listen(l.m.host + port)
	if err != nil {
		return nil, err
	}
	var join []string
	for _, m := range l.w.machines {
		join = append(join, m.host+port)
	}
	return cluster.Open(ctx, cluster.Options{
		Self: meta.NodeID(l.m.host), DataDir: l.m.dir, Address: l.m.host + port, Listeners: []net.Listener{listener},
		LocalAddr: l.m.host, Join: join, Expect: min(3, l.w.plan.nodes), Build: "sim", Network: l.net, FS: l.mount,
		Node: meta.Node{BootID: l.m.bootID()}, DiskSilent: func() time.Duration { return time.Duration(l.silent.Load()) },
		Store:  func(o *raftstore.Options) { o.ReserveBytes = -1 },
		Logger: l.logger(slog.LevelWarn), Wall: l.m.wall,
	})
}

// logger returns a logger whose lines become events.
func (l *life) logger(least slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(eventWriter{l}, &slog.HandlerOptions{
		Level: least,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

type eventWriter struct{ l *life }

// Write implements io.Writer.
func (w eventWriter) Write(line []byte) (int, error) {
	if !w.l.isDead() {
		w.l.w.trace.Add("%s: %s", w.l.m.host, bytes.TrimSpace(line))
	}
	return len(line), nil
}

func (m *machine) bootID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprint("boot-", m.boot)
}

// ends ends a process that cannot continue. Only a broken disk is a reason for that.
func (l *life) ends(err error) {
	l.m.mu.Lock()
	broken := l.m.broken
	l.m.mu.Unlock()
	if !l.isDead() && !broken {
		l.w.wrong("%s cannot go on: %v", l.m.host, err)
	}
	l.kill(vfs.Crash{KeepPercent: 100}, "ends")
}

func (l *life) isDead() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.dead
}

// kill ends a process at this moment: nothing that it sends or writes from now on has an effect. It
// does not wait.
func (l *life) kill(c vfs.Crash, how string) {
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		return
	}
	l.dead = true
	l.mu.Unlock()
	l.net.close(l.w)
	disk := l.mount.Cut(c)
	l.w.trace.Add("%s %s", l.m.host, how)
	l.m.mu.Lock()
	l.m.disk, l.m.life = disk, nil
	l.m.mu.Unlock()
	l.cancel()
	close(l.over)
}

// stop tells a process to stop cleanly. It does not wait.
func (l *life) stop() {
	if l.leaving.CompareAndSwap(false, true) {
		close(l.leave)
	}
}

// endsInOrder does what a process does on SIGTERM.
func (l *life) endsInOrder(b *broker.Broker, node *cluster.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := b.Host.Handover(ctx)
	b.Host.Exit()
	if err = errors.Join(err, b.Close()); err == nil {
		err = node.StopClean()
	}
	if err != nil && !l.isDead() {
		l.w.trace.Add("%s stops: %v", l.m.host, err)
	}
	l.kill(vfs.Crash{KeepPercent: 100}, "is stopped")
}

// ownNetwork is one process's part of the network: it ends with the process.
type ownNetwork struct {
	inner *peertest.Network
	host  string

	mu        sync.Mutex // guards what follows
	dead      bool
	listeners []net.Listener
}

// Dial implements peer.Network.
func (n *ownNetwork) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	if n.isDead() {
		return nil, syscall.ENETDOWN
	}
	c, err := n.inner.Dial(ctx, n.host, address)
	if err == nil && n.isDead() {
		return nil, n.refuse(c)
	}
	return c, err
}

func (n *ownNetwork) refuse(c net.Conn) error {
	_ = c.Close()
	return syscall.ENETDOWN
}

func (n *ownNetwork) isDead() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead
}

// Listen implements peer.Network.
func (n *ownNetwork) Listen(address string) (net.Listener, error) {
	l, err := n.inner.Listen(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners = append(n.listeners, l)
	return l, nil
}

// close ends the network of a process: it resets all open connections, and no new one can be made.
func (n *ownNetwork) close(w *world) {
	n.mu.Lock()
	n.dead = true
	listeners := n.listeners
	n.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	for _, m := range w.machines {
		n.inner.Break(n.host, m.host)
	}
}
