package coord

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord/isr"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// DefaultMaxForming bounds the bytes that wait in one term to be appended.
const DefaultMaxForming = 16 << 20

// What a term answers when it cannot take or keep an entry.
var (
	// ErrNotLeading refuses an append: this term is over.
	ErrNotLeading = fate.Refuse("this node no longer leads the partition")
	// ErrUnknownOutcome settles an entry that was appended but not seen to be
	// committed when the term ended: it may be delivered later.
	ErrUnknownOutcome = errors.New("outcome unknown: the term ended before it was committed")
	// ErrNotWritable refuses an append: too few replicas are in sync.
	ErrNotWritable = fate.Refuse("not enough in-sync replicas")
)

// TermOptions describe a term.
type TermOptions struct {
	Log        *commitlog.Log
	Self       meta.NodeID
	Epoch      seq.Epoch
	ISR        []meta.NodeID
	MinISR     int
	Sync       meta.SyncPolicy
	MaxForming int              // bytes that may wait to be appended; 0: DefaultMaxForming
	Now        func() time.Time // stamps batches

	// Committed is called with each batch once it is committed, in order, by
	// one goroutine at a time, before its entries are settled. It must not
	// block.
	Committed func(commitlog.Batch)
	// Failed is called once, without waiting, when the log fails and the term
	// ends of itself.
	Failed func(error)
}

// Term is one leadership of one partition at one epoch. Entries that arrive
// while a batch is being written form the next one: one append, one checksum,
// one sync for all of them, and no entry ever waits for a timer. While nothing
// arrives a term costs memory only.
type Term struct {
	o TermOptions
	w *commitlog.Writer

	running sync.WaitGroup // the appender and the interval sync

	mu        sync.Mutex // guards what follows
	room      sync.Cond  // forming was taken, or the term is over
	forming   *group     // nil: nothing waits
	appending bool       // the appender runs
	releasing bool       // a goroutine is telling what is committed
	unsettled []*group   // appended and not committed, in order
	tracker   *isr.Tracker
	over      error       // why nothing more is taken; nil while it lives
	unsynced  int         // messages appended since the last sync
	syncTimer *time.Timer // runs while unsynced messages wait for their interval
	sizeHint  int         // bytes of the last batch
}

// group is the entries of one batch.
type group struct {
	builder *commitlog.Builder
	entries []placedEntry
	batch   commitlog.Batch
}

type placedEntry struct {
	entry commitlog.Entry
	index int // of its first record in the batch
}

// Lead begins a term: it revokes the log's writer before it, makes what it
// inherits durable, and commits it as far as the in-sync replicas hold it.
func Lead(o TermOptions) (*Term, error) {
	if o.MaxForming == 0 {
		o.MaxForming = DefaultMaxForming
	}
	w, err := o.Log.Writer(o.Epoch)
	if err != nil {
		return nil, fmt.Errorf("lead at epoch %d: %w", o.Epoch, err)
	}
	if o.Log.DurableEnd() < o.Log.End() {
		if _, err := w.Sync(); err != nil {
			return nil, fmt.Errorf("lead at epoch %d: sync what was inherited: %w", o.Epoch, err)
		}
	}
	t := &Term{o: o, w: w, tracker: isr.New(o.ISR, o.Log.CommittedEnd())}
	t.room.L = &t.mu
	t.acknowledge(o.Self, o.Log.End())
	return t, nil
}

// Epoch returns the term's epoch.
func (t *Term) Epoch() seq.Epoch { return t.o.Epoch }

// SetSync changes when an append must be on disk.
func (t *Term) SetSync(p meta.SyncPolicy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.o.Sync = p
}

// Append takes an entry. Its records are copied before Append returns; what
// became of them is told to the entry's Settle. An error means that the entry
// was not taken: nothing happened and Settle is not called. Append waits while
// too many bytes wait to be written.
func (t *Term) Append(e commitlog.Entry) error {
	t.mu.Lock()
	for t.over == nil && t.forming != nil && t.forming.builder.Size() >= t.o.MaxForming {
		t.room.Wait()
	}
	if t.over != nil {
		defer t.mu.Unlock()
		return t.over
	}
	if t.forming == nil {
		t.forming = &group{builder: commitlog.NewBuilder(t.sizeHint)}
	}
	g := t.forming
	g.entries = append(g.entries, placedEntry{e, g.builder.Count()})
	e.AppendTo(g.builder)
	start := !t.appending
	t.appending = true
	t.mu.Unlock()
	if start {
		t.running.Go(t.appendAll)
	}
	return nil
}

