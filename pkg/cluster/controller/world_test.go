package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// behaviour is a node's reaction to a probe.
type behaviour int

const (
	answers behaviour = iota
	refuses
	silent
)

// world is a cluster with its metadata, one controller, and nodes controlled by the test. Its clock
// advances in steps.
type world struct {
	t     testing.TB
	state meta.State
	core  *core
	opts  Options
	now   time.Duration
	nodes map[meta.NodeID]behaviour
	next  time.Duration // when to decide next
	led   map[string]meta.NodeID
	log   strings.Builder
	last  string // problems, as last printed
	lossy func() bool
	skews map[meta.NodeID]time.Duration
}

const step = 10 * time.Millisecond

func newWorld(t testing.TB, o Options) *world {
	return &world{t: t, opts: o, nodes: map[meta.NodeID]behaviour{}, led: map[string]meta.NodeID{}, skews: map[meta.NodeID]time.Duration{}}
}

func (w *world) clock() time.Time { return time.Unix(1_000_000, 0).Add(w.now) }

// apply applies a command and checks the invariants of every state.
func (w *world) apply(c meta.Command) meta.Result {
	w.t.Helper()
	before := w.state.Snapshot()
	r := w.state.Apply(w.state.Index()+1, c)
	w.checkEpochs(before, c)
	if f, ok := c.(meta.FinishReassign); ok && r.Err == nil {
		w.checkCopies(before.Topic(f.Topic).Partitions[f.Partition], w.partition(f.Topic, f.Partition))
	}
	if f, ok := c.(meta.FitTopic); ok && r.Err == nil {
		w.checkFit(before.Topic(f.Name), w.state.Topic(f.Name))
	}
	return r
}

// checkFit: only numbers that were left open are raised, and no partition refuses publishes because
// of it.
func (w *world) checkFit(was, now *meta.Topic) {
	w.t.Helper()
	if was.Config.Replicas != now.Config.Replicas && !was.Config.AutoReplicas || was.Config.MinISR != now.Config.MinISR && !was.Config.AutoMinISR {
		w.t.Fatalf("what was asked for changes by itself: from %+v to %+v", was.Config, now.Config)
	}
	for i, p := range now.Partitions {
		if len(p.ISR) < now.Config.MinISR && len(p.ISR) >= was.Config.MinISR {
			w.t.Fatalf("a raise stops the publishes of %s/%d: min ISR %d, in sync %v", now.Name, i, now.Config.MinISR, p.ISR)
		}
	}
}

// checkCopies: a completed move removes no good replica unless as many good ones remain as
// required.
func (w *world) checkCopies(was, now meta.Partition) {
	w.t.Helper()
	if len(now.ISR) < len(was.ISR) && len(now.ISR) < len(now.Replicas) || now.Moving() {
		w.t.Fatalf("from %+v to %+v", was, now)
	}
}

// checkEpochs: an epoch has one leader, from the previous in-sync set.
func (w *world) checkEpochs(before *meta.State, c meta.Command) {
	w.t.Helper()
	unclean := false // at an operator's request
	if e, ok := c.(meta.ElectLeaders); ok {
		unclean = slices.ContainsFunc(e.Elections, func(e meta.Election) bool { return e.Unclean })
	}
	for t := range w.state.Topics() {
		if before.Topic(t.Name) == t {
			continue
		}
		for i := range t.Partitions {
			p := &t.Partitions[i]
			key := fmt.Sprintf("%s@%d/%d epoch %d", t.Name, t.Incarnation, i, p.Epoch)
			if was, known := w.led[key]; known && was != p.Leader {
				w.t.Fatalf("%s: led by %q and by %q after %+v", key, was, p.Leader, c)
			}
			w.led[key] = p.Leader
			if old := before.Topic(t.Name); old != nil && !unclean && p.Leader != "" && p.Leader != old.Partitions[i].Leader &&
				!slices.Contains(old.Partitions[i].ISR, p.Leader) {
				w.t.Fatalf("%s: %q was not in sync, %v was", key, p.Leader, old.Partitions[i].ISR)
			}
		}
	}
}

