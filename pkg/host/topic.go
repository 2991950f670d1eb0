package host

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/quota"
	"github.com/brokerd/brokerd/pkg/route"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Topic is a topic on this node, from its creation to its deletion, whether the node holds
// replicas of it or not. The state of a partition is changed in that partition's lane; lookups
// are safe for concurrent use.
type Topic struct {
	ids         seq.Numbering
	Name        string
	Incarnation meta.Incarnation
	fs          vfs.FS                     // the node's, or the memory of an ephemeral topic
	memory      *quota.Memory              // nil if it is on disk
	config      atomic.Pointer[meta.Topic] // as last converged on
	Disk        quota.Disk                 // usage against the topic's maximum of bytes
	keys        route.Finder               // by the rule of the configuration
	held        atomic.Pointer[[]*Held]    // by number; nil: no replica on this node
	leading     atomic.Pointer[[]*Led]     // those that this node leads, by number
	turn        atomic.Uint32              // round robin over the led partitions
	ended       atomic.Pointer[error]      // why it was closed here; nil if it is open
	Rates       policy.Rates               // of its channels
	convergedTo atomic.Uint64              // every leader has applied the metadata at least up to this index

	changing sync.Mutex // held during changes of held and leading

	watching sync.Mutex // guards watchers
	watchers map[*watch]struct{}
}

// Watcher is notified when the set of partitions led by this node changes. ledChanged must not
// block; it may be called concurrently.
type Watcher interface{ LedChanged() }

// watch is one registration of a watcher; the same watcher may have several.
type watch struct{ w Watcher }

// AllHeld returns the replicas of the topic by number; nil entries have no replica on this node.
// The slice is shared and must not be changed.
func (h *Topic) AllHeld() []*Held { return *h.held.Load() }

// Held returns the replica of partition i, or nil.
func (h *Topic) Held(i int) *Held {
	if all := h.AllHeld(); i >= 0 && i < len(all) {
		return all[i]
	}
	return nil
}

// AllLed returns the partitions that this node leads now, by number. The slice is shared and must
// not be changed.
func (h *Topic) AllLed() []*Led { return *h.leading.Load() }

// Led returns partition i if this node leads it, or nil.
func (h *Topic) Led(i int) *Led {
	led := h.AllLed()
	if i >= 0 && i < len(led) && led[i].Index == i {
		return led[i]
	}
	for _, lp := range led {
		if lp.Index == i {
			return lp
		}
	}
	return nil
}

// idOf identifies partition i of a topic.
func idOf(h *Topic, i int) meta.PartitionID {
	return meta.PartitionID{Topic: h.Name, Incarnation: h.Incarnation, Partition: i}
}