// Stop refuses further appends, waits until what was taken is settled and on
// disk, and ends the term. It is what a clean shutdown and a handover do.
func (t *Term) Stop() error {
	t.mu.Lock()
	if t.over == nil {
		t.over = ErrNotLeading
	}
	t.room.Broadcast()
	t.stopTimerLocked()
	t.mu.Unlock()
	t.running.Wait()
	defer t.settleRest()
	if t.o.Log.DurableEnd() == t.o.Log.End() {
		return nil
	}
	return t.sync()
}

// appendAll is the appender: it runs while entries wait.
func (t *Term) appendAll() {
	for {
		t.mu.Lock()
		g := t.forming
		t.forming = nil
		if g == nil {
			t.appending = false
			t.mu.Unlock()
			return
		}
		t.sizeHint = g.builder.Size()
		t.room.Broadcast()
		t.mu.Unlock()
		if err := t.appendGroup(g); err != nil {
			t.fail(err)
		}
	}
}

// appendGroup writes one batch and syncs it as the policy asks. An error is the
// log's: nothing more can be appended to it.
func (t *Term) appendGroup(g *group) error {
	batch, err := t.w.Append(g.builder, t.o.Now().UnixNano())
	g.builder = nil
	if err != nil {
		g.settle(err)
		if fate.Of(err) == fate.Refused {
			return nil
		}
		return err
	}
	g.batch = batch
	t.mu.Lock()
	t.unsettled = append(t.unsettled, g)
	due := t.noteUnsyncedLocked(batch.Count())
	t.mu.Unlock()
	if due {
		if err := t.sync(); err != nil {
			return err
		}
	}
	t.acknowledge(t.o.Self, batch.End())
	return nil
}

// noteUnsyncedLocked counts appended messages and says whether they must be
// synced before they are acknowledged. Otherwise it sees to it that they are
// synced within the interval.
func (t *Term) noteUnsyncedLocked(n int) bool {
	t.unsynced += n
	if t.o.Sync.Every > 0 && t.unsynced >= t.o.Sync.Every {
		return true
	}
	if t.syncTimer == nil && t.over == nil && t.o.Sync.Interval > 0 {
		t.running.Add(1)
		t.syncTimer = time.AfterFunc(t.o.Sync.Interval, t.syncInterval)
	}
	return false
}

func (t *Term) syncInterval() {
	defer t.running.Done()
	t.mu.Lock()
	t.syncTimer = nil
	t.mu.Unlock()
	if err := t.sync(); err != nil {
		t.fail(err)
	}
}

func (t *Term) stopTimerLocked() {
	if t.syncTimer != nil && t.syncTimer.Stop() {
		t.running.Done()
	}
	t.syncTimer = nil
}

func (t *Term) sync() error {
	t.mu.Lock()
	t.unsynced = 0
	t.mu.Unlock()
	_, err := t.w.Sync()
	return err
}

// acknowledge notes that a replica holds everything below end and tells what is
// committed by it.
func (t *Term) acknowledge(node meta.NodeID, end seq.Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tracker.Ack(node, end)
	if t.releasing {
		return
	}
	t.releasing = true
	for {
		committed := t.tracker.Committed()
		n := 0
		for n < len(t.unsettled) && t.unsettled[n].batch.End() <= committed {
			n++
		}
		if n == 0 && t.o.Log.CommittedEnd() >= committed {
			break
		}
		ready := t.unsettled[:n:n]
		t.unsettled = t.unsettled[n:]
		if len(t.unsettled) == 0 {
			t.unsettled = nil
		}
		t.mu.Unlock()
		t.o.Log.Commit(committed)
		for _, g := range ready {
			t.o.Committed(g.batch)
			g.settle(nil)
		}
		t.mu.Lock()
	}
	t.releasing = false
}

// fail ends the term because its log failed.
func (t *Term) fail(err error) {
	t.mu.Lock()
	first := t.over == nil
	if first {
		t.over = fate.Mark(fmt.Errorf("the partition's log failed: %w", err), fate.Refused)
	}
	t.stopTimerLocked()
	t.room.Broadcast()
	t.mu.Unlock()
	t.settleRest()
	if first {
		go t.o.Failed(err)
	}
}

// settleRest settles what will not be committed by this term any more.
func (t *Term) settleRest() {
	t.mu.Lock()
	forming, unsettled := t.forming, t.unsettled
	t.forming, t.unsettled = nil, nil
	over := t.over
	t.mu.Unlock()
	for _, g := range unsettled {
		g.settle(ErrUnknownOutcome)
	}
	if forming != nil {
		forming.settle(over)
	}
}

func (g *group) settle(err error) {
	at := commitlog.Placed{}
	if err == nil {
		at.Position = g.batch.Position()
	}
	for _, e := range g.entries {
		if err == nil {
			at.First = g.batch.First() + seq.Offset(e.index)
		}
		e.entry.Settle(at, err)
	}
	g.entries = nil
}
