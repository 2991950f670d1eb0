package host

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/repair"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/quota"
	"github.com/brokerd/brokerd/pkg/scrubber"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Topics gives access to the topics on this node.
type Topics struct {
	o       *Options
	cluster string // its id; set before any topic is opened
	damage  *repair.Known

	hosted        sync.Map     // topic name -> *Topic; written in the topic's lane only
	byIncarnation incarnations // likewise

	recovery atomic.Int64 // ns that opening all logs at the start took
	deleted  deletions
	overfull chan struct{} // signals that an ephemeral topic exceeds its share; holds one

	retiredMu sync.Mutex // guards retired
	retired   LogStats   // counters of deleted topics
}

// incarnations finds topics by their incarnation, for each request of a leader. Its methods are
// safe for concurrent use.
type incarnations struct {
	mu sync.RWMutex // guards of
	of map[meta.Incarnation]*Topic
}

// Load returns a topic, or nil.
func (in *incarnations) Load(i meta.Incarnation) *Topic {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return in.of[i]
}

// Store adds a topic.
func (in *incarnations) Store(h *Topic) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.of == nil {
		in.of = map[meta.Incarnation]*Topic{}
	}
	in.of[h.Incarnation] = h
}

// Delete removes a topic.
func (in *incarnations) Delete(i meta.Incarnation) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.of, i)
}

// Lookup returns a topic on this node, or nil.
func (ts *Topics) Lookup(name string) *Topic {
	h, ok := ts.hosted.Load(name)
	if !ok {
		return nil
	}
	return h.(*Topic)
}

// log returns the log of a replica on this node, or nil.
func (ts *Topics) log(topic string, i int) *commitlog.Log {
	if h := ts.Lookup(topic); h != nil && h.Held(i) != nil {
		return h.Held(i).Replica.Log()
	}
	return nil
}

// Hosted returns the topics on this node, sorted by name.
func (ts *Topics) Hosted() []*Topic {
	var all []*Topic
	ts.hosted.Range(func(_, h any) bool {
		all = append(all, h.(*Topic))
		return true
	})
	slices.SortFunc(all, func(x, y *Topic) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// EachHeld calls f for each replica on this node.
func (ts *Topics) EachHeld(f func(*Topic, *Held)) {
	ts.hosted.Range(func(_, v any) bool {
		h := v.(*Topic)
		for _, hp := range h.AllHeld() {
			if hp != nil {
				f(h, hp)
			}
		}
		return true
	})
}

// eachStored calls f for each replica whose log is on disk.
func (ts *Topics) eachStored(f func(name string, r scrubber.Replica)) {
	ts.EachHeld(func(h *Topic, hp *Held) {
		if h.fs == ts.o.FS {
			f(hp.name, hp.Replica)
		}
	})
}

// LogStats returns the sums over the logs of this node.
func (ts *Topics) LogStats() LogStats {
	ts.retiredMu.Lock()
	s := ts.retired
	ts.retiredMu.Unlock()
	for _, h := range ts.Hosted() {
		for _, hp := range h.AllHeld() {
			if hp != nil {
				s.add(hp.Replica.Log().Stats())
			}
		}
	}
	s.Unreadable, s.Damaged = ts.damage.Counts()
	s.TornBytes = ts.damage.TornBytes()
	s.Recovery = time.Duration(ts.recovery.Load())
	return s
}

// retire keeps the counters of a replica that is about to be closed.
func (ts *Topics) retire(hp *Held) {
	ts.retiredMu.Lock()
	defer ts.retiredMu.Unlock()
	ts.retired.retire(hp.Replica.Log().Stats())
}

// HandleReplication answers a request of another node that leads a partition. reply is called once,
// possibly before HandleReplication returns, and uses the connection by. The caller must not reuse
// the payload. A partition that is not held here, or not yet, is answered as not ready: the leader
// asks again.
func (ts *Topics) HandleReplication(by vfs.Gatherer, _ meta.NodeID, kind uint8, payload []byte, reply func([]byte)) {
	at, err := replication.PartitionOf(payload)
	if err == nil {
		if h := ts.byIncarnation.Load(at.Topic); h != nil {
			if hp := h.Held(at.Index); hp != nil {
				hp.Replica.Handle(by, kind, payload, reply)
				return
			}
		}
	}
	reply(replication.NotReady())
}

// leads reports whether the metadata on this node names it as leader of a partition in an epoch.
func (ts *Topics) leads(h *Topic, i int, epoch seq.Epoch) bool {
	p := idOf(h, i).Of(ts.o.Meta.Topic(h.Name))
	return p != nil && p.Leader == ts.o.Self && p.Epoch == epoch
}

// newTopic returns a topic without replicas.
func (ts *Topics) newTopic(t *meta.Topic) *Topic {
	h := &Topic{Name: t.Name, ids: seq.NumberingOf(ts.cluster, uint64(t.Incarnation)), Incarnation: t.Incarnation, fs: ts.o.FS, watchers: map[*watch]struct{}{}}
	h.Disk.Tells(ts.overfull)
	if meta.IsEphemeral(t.Name) {
		h.fs = vfs.NewMem()
		h.memory = quota.NewMemory(ts.o.EphemeralBytes, ts.overfull, ts.o.Memory.Share(limit.Ephemeral))
	}
	h.config.Store(t)
	h.held.Store(&[]*Held{})
	h.leading.Store(&[]*Led{})
	return h
}

// DeletedLately reports whether a topic, or one of its channels if named, was deleted at any node
// within the last ten seconds, as far as this node has applied that.
func (ts *Topics) DeletedLately(topic, channel string) bool {
	return ts.deleted.has(deletion{topic, channel}, time.Now())
}
