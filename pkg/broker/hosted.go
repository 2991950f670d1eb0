package broker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/quota"
	"github.com/brokerd/brokerd/pkg/route"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// identified is what has messages that clients know by ids.
type identified struct{ ids seq.Numbering }

// Numbering says by which ids clients know the topic's messages.
func (n identified) Numbering() seq.Numbering { return n.ids }

// hostedTopic is a topic of the cluster as this node has it, from its creation
// to its deletion, whether it holds replicas of it or not. What it holds of a
// partition is changed in that partition's lane, and may be looked at by everybody.
type hostedTopic struct {
	identified
	name        string
	incarnation meta.Incarnation
	fs          vfs.FS                             // the node's, or the memory of an ephemeral topic
	memory      *quota.Memory                      // nil: it is on disk
	config      atomic.Pointer[meta.Topic]         // as last converged on
	disk        quota.Disk                         // of the maximum of its bytes
	keys        route.Finder                       // by the rule of the config
	held        atomic.Pointer[[]*hostedPartition] // by number; nil: not held here
	leading     atomic.Pointer[[]*ledPartition]    // those that this node leads, by number
	turn        atomic.Uint32                      // round robin over those led
	used        atomic.Bool                        // by a client of this node, since the process started
	ended       atomic.Pointer[error]              // why it is closed here; nil: it is not
	rates       policy.Rates                       // of its channels
	settled     atomic.Uint64                      // every leader follows the metadata at least up to this index

	changing sync.Mutex // held over changes of held and leading

	watching sync.Mutex // guards watchers
	watchers map[*watch]struct{}
}

// watcher is told when the partitions that this node leads of a topic are
// others. ledChanged must not block; it may be called by several goroutines.
type watcher interface{ ledChanged() }

// watch is one watcher's interest; two of the same watcher are two.
type watch struct{ w watcher }

// newTopic returns a topic of which nothing is held yet.
func (n *shelf) newTopic(t *meta.Topic) *hostedTopic {
	h := &hostedTopic{name: t.Name, identified: identified{seq.NumberingOf(n.cluster, uint64(t.Incarnation))}, incarnation: t.Incarnation, fs: n.o.FS, watchers: map[*watch]struct{}{}}
	h.disk.Tells(n.overfull)
	if meta.IsEphemeral(t.Name) {
		h.fs = vfs.NewMem()
		h.memory = quota.NewMemory(n.o.EphemeralBytes, n.overfull, n.o.Memory.Share(limit.Ephemeral))
	}
	h.config.Store(t)
	h.held.Store(&[]*hostedPartition{})
	h.leading.Store(&[]*ledPartition{})
	return h
}

// partitions returns the replicas of the topic by number; nil: not held here.
// The slice is shared and must not be changed.
func (h *hostedTopic) partitions() []*hostedPartition { return *h.held.Load() }

// at returns the replica of partition i, or nil.
func (h *hostedTopic) at(i int) *hostedPartition {
	if all := h.partitions(); i >= 0 && i < len(all) {
		return all[i]
	}
	return nil
}

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

// hold notes which replica is held of partition i; nil: none.
func (h *hostedTopic) hold(i int, hp *hostedPartition) {
	h.changing.Lock()
	defer h.changing.Unlock()
	all := h.partitions()
	if i < len(all) && all[i] == hp {
		return
	}
	next := slices.Clone(all)
	for len(next) <= i {
		next = append(next, nil)
	}
	next[i] = hp
	h.held.Store(&next)
}

// grow makes room for as many partitions.
func (h *hostedTopic) grow(n int) {
	h.changing.Lock()
	defer h.changing.Unlock()
	if all := h.partitions(); len(all) < n {
		next := append(slices.Clone(all), make([]*hostedPartition, n-len(all))...)
		h.held.Store(&next)
	}
}

// publishLed makes known which partitions are led.
func (h *hostedTopic) publishLed() {
	h.changing.Lock()
	defer h.changing.Unlock()
	led := []*ledPartition{}
	for _, hp := range h.partitions() {
		if hp == nil {
			continue
		}
		if lp := hp.led.Load(); lp != nil {
			led = append(led, lp)
		}
	}
	h.leading.Store(&led)
	h.rates.Share(len(led), len(h.config.Load().Partitions), time.Now())
}

// watch tells w of changes of led until stop is called; a call under way may
// still be running then.
func (h *hostedTopic) watch(w watcher) (stop func()) {
	entry := &watch{w}
	h.watching.Lock()
	defer h.watching.Unlock()
	h.watchers[entry] = struct{}{}
	return func() {
		h.watching.Lock()
		defer h.watching.Unlock()
		delete(h.watchers, entry)
	}
}

// consumes says whether a subscription at this node takes from a channel of the topic.
func (h *hostedTopic) consumes(channel string) bool {
	h.watching.Lock()
	defer h.watching.Unlock()
	for entry := range h.watchers {
		if s, ok := entry.w.(*Subscription); ok && s.ask.Channel == channel {
			return true
		}
	}
	return false
}

// tellWatchers says that led may have changed.
func (h *hostedTopic) tellWatchers() {
	h.watching.Lock()
	all := make([]watcher, 0, len(h.watchers))
	for entry := range h.watchers {
		all = append(all, entry.w)
	}
	h.watching.Unlock()
	for _, w := range all {
		w.ledChanged()
	}
}
