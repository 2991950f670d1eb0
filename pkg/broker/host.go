package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// shelf is what a node holds of the cluster's topics, for those who look.
type shelf struct {
	o   Options
	log *slog.Logger

	hosted        sync.Map // topic name -> *hostedTopic; written in the topic's turn only
	byIncarnation sync.Map // meta.Incarnation -> *hostedTopic; likewise

	damage   damage       // damaged ranges of the logs held
	torn     atomic.Int64 // bytes cut from torn tails
	recovery atomic.Int64 // ns that opening all logs at the start took

	retiredMu sync.Mutex // guards retired
	retired   LogStats   // what deleted topics counted
}

// hosting makes what the node holds what the metadata says it should.
type hosting struct {
	shelf
	dirs    layout
	turns   turns   // whoever changes what is held of a topic has its turn
	terms   *terms  // the led partitions that are told the time
	unsaved unsaved // the replicas that a checkpoint is to look at
	isr     *proposer
	leavers leavers
	shifts  shifts // of leaderships, for the log

	opening  atomic.Bool     // what is held from before is being opened
	began    uint64          // index of the metadata when the node started
	life     context.Context // ends when the node closes
	end      context.CancelFunc
	timers   timers
	running  sync.WaitGroup        // the node's loops and what it does in the background
	exiting  atomic.Bool           // changes are refused
	failed   atomic.Pointer[error] // why the node cannot go on
	failOnce sync.Once
	strays   atomic.Int64 // directories of topics that the metadata never knew
}

func newHosting(o Options) *hosting {
	life, end := context.WithCancel(context.Background())
	return &hosting{
		life: life, end: end,
		shelf: shelf{o: o, log: o.Logger}, dirs: layout{o.DataDir},
		timers: timers{wakeup: make(chan struct{}, 1)}, isr: newProposer(o.Meta.Propose),
		terms: newTerms(newTouch(o.Lease, o.Meta.QuorumContact)), unsaved: unsaved{wakeup: make(chan struct{}, 1)},
	}
}

func (n *shelf) lookup(name string) *hostedTopic {
	h, ok := n.hosted.Load(name)
	if !ok {
		return nil
	}
	return h.(*hostedTopic)
}

// hostedTopics returns what is hosted, sorted by name.
func (n *shelf) hostedTopics() []*hostedTopic {
	var all []*hostedTopic
	n.hosted.Range(func(_, h any) bool {
		all = append(all, h.(*hostedTopic))
		return true
	})
	slices.SortFunc(all, func(x, y *hostedTopic) int { return strings.Compare(x.name, y.name) })
	return all
}

// converge makes what this node holds of a topic match the metadata.
func (n *hosting) converge(name string) error {
	end, ok := n.turns.begin(name)
	if !ok {
		return ErrExiting
	}
	defer end()
	// What is read in the topic's turn is never older than what was read in the
	// turn before.
	want, nodes := n.read(name)
	h := n.lookup(name)
	if h != nil && (want == nil || want.Incarnation != h.incarnation) {
		n.hosted.Delete(name)
		n.byIncarnation.Delete(h.incarnation)
		if err := n.discard(h); err != nil {
			return err
		}
		h = nil
	}
	if want == nil {
		return nil
	}
	if h == nil {
		h = n.newTopic(want)
		n.hosted.Store(name, h)
		n.byIncarnation.Store(h.incarnation, h)
	}
	return n.adopt(h, want, nodes)
}

// read returns what metadata says of a topic and of the nodes that hold it.
func (n *shelf) read(name string) (t *meta.Topic, nodes nodesByID) {
	nodes = nodesByID{}
	n.o.Meta.Read(func(s *meta.State) {
		if t = s.Topic(name); t == nil {
			return
		}
		for i := range t.Partitions {
			for _, id := range t.Partitions[i].Replicas {
				if _, known := nodes[id]; !known {
					nodes[id] = s.Node(id)
				}
			}
		}
	})
	return t, nodes
}

var errPartitionsAdded = errors.New("the topic has new partitions: subscribe again")

// adopt makes what is held of a topic match what metadata says of it.
func (n *hosting) adopt(h *hostedTopic, t *meta.Topic, nodes nodesByID) error {
	changed := h.adopted.Load() != t
	grown := len(h.partitions()) > 0 && len(t.Partitions) > len(h.partitions())
	var errs []error
	for i := range t.Partitions {
		if err := n.adoptPartition(h, t, i, nodes); err != nil {
			errs = append(errs, fmt.Errorf("partition %d: %w", i, err))
		}
	}
	h.config.Store(t)
	if changed {
		for _, lp := range h.led() {
			errs = append(errs, lp.adopt(t))
		}
	}
	if grown {
		h.disconnect(errPartitionsAdded)
	}
	if err := errors.Join(errs...); err != nil {
		h.adopted.Store(nil)
		return err
	}
	h.adopted.Store(t)
	return nil
}