// hold sets the replica of partition i; nil: none.
func (h *Topic) hold(i int, hp *Held) {
	h.changing.Lock()
	defer h.changing.Unlock()
	all := h.AllHeld()
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

// grow makes room for n partitions.
func (h *Topic) grow(n int) {
	h.changing.Lock()
	defer h.changing.Unlock()
	if all := h.AllHeld(); len(all) < n {
		h.held.Store(new(append(slices.Clone(all), make([]*Held, n-len(all))...)))
	}
}

// publishLed publishes which partitions are led.
func (h *Topic) publishLed() {
	h.changing.Lock()
	defer h.changing.Unlock()
	led := []*Led{}
	for _, hp := range h.AllHeld() {
		if hp == nil {
			continue
		}
		if lp := hp.Led.Load(); lp != nil {
			led = append(led, lp)
		}
	}
	h.leading.Store(&led)
	h.Rates.Share(len(led), len(h.config.Load().Partitions), time.Now())
}

// Suspend makes the node refuse leader requests for the topic, as during a transfer, until
// resume is called. For tests.
func (h *Topic) Suspend() (resume func()) {
	led := h.leading.Swap(&[]*Led{})
	return func() { h.leading.Store(led) }
}

// Watch notifies w of changes until stop is called; a notification may still be running then.
func (h *Topic) Watch(w Watcher) (stop func()) {
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

// tellWatchers notifies watchers that led partitions may have changed.
func (h *Topic) tellWatchers() {
	h.watching.Lock()
	all := make([]Watcher, 0, len(h.watchers))
	for entry := range h.watchers {
		all = append(all, entry.w)
	}
	h.watching.Unlock()
	for _, w := range all {
		w.LedChanged()
	}
}

// Flush stores the positions of the topic's channels on every in-sync replica of the partitions led
// here.
func (h *Topic) Flush(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(openTogether)
	for _, lp := range h.AllLed() {
		if len(lp.Part.Channels()) == 0 || !lp.Term.Shared() {
			continue // nothing to lose, or adding them has stored them
		}
		g.Go(func() error {
			if err := lp.Part.Flush(ctx); err != nil {
				return fmt.Errorf("partition %d: %w", lp.Index, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// SetConverged records that every leader has applied the metadata up to an index.
func (h *Topic) SetConverged(index uint64) {
	for {
		was := h.convergedTo.Load()
		if was >= index || h.convergedTo.CompareAndSwap(was, index) {
			return
		}
	}
}

// Fits refuses messages larger than the topic's limit and publishes larger than a batch. It is
// called where a publish enters the cluster, so that none is forwarded without effect.
func (h *Topic) Fits(messages []topic.Message) error {
	if n, most := topic.StoredSize(messages), limit.Default().Entry; n > most {
		return fmt.Errorf("%w: %d bytes, limit of one publish is %d", failure.BodyTooBig, n, most)
	}
	most := h.config.Load().Config.MaxMessage
	for i := range messages {
		if n := len(messages[i].Header); n > topic.MaxHeader {
			return fmt.Errorf("%w: a header of %d bytes, limit is %d", failure.MessageTooBig, n, topic.MaxHeader)
		}
		if n := len(messages[i].Body); n > most && most > 0 {
			return fmt.Errorf("%w: %d bytes, limit of topic %q is %d", failure.MessageTooBig, n, h.Name, most)
		}
	}
	return nil
}

// NextTurn returns a counter for round-robin choices.
func (h *Topic) NextTurn() int { return int(h.turn.Add(1) & math.MaxInt32) }

// IsWatched reports whether f is true for a watcher of the topic.
func (h *Topic) IsWatched(f func(Watcher) bool) bool {
	h.watching.Lock()
	defer h.watching.Unlock()
	for entry := range h.watchers {
		if f(entry.w) {
			return true
		}
	}
	return false
}

// Config returns the topic's metadata as last applied here. The caller must not modify it.
func (h *Topic) Config() *meta.Topic { return h.config.Load() }

// ConvergedTo returns the index of the metadata up to which every leader of the topic is known to
// have applied it.
func (h *Topic) ConvergedTo() uint64 { return h.convergedTo.Load() }

// Numbering maps offsets to the message ids that clients see.
func (h *Topic) Numbering() seq.Numbering { return h.ids }

// FindKeys sets the key of messages without one by the topic's rule.
func (h *Topic) FindKeys(messages []topic.Message) {
	h.keys.Find(h.Config().Config.KeyFrom, messages)
}

// Offer appends messages through a term of the topic; Done receives the outcome unless an error
// is returned.
func (h *Topic) Offer(lp *Led, o topic.Offered) error {
	stored := lp.Part.Log().Bytes()
	if err := cmp.Or(h.memory.Reserve(stored, o.Messages), h.Disk.Reserve(&h.Config().Config, stored, o.Messages)); err != nil {
		return err
	}
	return lp.offer(o)
}

// govern applies a channel's policy of the metadata, with the cluster's defaults.
func (h *Topic) govern(c *topic.Channel, t *meta.Topic, defaults policy.Policy) {
	p := meta.PolicyOf(t, c.Name(), defaults)
	topic.RetriesOf(c).SetPolicy(p, h.Rates.Of(c.Name(), c.Version(), p.Rate, time.Now()))
}

// Serves reports whether a partition of a topic that is led here has a channel.
func Serves(h *Topic, channel string) bool {
	return slices.ContainsFunc(h.AllLed(), func(lp *Led) bool { return lp.Part.Channel(channel) != nil })
}

// AddEphemeral creates an ephemeral channel in a partition if it is missing.
func (h *Topic) AddEphemeral(lp *Led, channel string, order policy.Order, defaults policy.Policy) (*topic.Channel, error) {
	c, err := lp.Part.AddChannel(channel, 0, topic.ChannelOptions{Order: order, Ephemeral: true})
	if err == nil {
		h.govern(c, h.Config(), defaults)
	}
	return c, err
}

// deletedFor is how long a deletion is remembered: tools delete the same object at one node after
// another.
const deletedFor = 10 * time.Second

// maxDeletions bounds the remembered deletions.
const maxDeletions = 4096

// deletions remembers recent deletions, whichever node was asked for them. Its methods are safe for
// concurrent use.
type deletions struct {
	mu sync.Mutex // guards what follows
	at map[deletion]time.Time
}

// deletion names a topic, or one of its channels.
type deletion struct{ topic, channel string }

// add remembers a deletion from now on.
func (d *deletions) add(what deletion, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, at := range d.at {
		if now.Sub(at) >= deletedFor {
			delete(d.at, k)
		}
	}
	if d.at == nil {
		d.at = map[deletion]time.Time{}
	}
	if len(d.at) < maxDeletions {
		d.at[what] = now
	}
}

// compare remembers the deletion of channels that are in was but not in is.
func (d *deletions) compare(was, is *meta.Topic, now time.Time) {
	if was == is {
		return
	}
	for name := range was.Channels {
		if is.Channels[name] == nil {
			d.add(deletion{was.Name, name}, now)
		}
	}
}

// has reports whether something was deleted recently.
func (d *deletions) has(what deletion, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.at[what]
	return ok && now.Sub(at) < deletedFor
}
