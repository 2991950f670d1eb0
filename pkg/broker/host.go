package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// hosting is what a node holds of the cluster's topics, and what it stands on.
type hosting struct {
	o    Options
	log  *slog.Logger
	dirs layout

	hosted sync.Map // topic name -> *hostedTopic; written under converging only

	// converging serializes what changes the set of hosted partitions. It is
	// held over the disk, and guards nothing that a request looks at.
	converging sync.Mutex
	closed     bool // nothing more is hosted; guarded by converging

	timers   timers
	running  sync.WaitGroup        // the node's loops and what it does in the background
	exiting  atomic.Bool           // changes are refused
	failed   atomic.Pointer[error] // why the node cannot go on
	failOnce sync.Once
	damage   damage       // damaged ranges of the logs held
	strays   atomic.Int64 // directories of topics that the metadata never knew
	torn     atomic.Int64 // bytes cut from torn tails
	recovery atomic.Int64 // ns that opening all logs at the start took

	retiredMu sync.Mutex // guards retired
	retired   LogStats   // what deleted topics counted
}

func newHosting(o Options) *hosting {
	return &hosting{o: o, log: o.Logger, dirs: layout{o.DataDir}, timers: timers{wakeup: make(chan struct{}, 1)}}
}

// hostedTopic is a topic of which this node holds replicas. The set of its
// partitions does not change: a topic that grows is hosted anew around the same
// partitions.
type hostedTopic struct {
	name        string
	incarnation meta.Incarnation
	config      atomic.Pointer[meta.Topic] // as last converged on
	fs          vfs.FS                     // the node's, or the memory of an ephemeral topic
	partitions  []*hostedPartition         // by number; nil: not held here
	served      []*hostedPartition         // those that this node leads
	turn        atomic.Uint32              // round robin over served
}

// hostedPartition is a replica that this node holds, and what it serves of it.
type hostedPartition struct {
	index      int
	replica    *coord.Replica
	part       *topic.Partition
	endBefore  seq.Offset // of the log at the last round of retention, whose goroutine owns it
	idle       bool       // nothing was appended in the last round; likewise
	unstored   bool       // the last checkpoint failed; of the checkpoint loop
	unretained bool       // the last round of retention failed; of its goroutine
}

func (n *hosting) lookup(name string) *hostedTopic {
	h, ok := n.hosted.Load(name)
	if !ok {
		return nil
	}
	return h.(*hostedTopic)
}

// hostedTopics returns what is hosted, sorted by name.
func (n *hosting) hostedTopics() []*hostedTopic {
	var all []*hostedTopic
	n.hosted.Range(func(_, h any) bool {
		all = append(all, h.(*hostedTopic))
		return true
	})
	slices.SortFunc(all, func(x, y *hostedTopic) int { return strings.Compare(x.name, y.name) })
	return all
}

// converge makes what this node hosts of a topic match the metadata.
func (n *hosting) converge(name string) error {
	n.converging.Lock()
	defer n.converging.Unlock()
	if n.closed {
		return ErrExiting
	}
	want := n.o.Meta.Topic(name)
	have := n.lookup(name)
	if have != nil && (want == nil || want.Incarnation != have.incarnation) {
		n.hosted.Delete(name)
		if err := n.discard(have); err != nil {
			return err
		}
		have = nil
	}
	switch {
	case want == nil:
		return nil
	case have == nil:
		h, err := n.host(want)
		if err != nil {
			return err
		}
		n.hosted.Store(name, h)
		return nil
	case len(want.Partitions) > len(have.partitions):
		grown, err := n.grow(have, want)
		if err != nil {
			return err
		}
		n.hosted.Store(name, grown)
		have.disconnect(errPartitionsAdded)
		return nil
	}
	return have.adopt(want)
}

var errPartitionsAdded = errors.New("the topic has new partitions: subscribe again")

// host opens what this node holds of a topic.
func (n *hosting) host(t *meta.Topic) (*hostedTopic, error) {
	h := &hostedTopic{name: t.Name, incarnation: t.Incarnation, fs: n.o.FS}
	if meta.IsEphemeral(t.Name) {
		h.fs = vfs.NewMem()
	}
	return n.open(h, t)
}

// grow returns h with the partitions that were added since.
func (n *hosting) grow(h *hostedTopic, t *meta.Topic) (*hostedTopic, error) {
	grown := &hostedTopic{name: h.name, incarnation: h.incarnation, fs: h.fs, partitions: slices.Clone(h.partitions)}
	return n.open(grown, t)
}

func (n *hosting) open(h *hostedTopic, t *meta.Topic) (*hostedTopic, error) {
	h.config.Store(t)
	before := len(h.partitions)
	for i := before; i < len(t.Partitions); i++ {
		var hp *hostedPartition
		if slices.Contains(t.Partitions[i].Replicas, n.o.Self) {
			var err error
			if hp, err = n.openPartition(h, t, i); err != nil {
				return nil, errors.Join(fmt.Errorf("partition %d: %w", i, err), h.closeFrom(before, err))
			}
		}
		h.partitions = append(h.partitions, hp)
	}
	for i, hp := range h.partitions {
		if hp != nil && t.Partitions[i].Leader == n.o.Self {
			h.served = append(h.served, hp)
		}
	}
	if err := h.adopt(t); err != nil {
		return nil, errors.Join(err, h.closeFrom(before, err))
	}
	return h, nil
}

