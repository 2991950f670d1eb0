package once

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/dedup"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// confirmTimeout is how long a publish waits for an earlier one with the same dedup
// id that is in the log and not committed.
const confirmTimeout = 5 * time.Second

// errUnconfirmed answers a publish whose dedup id is already in the log and was not
// committed in time: the message may be delivered later. Publishing it again is safe.
var errUnconfirmed = errors.New("an earlier publish with the same dedup id is written, but not confirmed by all in-sync replicas")

// Partition is what messages are published to.
type Partition interface {
	// Offer publishes messages: see topic.Partition.Offer.
	Offer(o topic.Offered) error
	Log() *commitlog.Log
}

// Options describe a Keeper.
type Options struct {
	Partition Partition
	Index     int // of the partition in its topic
	Window    time.Duration
	Most      int              // maximum number of known ids; 0: dedup.DefaultMost
	Ages      *age.Clock       // of the log's batches
	Now       func() time.Time // nil: time.Now
	// Damaged, if set, is called with a range of the log that cannot be read, and reports whether
	// other replicas may hold it. open fails then, as an id in that range must not be taken for a
	// new one.
	Damaged func(*commitlog.CorruptionError) (elsewhere bool)
}

// Keeper prevents that messages with dedup ids are stored twice. Its methods are
// safe for concurrent use.
type Keeper struct {
	o           Options
	base        time.Time    // times of the window are relative to it
	outstanding atomic.Int64 // messages that wait for an earlier, written one to be committed

	mu      sync.Mutex // guards what follows, and the publishes
	window  *dedup.Window[*publish]
	written []writtenOnce
	under   int // publishes being appended, whose outcome is not known yet
}

// writtenOnce is a publish's message whose id is in the log and not committed.
type writtenOnce struct {
	place  dedup.Place[*publish]
	offset seq.Offset
}

// publish is a publish of messages with ids, until it is answered.
type publish struct {
	k       *Keeper
	done    func(topic.Receipt) // nil: the publish was refused
	msgs    []topic.Message     // to be appended; nil once they are offered
	count   int                 // number of messages of the publish
	part    bool                // only some of them are to be appended
	fresh   []int               // the indexes of these; unused unless part
	hashes  []dedup.Hash        // of the ids of all messages; zero: the message has none
	claims  uint32              // number of the first claim; the others follow it
	offsets []seq.Offset        // of all messages, if part
	receipt topic.Receipt       // of the appended messages
	waits   int                 // outcomes that it waits for before it is answered
	err     error
	timer   *time.Timer // nil: it waits for no written message

	one struct { // backing arrays of the slices, for a publish of one message
		hashes  [1]dedup.Hash
		offsets [1]seq.Offset
	}
}

// newPublish returns a publish of messages, all of which are to be appended.
func newPublish(k *Keeper, msgs []topic.Message, done func(topic.Receipt)) *publish {
	e := &publish{k: k, done: done, msgs: msgs, count: len(msgs)}
	if e.hashes = e.one.hashes[:]; len(msgs) != 1 {
		e.hashes = make([]dedup.Hash, len(msgs))
	}
	for i := range msgs {
		if msgs[i].Dedup != nil && msgs[i].Address == nil {
			e.hashes[i].Set(msgs[i].Dedup)
		}
	}
	return e
}

// leaveOut excludes message i from those to be appended. The first one makes the publish a partial
// one, in which claim lists the messages to be appended.
func (e *publish) leaveOut(i int) {
	if e.part {
		return
	}
	e.part = true
	e.msgs, e.fresh = slices.Clone(e.msgs[:i]), make([]int, i, e.count)
	for n := range e.fresh {
		e.fresh[n] = n
	}
	if e.offsets = e.one.offsets[:]; e.count != 1 {
		e.offsets = make([]seq.Offset, e.count)
	}
}

// appended returns how many messages are to be appended.
func (e *publish) appended() int {
	if e.part {
		return len(e.fresh)
	}
	return e.count
}

// open reads the ids of the window from the partition's log. Until it returns, no
// message with an id may be appended, and afterwards only by the Keeper.
func open(o Options) (*Keeper, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	now := o.Now()
	k := &Keeper{o: o, base: now, window: dedup.NewWindow[*publish](o.Window, o.Most)}
	return k, k.read(now)
}