func (w *world) start(id meta.NodeID, zone string) {
	w.nodes[id] = answers
	w.apply(meta.NodeStarted{Node: meta.Node{ID: id, Zone: zone, BootID: "b"}})
}

// checkRest: if the controller would not visit all topics, visiting them finds nothing to do.
func (w *world) checkRest() {
	w.t.Helper()
	nodes := w.core.Conditions(&w.state)
	if !w.core.settled || !w.core.rests(&w.state, nodes) {
		return
	}
	elections, troubles := Elect(&w.state, nodes)
	moves, stuck := moves(&w.state, nodes, w.opts)
	if troubles = append(troubles, stuck...); len(elections)+len(moves) > 0 || !slices.EqualFunc(troubles, w.core.troubles, Trouble.same) {
		w.t.Fatalf("at %v the controller rests: %v %v, troubles %v, were %v", w.now, elections, moves, troubles, w.core.troubles)
	}
}

// decide runs the controller and applies its decisions.
func (w *world) decide() {
	w.t.Helper()
	now := w.clock()
	w.checkRest()
	d := w.core.Decide(&w.state, now)
	for _, v := range d.Verdicts {
		w.printf("%v %s %s: %s\n", w.now, v.Node, map[bool]string{true: "alive", false: "dead"}[v.Alive], v.Why)
	}
	for _, c := range d.Commands {
		if e, ok := c.(meta.ElectLeaders); ok {
			w.checkElections(e)
		}
		if w.lossy != nil && w.lossy() {
			continue
		}
		r := w.apply(c)
		w.print(c, r)
	}
	w.printTroubles(d.Troubles)
	if w.next = w.now + d.Next.Sub(now); w.next <= w.now {
		w.t.Fatalf("at %v: decide again %v", w.now, w.next)
	}
	for _, id := range d.Probe {
		w.next = w.now + step // an answer is a change
		switch w.nodes[id] {
		case answers:
			w.core.Heard(id, w.state.Node(id).Incarnation, now)
		case refuses:
			w.core.Refused(id, now)
		case silent:
		}
	}
}

// checkElections: no election is unclean, and each elects a node of the in-sync set.
func (w *world) checkElections(c meta.ElectLeaders) {
	w.t.Helper()
	for _, e := range c.Elections {
		t := w.state.Topic(e.Topic)
		if p := t.Partitions[e.Partition]; e.Unclean || e.Leader != "" && !slices.Contains(p.ISR, e.Leader) {
			w.t.Fatalf("%+v, in sync are %v", e, p.ISR)
		}
	}
}

func (w *world) printf(format string, args ...any) { fmt.Fprintf(&w.log, format, args...) }

func (w *world) print(c meta.Command, r meta.Result) {
	refused := ""
	if r.Err != nil {
		refused = ", refused: " + r.Err.Error()
	}
	switch c := c.(type) {
	case meta.SetNodeState:
		w.printf("%v set %s %s%s\n", w.now, c.ID, c.State, refused)
	case meta.ElectLeaders:
		for i, e := range c.Elections {
			leader := string(e.Leader)
			if leader == "" {
				leader = "nobody"
			}
			if r.Failed != nil && r.Failed[i] != nil {
				refused = ", refused: " + r.Failed[i].Error()
			}
			w.printf("%v elect %s for %s/%d: %s%s\n", w.now, leader, e.Topic, e.Partition, e.Reason, refused)
		}
	case meta.StartReassign:
		w.printf("%v move %s/%d to %s%s\n", w.now, c.Topic, c.Partition, names(c.Target), refused)
	case meta.FinishReassign:
		w.printf("%v finish %s/%d%s\n", w.now, c.Topic, c.Partition, refused)
	default:
		w.printf("%v %+v%s\n", w.now, c, refused)
	}
}

func (w *world) printTroubles(ts []Trouble) {
	var b strings.Builder
	for _, t := range ts {
		fmt.Fprintf(&b, " %s %s/%d (%s);", t.Kind, t.Topic, t.Partition, names(t.Nodes))
	}
	if b.String() != w.last && (b.Len() > 0 || w.last != "") {
		w.printf("%v trouble:%s\n", w.now, strings.TrimSuffix(b.String(), ";"))
	}
	w.last = b.String()
}

