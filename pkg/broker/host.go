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
	"github.com/brokerd/brokerd/pkg/vfs"
)

// shelf is what a node holds of the cluster's topics, for those who look.
type shelf struct {
	o   Options
	log *slog.Logger

	hosted sync.Map // topic name -> *hostedTopic; written in the topic's turn only

	damage   damage       // damaged ranges of the logs held
	torn     atomic.Int64 // bytes cut from torn tails
	recovery atomic.Int64 // ns that opening all logs at the start took

	retiredMu sync.Mutex // guards retired
	retired   LogStats   // what deleted topics counted
}

// hosting makes what the node holds what the metadata says it should.
type hosting struct {
	shelf
	dirs  layout
	turns turns // whoever changes what is held of a topic has its turn

	timers   timers
	running  sync.WaitGroup        // the node's loops and what it does in the background
	exiting  atomic.Bool           // changes are refused
	failed   atomic.Pointer[error] // why the node cannot go on
	failOnce sync.Once
	strays   atomic.Int64 // directories of topics that the metadata never knew
}

func newHosting(o Options) *hosting {
	return &hosting{
		shelf: shelf{o: o, log: o.Logger}, dirs: layout{o.DataDir},
		timers: timers{wakeup: make(chan struct{}, 1)},
	}
}

// hostedTopic is a topic of the cluster as this node has it, from its creation
// to its deletion. What it holds is changed in the topic's turn, and may be
// looked at by everybody.
type hostedTopic struct {
	name        string
	incarnation meta.Incarnation
	fs          vfs.FS                             // the node's, or the memory of an ephemeral topic
	config      atomic.Pointer[meta.Topic]         // as last converged on
	held        atomic.Pointer[[]*hostedPartition] // by number; nil: not held here
	leading     atomic.Pointer[[]*ledPartition]    // those that this node leads, by number
	turn        atomic.Uint32                      // round robin over those led
	adopted     atomic.Pointer[meta.Topic]         // what was converged on without an error
}

// partitions returns the replicas of the topic by number; nil: not held here.
// The slice is shared and must not be changed.
func (h *hostedTopic) partitions() []*hostedPartition { return *h.held.Load() }

// led returns the partitions that this node leads now, by number. The slice is
// shared and must not be changed.
func (h *hostedTopic) led() []*ledPartition { return *h.leading.Load() }

// leds returns partition i if this node leads it, or nil.
func (h *hostedTopic) leds(i int) *ledPartition {
	led := h.led()
	if i >= 0 && i < len(led) && led[i].index == i {
		return led[i]
	}
	for _, lp := range led {
		if lp.index == i {
			return lp
		}
	}
	return nil
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

// converge makes what this node hosts of a topic match the metadata.
func (n *hosting) converge(name string) error {
	end, ok := n.turns.begin(name)
	if !ok {
		return ErrExiting
	}
	defer end()
	// what is read in the topic's turn is newer than what it was converged on
	want, have := n.o.Meta.Topic(name), n.lookup(name)
	if have != nil && (want == nil || want.Incarnation != have.incarnation) {
		n.hosted.Delete(name)
		if err := n.discard(have); err != nil {
			return err
		}
		have = nil
	}
	if want == nil {
		return nil
	}
	if have != nil {
		return n.adopt(have, want)
	}
	h := n.newTopic(want)
	if err := n.adopt(h, want); err != nil {
		return errors.Join(err, h.close(err))
	}
	n.hosted.Store(name, h)
	return nil
}

var errPartitionsAdded = errors.New("the topic has new partitions: subscribe again")

// newTopic returns a topic of which nothing is held yet.
func (n *hosting) newTopic(t *meta.Topic) *hostedTopic {
	h := &hostedTopic{name: t.Name, incarnation: t.Incarnation, fs: n.o.FS}
	if meta.IsEphemeral(t.Name) {
		h.fs = vfs.NewMem()
	}
	h.config.Store(t)
	h.held.Store(&[]*hostedPartition{})
	h.leading.Store(&[]*ledPartition{})
	return h
}

// adopt makes what is held of a topic match what metadata says of it.
func (n *hosting) adopt(h *hostedTopic, t *meta.Topic) error {
	if h.adopted.Load() == t {
		return nil
	}
	grown := len(h.partitions()) > 0 && len(t.Partitions) > len(h.partitions())
	var errs []error
	for i := range t.Partitions {
		if err := n.adoptPartition(h, t, i); err != nil {
			errs = append(errs, fmt.Errorf("partition %d: %w", i, err))
		}
	}
	h.config.Store(t)
	for _, lp := range h.led() {
		errs = append(errs, lp.adopt(t))
	}
	if grown {
		h.disconnect(errPartitionsAdded)
	}
	err := errors.Join(errs...)
	if err == nil {
		h.adopted.Store(t)
	}
	return err
}

// openReplica opens a replica of a partition, in no role yet.
func (n *hosting) openReplica(h *hostedTopic, t *meta.Topic, i int) (*hostedPartition, error) {
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
	return &hostedPartition{index: i, dir: dir, replica: replica}, nil
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
	for _, lp := range h.led() {
		for _, c := range lp.part.Channels() {
			c.Disconnect(reason)
		}
	}
}

// close ends the topic's partitions and closes their logs.
func (h *hostedTopic) close(reason error) error {
	h.leading.Store(&[]*ledPartition{})
	var errs []error
	for _, hp := range h.partitions() {
		if hp != nil {
			errs = append(errs, hp.close(reason))
		}
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