// read adds the ids in the log to the window.
func (k *Keeper) read(now time.Time) error {
	l := k.o.Partition.Log()
	from, err := l.OffsetAt(k.o.Ages.Leader(now) - int64(Retention(k.o.Window)))
	if err != nil {
		return err
	}
	r := l.NewReader()
	defer r.Release()
	newest := -k.o.Window
	var hashes []dedup.Hash
	var offsets []seq.Offset // of the messages with these ids
	for o := from; o < l.End(); {
		b, err := r.Written(o)
		var below *commitlog.BelowStartError
		var damaged *commitlog.CorruptionError
		switch {
		case errors.As(err, &below) && below.Start > o:
			o = below.Start
			continue
		case errors.As(err, &damaged) && damaged.Next > o:
			if k.o.Damaged != nil && k.o.Damaged(damaged) {
				return err
			}
			o = damaged.Next
			continue
		case err != nil:
			return err
		}
		age := k.o.Ages.Age(age.Batch{First: b.First(), Epoch: b.Epoch(), Timestamp: b.Timestamp()}, now)
		if age < k.o.Window {
			newest = max(newest, -age)
			hashes, offsets = hashes[:0], offsets[:0]
			eachDedup(b, func(o seq.Offset, id []byte) {
				hashes, offsets = append(hashes, dedup.Hash{}), append(offsets, o)
				hashes[len(hashes)-1].Set(id)
			})
			k.window.Prepare(hashes)
			k.window.PrepareStore(len(hashes))
			for i := range hashes {
				k.window.Add(&hashes[i], offsets[i], newest)
			}
		}
		o = b.End()
	}
	return nil
}

// margin is how much the clocks of leaders may differ without shortening the next leader's
// window.
func margin(window time.Duration) time.Duration { return time.Minute + window/10 }

// Retention returns how long finished messages stay in a log for a window of dedup ids.
func Retention(window time.Duration) time.Duration {
	if window == 0 {
		return 0
	}
	return window + margin(window)
}

// SetWindow changes the length of the window.
func (k *Keeper) SetWindow(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.window.SetLasts(d)
}

// Expire forgets the ids whose window has passed.
func (k *Keeper) Expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.window.Expire(k.moment())
}

// Counts returns the statistics of the window.
func (k *Keeper) Counts() dedup.Counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.window.Counts()
}

// moment returns the current time of the window.
func (k *Keeper) moment() time.Duration { return k.o.Now().Sub(k.base) }

// Offer publishes messages of which some have ids: see topic.Partition.Offer. A
// message that was stored before is answered as if it had been stored now, with its
// offset.
func (k *Keeper) Offer(o topic.Offered) error {
	e := newPublish(k, o.Messages, o.Done)
	if k.claim(e, o.Messages) {
		e.finish()
	}
	if e.appended() == 0 {
		return nil
	}
	fresh := e.msgs
	e.msgs = nil
	if err := k.o.Partition.Offer(topic.Offered{Messages: fresh, Done: e.complete, Inline: o.Inline}); err != nil {
		e.refuse(err)
		return err
	}
	return nil
}

// claim determines which messages are to be appended, and which others the publish
// waits for. answered means that it waits for none.
func (k *Keeper) claim(e *publish, msgs []topic.Message) (answered bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.moment()
	k.window.Prepare(e.hashes)
	e.claims = k.window.Next()
	for i := range msgs {
		switch {
		case e.hashes[i] != dedup.Hash{} && !k.claimLocked(e, i, now):
		case e.part:
			e.msgs, e.fresh = append(e.msgs, msgs[i]), append(e.fresh, i)
		}
	}
	if e.appended() > 0 {
		e.waits++
		k.under++
	}
	return e.waits == 0
}

// claimLocked claims the id of a message, and reports whether the message is to be
// appended.
func (k *Keeper) claimLocked(e *publish, i int, now time.Duration) bool {
	v, o := k.window.Claim(&e.hashes[i], dedup.Place[*publish]{Publish: e, Index: i}, now)
	switch v {
	case dedup.Claimed:
		e.leaveOut(i)
		e.waits++
	case dedup.Stored:
		e.leaveOut(i)
		e.offsets[i] = o
		k.awaitLocked(e, i, o)
	case dedup.Fresh:
	}
	return v == dedup.Fresh
}

// awaitLocked makes a publish wait for a message in the log, unless it is committed.
func (k *Keeper) awaitLocked(e *publish, i int, o seq.Offset) {
	k.outstanding.Add(1) // before reading the committed end: Committed reads both in the opposite order
	if o < k.o.Partition.Log().CommittedEnd() {
		k.outstanding.Add(-1)
		return
	}
	e.waits++
	k.written = append(k.written, writtenOnce{dedup.Place[*publish]{Publish: e, Index: i}, o})
	if e.timer == nil {
		e.timer = time.AfterFunc(confirmTimeout, func() {
			k.completeWritten(func(w *writtenOnce) bool { return w.place.Publish == e }, errUnconfirmed)
		})
	}
}

// Committed is called when the log's committed end has moved. It does not
// block.
func (k *Keeper) Committed() {
	if k.outstanding.Load() > 0 {
		end := k.o.Partition.Log().CommittedEnd()
		k.completeWritten(func(w *writtenOnce) bool { return w.offset < end }, nil)
	}
}

// idle reports whether no publish is in progress or waits for its answer.
func (k *Keeper) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.under == 0 && k.outstanding.Load() == 0
}