// openPartition opens a replica and leads it if the metadata says so.
func (n *hosting) openPartition(h *hostedTopic, t *meta.Topic, i int) (*hostedPartition, error) {
	dir := n.dirs.partition(t, i)
	if err := vfs.MkdirAllSynced(h.fs, dir); err != nil {
		return nil, err
	}
	lo := n.o.Log
	lo.Alternating = t.Config.Sync.Always()
	if h.fs != n.o.FS {
		lo.SegmentBytes = min(n.o.EphemeralBytes/ephemeralSegments, ephemeralMaxSegment)
		lo.TailBytes, lo.FillBytes = -1, -1 // it is in memory as it is
	}
	replica, err := coord.OpenReplica(coord.ReplicaOptions{FS: h.fs, Dir: dir, Self: n.o.Self, Log: lo, Now: time.Now, Failed: n.fail})
	if err != nil {
		return nil, err
	}
	n.reportRecovery(t.Name, i, replica.Recovery())
	part, err := topic.Open(topic.Options{
		Index: i, FS: h.fs, Dir: dir, Log: replica.Log(), Arm: n.timers.arm, Observer: n.o.Observer,
		Damaged: func(err *commitlog.CorruptionError) { n.reportDamage(t.Name, i, err) },
		PositionsDamaged: func(err error) {
			n.log.Warn("the newest positions are damaged, those before them are used", "topic", t.Name, "partition", i, "error", err)
		},
	})
	if err != nil {
		return nil, errors.Join(err, replica.Close())
	}
	p := &t.Partitions[i]
	if p.Leader == n.o.Self {
		l := coord.Leadership{Epoch: p.Epoch, ISR: p.ISR, MinISR: t.Config.MinISR, Sync: t.Config.Sync}
		if err := replica.Lead(l, part.Committed); err != nil {
			return nil, errors.Join(err, replica.Close())
		}
		part.Serve(replica.Term())
	}
	return &hostedPartition{index: i, replica: replica, part: part}, nil
}

// An ephemeral topic's log is cut into small segments, so that retention can
// drop the oldest messages in small steps.
const (
	ephemeralSegments   = 8
	ephemeralMaxSegment = 8 << 20
)

func (n *hosting) reportRecovery(name string, partition int, r commitlog.Recovery) {
	log := n.log.With("topic", name, "partition", partition)
	for _, c := range r.Cut {
		n.torn.Add(c.Bytes)
		log.Warn("a torn tail was cut: it had not been acknowledged", "path", c.Path, "position", c.Position, "bytes", c.Bytes)
	}
	for _, d := range r.Damaged {
		n.reportDamage(name, partition, &commitlog.CorruptionError{Path: d.Path, Position: d.Position, From: d.From, Next: d.Next})
	}
}

// adopt takes over what changed of a topic whose partitions are the same.
func (h *hostedTopic) adopt(t *meta.Topic) error {
	for _, hp := range h.served {
		if term := hp.replica.Term(); term != nil {
			term.SetSync(t.Config.Sync)
		}
		hp.part.SetPaused(t.Paused)
		for _, c := range channelsOf(t) {
			if _, err := hp.part.AddChannel(c.Name, uint64(c.Version), topic.ChannelOptions{Ordered: c.Ordered, Paused: c.Paused}); err != nil {
				return err
			}
		}
		for _, c := range hp.part.Channels() {
			if !c.Ephemeral() && t.Channels[c.Name()] == nil {
				if err := hp.part.RemoveChannel(c.Name()); err != nil && !errors.Is(err, topic.ErrChannelNotFound) {
					return err
				}
			}
		}
		hp.part.Settled()
	}
	h.config.Store(t)
	return nil
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

// disconnect ends the subscriptions to a topic.
func (h *hostedTopic) disconnect(reason error) {
	for _, hp := range h.served {
		for _, c := range hp.part.Channels() {
			c.Disconnect(reason)
		}
	}
}

// close ends the topic's partitions and closes their logs.
func (h *hostedTopic) close(reason error) error { return h.closeFrom(0, reason) }

// closeFrom closes the partitions from a number on.
func (h *hostedTopic) closeFrom(first int, reason error) error {
	var errs []error
	for _, hp := range h.partitions[first:] {
		if hp == nil {
			continue
		}
		// the term first: what it commits still wakes channels
		errs = append(errs, hp.replica.StopLeading(), hp.part.Close(reason), hp.replica.Close())
	}
	return errors.Join(errs...)
}

// discard ends a deleted topic and moves its data to the trash.
func (n *hosting) discard(h *hostedTopic) error {
	n.retire(h)
	err := h.close(ErrTopicNotFound)
	if err != nil {
		n.log.Warn("closing a deleted topic", "topic", h.name, "error", err)
	}
	if h.fs != n.o.FS {
		return nil // it was in memory
	}
	n.damage.forget(n.dirs.topic(h.name, h.incarnation))
	return n.trash(topicDir(h.name, h.incarnation))
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
