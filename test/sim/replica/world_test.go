package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/simtest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// plan is what a seed chooses before the run begins.
type plan struct {
	nodes          int
	replicas       int
	minISR         int
	sync           meta.SyncPolicy
	segment        int64
	tail           int
	retain         bool
	lag            time.Duration // replica.lag
	publishTimeout time.Duration
	metaLag        time.Duration // at most, for each command
	publishers     int
	harm           bool        // disks are damaged often
	sizes          limit.Sizes // scaled down; some messages are about as large as the limits allow
	chaos          time.Duration
	pause          time.Duration // at most, between two faults
}

func newPlan(rnd *rand.Rand) plan {
	pick := func(values ...int) int { return values[rnd.IntN(len(values))] }
	p := plan{
		replicas: pick(2, 3, 3, 3, 3, 4, 5), sync: meta.SyncAlways(),
		segment: int64(pick(1<<10, 4<<10, 1<<20)), tail: pick(-1, 1<<10, 0), retain: rnd.IntN(3) == 0,
		lag: time.Duration(pick(200, 500, 2000)) * time.Millisecond, publishTimeout: time.Duration(pick(500, 2000, 5000)) * time.Millisecond,
		metaLag: time.Duration(pick(1, 10, 50, 200)) * time.Millisecond, publishers: pick(2, 4, 8),
		chaos: time.Duration(2+rnd.IntN(5)) * time.Second, pause: time.Duration(pick(20, 100, 400)) * time.Millisecond,
	}
	if rnd.IntN(3) == 0 {
		p.sync = meta.SyncPolicy{Interval: 200 * time.Millisecond}
	}
	p.harm = rnd.IntN(4) == 0
	p.minISR = p.replicas/2 + 1
	p.sizes = limit.Of(4 << 10)
	p.nodes = p.replicas
	return p
}

// world is one run.
type world struct {
	t       *testing.T
	rnd     *rand.Rand // of the script
	plan    plan
	twist   *twist
	trace   *simtest.Trace
	reg     *register
	net     *network
	nodes   []*node
	history *simtest.History
	lives   sync.WaitGroup // the processes, each from its start until everything of it is closed
	calm    atomic.Bool    // faults are over
	sharing atomic.Int64   // positions that a term was given and has not answered

	mu       sync.Mutex // guards what follows
	wrongs   []string
	first    string // the trace at the first failure
	prefix   []record
	leads    map[seq.Epoch]*lead
	shared   map[seq.Epoch]uint64 // the highest number that was confirmed
	lastCut  time.Time            // the last power cut that may lose data
	lastWipe time.Time
}

// node is a machine.
type node struct {
	id      meta.NodeID
	metaCut atomic.Bool

	mu        sync.Mutex // guards what follows
	disk      *vfs.Mem   // of the next process
	process   *process   // nil: none runs
	boot      string
	empty     bool       // the disk holds nothing, and the metadata does not know that
	broken    bool       // its disk fails
	lostPower bool       // at least once
	harmed    bool       // at least once the content of its disk was damaged
	lastLog   *vfs.Mem   // a copy to which the disk may be restored; nil: no copy was kept
	committed seq.Offset // the highest committed end that its processes knew since its disk was last damaged
	downSince time.Time
}

func (n *node) running() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// record is the message at an offset that some node called committed.
type record struct {
	epoch seq.Epoch
	name  string
}

// lead is the log with which a leader began.
type lead struct {
	node   meta.NodeID
	start  seq.Offset
	log    []string
	number uint64
	harmed bool // its disk was damaged: it may lack acknowledged messages at first, and has to yield
}