// Close completes the waiting publishes with an unknown outcome. The term has ended.
func (k *Keeper) Close() {
	k.completeWritten(func(*writtenOnce) bool { return true }, errUnconfirmed)
}

// completeWritten passes the outcome err of the written messages that which selects to the
// publishes that wait for them.
func (k *Keeper) completeWritten(which func(*writtenOnce) bool, err error) {
	k.mu.Lock()
	var over []*publish
	rest := k.written[:0]
	for _, w := range k.written {
		if !which(&w) {
			rest = append(rest, w)
			continue
		}
		k.outstanding.Add(-1)
		over = resolveLocked(over, w.place, w.offset, err)
	}
	clear(k.written[len(rest):])
	k.written = rest
	k.mu.Unlock()
	finishAll(over)
}

// resolveLocked passes to a publish the outcome of one message that it waited for.
// If it waits for nothing more, it is added to over.
func resolveLocked(over []*publish, at dedup.Place[*publish], o seq.Offset, err error) []*publish {
	e := at.Publish
	if e.done == nil {
		return over
	}
	e.offsets[at.Index] = o
	return e.knowLocked(over, err)
}

// knowLocked records one outcome that the publish waited for.
func (e *publish) knowLocked(over []*publish, err error) []*publish {
	if e.err == nil || err != nil && fate.Of(err) == fate.Uncertain {
		e.err = err
	}
	if e.waits--; e.waits == 0 {
		over = append(over, e)
	}
	return over
}

// refuse ends a publish that the log refused. Publishes that waited for its messages
// fail with the same error.
func (e *publish) refuse(err error) {
	k := e.k
	k.mu.Lock()
	e.done = nil
	if e.timer != nil {
		e.timer.Stop()
	}
	over := k.completeFreshLocked(e, topic.Receipt{Err: err})
	k.mu.Unlock()
	finishAll(over)
}

// complete handles the outcome of the messages that were appended.
func (e *publish) complete(r topic.Receipt) {
	k := e.k
	k.mu.Lock()
	e.receipt = r
	over := k.completeFreshLocked(e, r)
	over = e.knowLocked(over, r.Err)
	k.mu.Unlock()
	finishAll(over)
}

// completeFreshLocked ends the claims of a publish, and returns the publishes that waited
// for them and can be answered now.
func (k *Keeper) completeFreshLocked(e *publish, r topic.Receipt) (over []*publish) {
	now := k.moment()
	k.under--
	if r.Written {
		k.window.PrepareStore(e.appended())
	}
	claim := e.claims
	for n := range e.appended() {
		i, o := n, r.First+seq.Offset(n) //nolint:gosec // an index is not negative
		if e.part {
			i = e.fresh[n]
			e.offsets[i] = o
		}
		var waiting []dedup.Place[*publish]
		switch {
		case e.hashes[i] == dedup.Hash{}:
		case r.Written:
			waiting = k.window.Store(&e.hashes[i], claim, o, now)
			claim++
		default:
			waiting = k.window.Release(&e.hashes[i], claim)
			claim++
		}
		for _, w := range waiting {
			over = resolveLocked(over, w, o, r.Err)
		}
	}
	return over
}

func finishAll(all []*publish) {
	for _, e := range all {
		e.finish()
	}
}

// finish answers a publish that waits for nothing more.
func (e *publish) finish() {
	k := e.k
	if e.timer != nil {
		e.timer.Stop()
	}
	r, written := e.receipt, e.receipt.Written
	r.Partition, r.Err = k.o.Index, e.err
	switch {
	case r.Err == nil && e.part:
		r.First, r.Count = e.offsets[0], len(e.offsets)
		if !ascending(e.offsets) {
			r.IDs = make([]seq.MessageID, len(e.offsets))
			for i, o := range e.offsets {
				r.IDs[i] = seq.NewMessageID(k.o.Index, o)
			}
		}
	case written && fate.Of(r.Err) == fate.Refused:
		r.Err = fate.Mark(r.Err, fate.Uncertain) // a part of the publish is stored
	}
	r.Written = false
	e.done(r)
}

// ascending reports whether offsets have no gaps.
func ascending(offsets []seq.Offset) bool {
	for i, o := range offsets {
		if o != offsets[0]+seq.Offset(i) { //nolint:gosec // an index is not negative
			return false
		}
	}
	return true
}

// eachDedup calls f for each record of a batch that has a dedup id and is no copy. The id is valid
// until f returns.
func eachDedup(b commitlog.Batch, f func(o seq.Offset, id []byte)) {
	if b.Attributes()&topic.AttrIdentified == 0 {
		return
	}
	records := b.Records(b.First())
	for {
		o, raw, ok := records.Next()
		if !ok {
			return
		}
		if m, err := record.Decode(raw); err == nil && m.Dedup != nil && m.Address == nil {
			f(o, m.Dedup)
		}
	}
}