// openReplica opens a replica of a partition, in no role yet.
func (n *hosting) openReplica(h *hostedTopic, t *meta.Topic, i int) (*hostedPartition, error) {
	state, err := quarantine{n}.look(h, t, i)
	if err != nil {
		return nil, err
	}
	replica, err := n.openLog(h, t, i)
	if err != nil {
		return nil, err
	}
	if len(replica.Recovery().Damaged) > 0 && state == intact {
		state = damaged
	}
	delete(h.parted, i)
	hp := &hostedPartition{index: i, dir: n.dirs.partition(t, i), replica: replica}
	hp.state.Store(int32(state))
	return hp, nil
}

// openLog opens the log of a replica, in a directory that is there.
func (n *hosting) openLog(h *hostedTopic, t *meta.Topic, i int) (*coord.Replica, error) {
	lo := n.o.Log
	// Whoever replicates syncs several batches at once: then a tail of them that a
	// loss of power tore is no damage.
	lo.Alternating = t.Config.Sync.Always() && len(t.Partitions[i].Replicas) == 1
	if h.fs != n.o.FS {
		lo.SegmentBytes = min(n.o.EphemeralBytes/ephemeralSegments, ephemeralMaxSegment)
		lo.TailBytes, lo.FillBytes = -1, -1 // it is in memory as it is
	}
	replica, err := coord.OpenReplica(coord.ReplicaOptions{
		FS: h.fs, Dir: n.dirs.partition(t, i), Self: n.o.Self, Log: lo, Now: time.Now, Failed: n.fail,
		Partition: replication.Partition{Topic: t.Incarnation, Index: i}, Peers: n.o.Peers,
		ReplicaLag: n.o.ReplicaLag, PublishTimeout: n.o.PublishTimeout,
		ProposeISR: func(term *coord.Term, c coord.ISRChange) {
			n.isr.ask(proposal{topic: t.Name, incarnation: t.Incarnation, partition: i, term: term, change: c})
		},
		Stirred: n.terms.stir,
		Spoiled: func() {
			if hp := h.at(i); hp != nil {
				n.unsaved.add(h, hp)
			}
		},
		Superseded: func(by seq.Epoch) {
			if hp := h.at(i); hp != nil {
				hp.lease.Load().superseded(by)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	n.reportRecovery(t.Name, i, replica.Recovery())
	return replica, nil
}

// An ephemeral topic's log is cut into small segments, so that retention can
// drop the oldest messages in small steps.
const (
	ephemeralSegments   = 8
	ephemeralMaxSegment = 8 << 20
)

func (n *shelf) reportRecovery(name string, partition int, r commitlog.Recovery) {
	log := n.log.With("topic", name, "partition", partition)
	for _, c := range r.Cut {
		n.torn.Add(c.Bytes)
		log.Warn("a torn tail was cut: it had not been synced", "path", c.Path, "position", c.Position, "bytes", c.Bytes)
	}
	for _, d := range r.Damaged {
		n.reportDamage(name, partition, &commitlog.CorruptionError{Path: d.Path, Position: d.Position, From: d.From, Next: d.Next})
	}
}

// channelsOf returns a topic's channels in the order of their creation: the
// first of them gets the backlog.
func channelsOf(t *meta.Topic) []*meta.Channel {
	all := make([]*meta.Channel, 0, len(t.Channels))
	for _, c := range t.Channels {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *meta.Channel) int { return int(a.Version) - int(b.Version) })
	return all
}

// discard ends a deleted topic and moves its data to the trash.
func (n *hosting) discard(h *hostedTopic) error {
	for _, hp := range h.partitions() {
		if hp != nil {
			n.retire(hp)
		}
	}
	if err := n.close(h, ErrTopicNotFound); err != nil {
		n.log.Warn("closing a deleted topic", "topic", h.name, "error", err)
	}
	if h.fs != n.o.FS {
		return nil // it was in memory
	}
	dir := n.dirs.topic(h.name, h.incarnation)
	n.damage.forget(dir)
	return n.trash(dir, filepath.Base(dir))
}

// parseTopicDir is the inverse of topicDir.
func parseTopicDir(dir string) (name string, in meta.Incarnation, ok bool) {
	dot := strings.LastIndexByte(dir, '.')
	if dot < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(dir[dot+1:], 10, 64)
	return dir[:dot], meta.Incarnation(n), err == nil
}