// run advances the time, and runs the controller whenever it asked for that.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	for end := w.now + d; w.now < end; w.now += step {
		if w.now >= w.next {
			w.decide()
		}
	}
}

// follow makes every responding leader admit its living replicas to the in-sync set and remove dead
// ones.
func (w *world) follow() {
	w.t.Helper()
	for t := range w.state.Snapshot().Topics() {
		for i, p := range t.Partitions {
			if p.Leader == "" || w.nodes[p.Leader] != answers {
				continue
			}
			var isr []meta.NodeID
			for _, id := range p.Replicas {
				if w.nodes[id] == answers {
					isr = append(isr, id)
				}
			}
			if len(isr) != len(p.ISR) || slices.ContainsFunc(isr, func(id meta.NodeID) bool { return !slices.Contains(p.ISR, id) }) {
				w.alter(t.Name, i, isr)
			}
		}
	}
}

func (w *world) alter(topic string, i int, isr []meta.NodeID) {
	w.t.Helper()
	in := slices.Clone(w.state.Topic(topic).Partitions[i].ISR)
	set := func(joiner meta.NodeID) {
		p := w.state.Topic(topic).Partitions[i]
		c := meta.AlterISR{Topic: topic, Partition: i, Epoch: p.Epoch, Version: p.Version, Joiner: joiner}
		c.ISR = slices.DeleteFunc(slices.Clone(isr), func(id meta.NodeID) bool { return !slices.Contains(in, id) })
		if joiner != "" {
			c.JoinerIncarnation = w.state.Node(joiner).Incarnation
		}
		if r := w.apply(c); r.Err != nil {
			w.t.Fatal(r.Err)
		}
	}
	joins := false
	for _, id := range isr { // one after the other
		if !slices.Contains(in, id) {
			in, joins = append(in, id), true
			set(id)
		}
	}
	if !joins {
		set("")
	}
}

func (w *world) topic(name string, minISR int, assignment [][]meta.NodeID) {
	w.t.Helper()
	c := meta.TopicConfig{Partitions: len(assignment), Replicas: len(assignment[0]), MinISR: minISR, Sync: meta.SyncPolicy{Every: 1}}
	if r := w.apply(meta.CreateTopic{Name: name, Config: c.WithDefaults(len(w.nodes), false), Assignment: assignment}); r.Err != nil {
		w.t.Fatal(r.Err)
	}
}

// openTopic creates a topic with all numbers left open.
func (w *world) openTopic(name string, assignment [][]meta.NodeID) {
	w.t.Helper()
	c := meta.TopicConfig{Partitions: len(assignment), AutoReplicas: true, Replicas: len(assignment[0])}
	if r := w.apply(meta.CreateTopic{Name: name, Config: c.WithDefaults(len(w.nodes), false), Assignment: assignment}); r.Err != nil {
		w.t.Fatal(r.Err)
	}
}

func (w *world) show() {
	for n := range w.state.Nodes() {
		w.printf("%s %s %s\n", n.ID, n.State, n.Intent)
	}
	for t := range w.state.Topics() {
		for i, p := range t.Partitions {
			w.printf("%s/%d leader %q epoch %d replicas %s in sync %s", t.Name, i, p.Leader, p.Epoch, names(p.Replicas), names(p.ISR))
			if p.Moving() {
				w.printf(" adding %s removing %s", names(p.Adding), names(p.Removing))
			}
			w.printf("\n")
		}
	}
}

func names(ids []meta.NodeID) string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	return strings.Join(out, ",")
}

func ids(text string) []meta.NodeID {
	var out []meta.NodeID
	for id := range strings.SplitSeq(text, ",") {
		out = append(out, meta.NodeID(id))
	}
	return out
}

func (w *world) partition(topic string, i int) meta.Partition {
	return w.state.Topic(topic).Partitions[i]
}