func newWorld(t *testing.T, seed uint64, tw *twist) *world {
	rnd := rand.New(rand.NewPCG(seed, 76))
	w := &world{
		t: t, rnd: rnd, plan: newPlan(rnd), twist: tw, trace: simtest.NewTrace(), reg: newRegister(seed), net: newNetwork(seed),
		history: simtest.NewHistory(), leads: map[seq.Epoch]*lead{}, shared: map[seq.Epoch]uint64{},
	}
	w.net.twist, w.net.maxFrame = tw, w.plan.sizes.Frame
	w.net.tooBig = func(kind uint8, size int) {
		w.wrong("a request of kind %d has %d bytes, a frame takes %d", kind, size, w.plan.sizes.Frame)
	}
	if tw != nil && tw.noCompare {
		w.reg.noCompare, w.reg.late = true, 60
	}
	if tw != nil && tw.plan != nil {
		tw.plan(&w.plan)
	}
	var ids []meta.NodeID
	for i := range w.plan.nodes {
		n := &node{id: meta.NodeID(fmt.Sprint("n", i+1)), disk: vfs.NewCrashable(), boot: "boot"}
		w.nodes = append(w.nodes, n)
		w.reg.apply(meta.NodeStarted{Node: meta.Node{ID: n.id, BootID: n.boot}})
		ids = append(ids, n.id)
	}
	_, result := w.reg.apply(meta.CreateTopic{
		Name: theTopic, Assignment: [][]meta.NodeID{ids},
		Config: meta.TopicConfig{Partitions: 1, Replicas: w.plan.replicas, MinISR: w.plan.minISR, Sync: w.plan.sync},
	})
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	w.trace.Add("%+v", w.plan)
	return w
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

// led checks the log with which a leader begins: an epoch has one leader, and the leader has all
// messages that were acknowledged before.
func (w *world) led(p *process, v coord.View) {
	log := p.replica.Log()
	l := &lead{node: p.node.id, start: log.Start(), number: p.stored.number()}
	names, err := namesIn(log, log.Start(), log.End())
	if err != nil {
		w.unreadable(p, err)
		return
	}
	l.log = names
	p.node.mu.Lock()
	l.harmed = p.node.harmed
	p.node.mu.Unlock()
	w.history.Acknowledged(func(name string, at, epoch uint64) {
		if epoch < uint64(v.Epoch) {
			w.has(l, v.Epoch, name, seq.Offset(at), seq.Epoch(epoch))
		}
	})
	w.mu.Lock()
	other := w.leads[v.Epoch]
	if other == nil {
		w.leads[v.Epoch] = l
	}
	var confirmed uint64
	for e, number := range w.shared {
		if e < v.Epoch {
			confirmed = max(confirmed, number)
		}
	}
	w.mu.Unlock()
	if other != nil {
		w.wrong("%s and %s both lead in epoch %d", other.node, l.node, v.Epoch)
	}
	if l.number < confirmed {
		w.wrong("%s leads at epoch %d with positions %x, and %x were confirmed", l.node, v.Epoch, l.number, confirmed)
	}
}

// has checks that a leader began with a message that was acknowledged in an earlier epoch.
func (w *world) has(l *lead, e seq.Epoch, name string, at seq.Offset, epoch seq.Epoch) {
	if at < l.start || l.harmed {
		return // finish checks whether the message was lost
	}
	if i := int(at - l.start); i >= len(l.log) || l.log[i] != name {
		w.wrong("%s leads at epoch %d without %s, acknowledged at %d in epoch %d", l.node, e, name, at, epoch)
	}
}

// acked checks that leaders of later epochs have a message that was acknowledged after they had
// begun.
func (w *world) acked(name string, at seq.Offset, epoch seq.Epoch) {
	for e, l := range w.later(epoch) {
		w.has(l, e, name, at, epoch)
	}
}

func (w *world) later(epoch seq.Epoch) map[seq.Epoch]*lead {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[seq.Epoch]*lead{}
	for e, l := range w.leads {
		if e > epoch {
			out[e] = l
		}
	}
	return out
}

// sharedPositions notes a number that every in-sync replica is said to have.
func (w *world) sharedPositions(number uint64, epoch seq.Epoch) {
	w.mu.Lock()
	w.shared[epoch] = max(w.shared[epoch], number)
	w.mu.Unlock()
	for e, l := range w.later(epoch) {
		if l.number < number {
			w.wrong("%s leads at epoch %d with positions %x, and %x were confirmed in epoch %d", l.node, e, l.number, number, epoch)
		}
	}
}

// unreadable notes that a process, which may be dead, could not read a log.
func (w *world) unreadable(p *process, err error) {
	p.life.RLock()
	dead := p.dead
	p.life.RUnlock()
	p.node.mu.Lock()
	harmed := p.node.harmed // compareCopies checks damaged disks in the end
	p.node.mu.Unlock()
	if !dead && !harmed && !p.mountBroken() {
		w.wrong("%s cannot read its log: %v", p.node.id, err)
	}
}

// namesIn returns the messages between two offsets where batches begin.
func namesIn(log *commitlog.Log, from, to seq.Offset) ([]string, error) {
	records, err := recordsIn(log, from, to)
	names := make([]string, len(records))
	for i := range records {
		names[i] = records[i].name
	}
	return names, err
}

func recordsIn(log *commitlog.Log, from, to seq.Offset) ([]record, error) {
	var out []record
	for from < to {
		raw, err := log.ReadRaw(from, 1<<16, nil)
		if err != nil {
			return out, err
		}
		if len(raw) == 0 {
			return out, errors.New("nothing to read")
		}
		for len(raw) > 0 && from < to {
			b, err := commitlog.Decode(raw)
			if err != nil {
				return out, err
			}
			records := b.Records(b.First())
			for range b.Count() {
				_, payload, _ := records.Next()
				out = append(out, record{b.Epoch(), nameOf(payload)})
			}
			from, raw = b.End(), raw[b.Size():]
		}
	}
	return out, nil
}

// sample compares what a node calls committed with what other nodes call committed.
func (w *world) sample(p *process) {
	log := p.replica.Log()
	committed := log.CommittedEnd()
	if committed < p.committed {
		w.wrong("%s: the committed end went from %d back to %d", p.node.id, p.committed, committed)
	}
	p.committed = max(committed, p.committed)
	p.knows(p.committed)
	p.seen = max(p.seen, log.Start())
	records, err := recordsIn(log, p.seen, committed)
	if err != nil {
		if log.Start() <= p.seen { // retention has not removed it
			w.unreadable(p, err)
		}
		return
	}
	w.compare(p, records)
	p.seen += seq.Offset(len(records))
	if w.plan.retain && w.reg.chance(20) {
		_, _ = log.Retain(commitlog.Retention{Floor: p.seen, Now: time.Now(), MaxAge: 300 * time.Millisecond})
	}
}

func (w *world) compare(p *process, records []record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, r := range records {
		at := int(p.seen) + i
		var text string
		switch {
		case at < len(w.prefix) && w.prefix[at] != r:
			text = fmt.Sprintf("%s calls %v committed at %d, others %v", p.node.id, r, at, w.prefix[at])
		case at > len(w.prefix):
			text = fmt.Sprintf("%s calls %v committed at %d, and what is before it is not known to be committed", p.node.id, r, at)
		case at == len(w.prefix):
			w.prefix = append(w.prefix, r)
		}
		if text != "" {
			if len(w.wrongs) == 0 {
				w.first = w.trace.String()
			}
			w.wrongs = append(w.wrongs, text)
			return
		}
	}
}

// finish checks the whole history, when nothing fails any more and all replicas are in sync.
func (w *world) finish() {
	w.mu.Lock()
	names := make([]string, len(w.prefix))
	for i, r := range w.prefix {
		names[i] = r.name
	}
	w.mu.Unlock()
	for _, text := range w.history.Check(0, names) {
		w.wrong("%s", text)
	}
	if _, _, _, open := w.history.Counts(); open != 0 {
		w.wrong("%d messages were never settled", open)
	}
	if n := w.sharing.Load(); n != 0 {
		w.wrong("%d shared positions were never settled", n)
	}
}

// report fails the test if there was a failure.
func (w *world) report() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrongs) > 0 {
		w.t.Errorf("%s\n\n%s", simtest.Report(slices.Clone(w.wrongs)), w.first)
	}
}
