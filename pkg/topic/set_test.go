package topic

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/positions"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// set is a partition on three nodes. Every message is on all of them at once. A
// share of the positions arrives when the test delivers it.
type set struct {
	t      *testing.T
	nodes  [3]*setNode
	leader int
	epoch  seq.Epoch
	p      *Partition
	line   *line
	leased func(time.Time) bool
	now    time.Time
	many   int
}

// setNode is one node's replica.
type setNode struct {
	fs      *vfs.Mem
	log     *commitlog.Log
	w       *commitlog.Writer
	standby *positions.Standby // nil: it leads
	killed  bool               // and has not received again what it had in memory
	ages    *age.Clock
	step    time.Duration // of its wall clock
	since   int           // messages published before its process started
}

// clock returns the clock for ages of a new process of the node.
func (n *setNode) clock(s *set) *age.Clock {
	return age.NewClock(func(now time.Time) int64 { return now.Add(n.step).UnixNano() })
}

func newSet(t *testing.T) *set { return newSetThatUpdates(t, 0) }

// newSetThatUpdates is newSet, with leaders that share updates of positions
// with at least many entries; 0: of large positions.
func newSetThatUpdates(t *testing.T, many int) *set {
	s := &set{t: t, leader: -1, now: t0, many: many}
	for i := range s.nodes {
		n := &setNode{fs: vfs.NewMem()}
		n.ages = n.clock(s)
		if err := n.fs.MkdirAll("p"); err != nil {
			t.Fatal(err)
		}
		var err error
		if n.log, _, err = commitlog.Open(n.fs, "p", commitlog.Options{SegmentBytes: 1 << 16}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.log.Close() })
		s.nodes[i] = n
		s.follow(i)
	}
	s.lead(0)
	return s
}

func (s *set) follow(i int) {
	s.t.Helper()
	var err error
	n := s.nodes[i]
	if n.standby, err = positions.OpenStandby(positions.StandbyOptions{
		FS: n.fs, Dir: "p", End: n.log.End(),
		Damaged: func(err error) { s.t.Errorf("node %d: positions are damaged: %v", i, err) },
	}); err != nil {
		s.t.Fatal(err)
	}
}

// lead ends the current term and makes another node the leader.
func (s *set) lead(to int) {
	s.t.Helper()
	if s.leader >= 0 {
		s.line.end()
		if err := s.p.Close(errDeposed); err != nil {
			s.t.Fatal(err)
		}
		s.follow(s.leader)
	}
	s.epoch++
	for _, n := range s.nodes {
		var err error
		if n.w, err = n.log.Writer(s.epoch); err != nil {
			s.t.Fatal(err)
		}
	}
	n := s.nodes[to]
	if err := n.standby.Close(); err != nil {
		s.t.Fatal(err)
	}
	n.standby, s.leader = nil, to
	s.line = &line{set: s}
	p, err := Open(Options{
		Ages: n.ages, Now: func() time.Time { return s.now },
		FS: n.fs, Dir: "p", Log: n.log, Leased: s.leased, Observer: deaf{},
		Arm:              func(*Channel) {},
		Damaged:          func(err *commitlog.CorruptionError) { s.t.Error(err) },
		PositionsDamaged: func(err error, _ bool) { s.t.Errorf("positions are damaged: %v", err) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.p = p
	if s.many > 0 {
		p.collector.many = s.many
	}
	p.Serve(s.line)
}

var errDeposed = errors.New("another node leads")

// bench returns a bench, for its helpers, on the partition that is led now.
func (s *set) bench() *bench { return &bench{t: s.t, p: s.p, log: s.nodes[s.leader].log} }

func (s *set) channel(name string, version uint64, ordered bool) *Channel {
	s.t.Helper()
	c, err := s.p.AddChannel(name, version, ChannelOptions{Order: policy.StrictIf(ordered)})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *set) publish(bodies ...string) {
	s.t.Helper()
	for _, body := range bodies {
		s.publishLate(body, 0)
	}
}

func (s *set) publishLate(body string, delay time.Duration) {
	s.t.Helper()
	s.p.Publish([]Message{{Body: []byte(body), Delay: delay}}, func(r Receipt) {
		if r.Err != nil {
			s.t.Errorf("receipt %+v", r)
		}
	})
}

// line is the Log and the Sharer of a partition: it appends entries to all
// logs, and keeps shares until the test delivers them.
type line struct {
	set     *set
	alone   bool
	ended   bool
	auto    bool       // everything arrives at once
	mu      sync.Mutex // guards parcels
	parcels []*parcel
	next    [3]int  // the parcel that a node gets next
	fresh   [3]bool // its session has just begun
	has     [3]int  // how many it has, or newer ones that say as much
	settled int     // parcels that every replica has
}

// kind is the kind of share in a parcel.
type kind int

const (
	aChange kind = iota
	aSnapshot
	anUpdate
)

type parcel struct {
	kind   kind
	data   []byte
	done   func(error)
	folded []byte
}

var _ Log = (*line)(nil)

func (l *line) Append(e commitlog.Entry) error {
	builder := new(commitlog.Builder)
	e.AppendTo(builder)
	s := l.set
	batch, err := s.nodes[s.leader].w.Append(builder, s.nodes[s.leader].ages.Wall(s.now))
	if err != nil {
		return err
	}
	for i, n := range s.nodes {
		n.ages.Appended(ageOf(batch), s.now)
		if i != s.leader {
			if _, err := n.w.AppendRaws(batch.Raw()); err != nil {
				return err
			}
		}
		if _, err := n.w.Sync(); err != nil {
			return err
		}
		n.log.Commit(batch.End())
	}
	s.p.Committed(batch)
	e.Complete(commitlog.Placed{Written: true, First: batch.First(), Position: batch.Position()}, nil)
	return nil
}

func (l *line) Epoch() seq.Epoch { return l.set.epoch }

func (l *line) Shared() bool { return !l.alone }

func (l *line) SharePositions(snapshot []byte, done func(error)) {
	l.add(&parcel{kind: aSnapshot, data: snapshot, done: done})
}

func (l *line) ShareUpdate(update []byte, done func(error)) func([]byte) {
	p := &parcel{kind: anUpdate, data: update, done: done}
	l.add(p)
	return func(snapshot []byte) { p.folded = snapshot }
}

func (l *line) ShareAdvance(change []byte, done func(error)) {
	l.add(&parcel{kind: aChange, data: change, done: done})
}

func (l *line) add(p *parcel) {
	if l.ended {
		p.done(errEnded)
		return
	}
	l.mu.Lock()
	l.parcels = append(l.parcels, p)
	l.mu.Unlock()
	if l.auto {
		l.deliverAll()
	}
}

// deliver delivers the next parcel to a follower, and reports to the leader
// when every follower has it.
func (l *line) deliver(node int) bool {
	l.set.t.Helper()
	n := l.set.nodes[node]
	p := l.parcel(l.next[node])
	if n.standby == nil || p == nil {
		return false
	}
	var err error
	switch {
	case p.folded != nil && l.fresh[node]:
		err = n.standby.Replace(p.folded)
	case p.kind == aSnapshot:
		err = n.standby.Replace(p.data)
	case p.kind == anUpdate:
		err = n.standby.Update(p.data)
	default:
		err = n.standby.Advance(p.data)
	}
	l.fresh[node] = false
	if err != nil {
		l.set.t.Fatal(err)
	}
	l.next[node]++
	l.has[node] = max(l.has[node], l.next[node])
	n.killed = n.killed && l.next[node] < l.settled
	for p := l.parcel(l.settled); p != nil && l.everybodyHas(l.settled); p = l.parcel(l.settled) {
		l.settled++
		p.done(nil)
	}
	return true
}

// parcel returns the parcel with an index, or nil if there is none yet.
func (l *line) parcel(i int) *parcel {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i == len(l.parcels) {
		return nil
	}
	return l.parcels[i]
}

func (l *line) everybodyHas(parcel int) bool {
	for i, n := range l.set.nodes {
		if n.standby != nil && l.has[i] <= parcel {
			return false
		}
	}
	return true
}

func (l *line) deliverAll() {
	for some := true; some; { // delivering may share more
		some = false
		for i := range l.set.nodes {
			for l.deliver(i) {
				some = true
			}
		}
	}
}

// restart begins a new session with a follower: it gets the newest snapshot and
// the later shares. If killed, it lost what it had in memory.
func (l *line) restart(node int, killed bool) {
	l.next[node] = 0
	if killed {
		l.has[node] = 0
		l.set.nodes[node].killed = true
	}
	l.fresh[node] = true
	for i, p := range l.parcels {
		if p.kind == aSnapshot || p.folded != nil {
			l.next[node] = i
		}
	}
}

// end ends the term.
func (l *line) end() {
	l.ended = true
	for p := l.parcel(l.settled); p != nil; p = l.parcel(l.settled) {
		l.settled++
		p.done(errEnded)
	}
}

var errEnded = fate.Mark(errors.New("the term ended"), fate.Uncertain)

// snapshots returns the shared snapshots.
func (l *line) snapshots() (n int) {
	for _, p := range l.parcels {
		if p.kind == aSnapshot {
			n++
		}
	}
	return n
}

func (l *line) String() string {
	return fmt.Sprintf("%d parcels, %d settled, next %v, has %v", len(l.parcels), l.settled, l.next, l.has)
}
