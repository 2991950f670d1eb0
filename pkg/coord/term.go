package coord

import (
	"errors"
	"fmt"
	"runtime"
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
	// Failed is called once, without waiting, when the log fails, which ends the
	// term, also while it is being stopped. nil: nobody is told.
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
	room      sync.Cond  // forming was taken, a release is over, or the term is
	forming   *group     // nil: nothing waits
	appending bool       // the appender runs
	releasing bool       // a goroutine is settling
	queue     []*group   // taken to be appended and not settled, in order
	tracker   *isr.Tracker
	over      error       // why nothing more is taken; nil while it lives
	ended     bool        // nothing more is acknowledged either
	failure   error       // of the log
	unsynced  int         // messages appended since the last sync
	syncTimer *time.Timer // runs while unsynced messages wait for their interval
	sizeHint  int         // bytes of the last batch
}

// group is the entries of one batch, until they are settled.
type group struct {
	builder *commitlog.Builder
	entries []placedEntry
	batch   commitlog.Batch
	written bool  // batch is in the log
	err     error // what the entries are told, if they are not committed
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

// SetSync changes when an append must be on disk. What the new policy would
// have synced already is synced in the background.
func (t *Term) SetSync(p meta.SyncPolicy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p == t.o.Sync {
		return
	}
	t.o.Sync = p
	if t.unsynced == 0 || t.over != nil {
		return
	}
	if t.syncTimer != nil {
		if !t.syncTimer.Stop() {
			return // it is about to sync
		}
		t.running.Done()
		t.syncTimer = nil
	}
	switch {
	case p.Every > 0 && t.unsynced >= p.Every:
		t.syncAfterLocked(0)
	case p.Interval > 0:
		t.syncAfterLocked(p.Interval)
	}
}

// Append takes an entry. Its records are copied before Append returns; what
// became of them is told to the entry's Settle. An error means that the entry
// was not taken: nothing happened and Settle is not called. Append waits while
// too many bytes wait to be written.
func (t *Term) Append(e commitlog.Entry) error {
	if len(t.o.ISR) < t.o.MinISR {
		return ErrNotWritable
	}
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
	if !t.appending {
		t.appending = true
		t.running.Go(t.appendAll) // under the lock, so that Stop waits for it
	}
	t.mu.Unlock()
	return nil
}

// Stop refuses further appends, waits until what was taken is settled and on
// disk, and ends the term. It is what a clean shutdown and a handover do. If the
// log has failed, before or now, its error is returned.
func (t *Term) Stop() error {
	t.mu.Lock()
	if t.over == nil {
		t.over = ErrNotLeading
	}
	t.room.Broadcast()
	t.stopTimerLocked()
	t.mu.Unlock()
	t.running.Wait()
	if t.o.Log.DurableEnd() < t.o.Log.End() {
		if err := t.sync(); err != nil {
			t.fail(err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.releaseLocked()
	for t.releasing {
		t.room.Wait()
	}
	return t.failure
}

// appendAll is the appender: it runs while entries wait.
func (t *Term) appendAll() {
	for {
		// Whoever is about to publish on this processor does so first: otherwise
		// it would wait for this whole batch, and batches would be small.
		runtime.Gosched()
		t.mu.Lock()
		g := t.forming
		t.forming = nil
		if g == nil {
			t.appending = false
			t.mu.Unlock()
			return
		}
		t.queue = append(t.queue, g)
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
		return t.refused(g, err)
	}
	t.mu.Lock()
	g.batch, g.written = batch, true
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

// refused settles a group that was not appended, in its turn. It returns the
// log's error if the log has failed: perhaps not by this append, but by
// something else that writes to it.
func (t *Term) refused(g *group, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.err = err
	if errors.Is(err, commitlog.ErrRevoked) || errors.Is(err, commitlog.ErrClosed) {
		t.endLocked(ErrNotLeading)
	}
	t.releaseLocked()
	if failed := t.o.Log.Failed(); failed != nil {
		return failed
	}
	if fate.Of(err) != fate.Refused {
		return err
	}
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
		t.syncAfterLocked(t.o.Sync.Interval)
	}
	return false
}

// syncAfterLocked starts the timer, which does not run. The term is not over.
func (t *Term) syncAfterLocked(d time.Duration) {
	t.running.Add(1)
	t.syncTimer = time.AfterFunc(d, t.syncInterval)
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
	if !t.ended {
		t.tracker.Ack(node, end)
	}
	t.releaseLocked()
}

// releaseLocked commits what is acknowledged and settles, in order, the groups
// of which is known what became of them. One goroutine does so at a time, with
// the lock given up while it calls others; it goes on with what is decided
// meanwhile, so whoever finds it at work need not wait.
func (t *Term) releaseLocked() {
	if t.releasing {
		return
	}
	t.releasing = true
	for {
		committed := t.tracker.Committed()
		n := 0
		for n < len(t.queue) && t.queue[n].decide(committed, t.ended) {
			n++
		}
		commit := !t.ended && t.o.Log.CommittedEnd() < committed
		if n == 0 && !commit {
			break
		}
		ready := t.queue[:n:n]
		t.queue = t.queue[n:]
		if len(t.queue) == 0 {
			t.queue = nil
		}
		t.mu.Unlock()
		if commit {
			t.o.Log.Commit(committed)
		}
		for _, g := range ready {
			if g.err == nil {
				t.o.Committed(g.batch)
			}
			g.settle()
		}
		t.mu.Lock()
	}
	t.releasing = false
	t.room.Broadcast()
}

// fail ends the term because its log failed.
func (t *Term) fail(err error) {
	t.mu.Lock()
	first := t.failure == nil
	if first {
		t.failure = err
		t.endLocked(fate.Mark(fmt.Errorf("the partition's log failed: %w", err), fate.Refused))
	}
	t.mu.Unlock()
	if first && t.o.Failed != nil {
		go t.o.Failed(err)
	}
}

// endLocked ends the term at once: nothing more is taken or acknowledged, and
// what waits to be appended is refused.
func (t *Term) endLocked(why error) {
	t.ended = true
	if t.over == nil {
		t.over = why
	}
	if g := t.forming; g != nil {
		t.forming = nil
		g.builder, g.err = nil, t.over
		t.queue = append(t.queue, g)
	}
	t.stopTimerLocked()
	t.room.Broadcast()
	t.releaseLocked()
}

// decide says whether it is known what became of the group. One that is in the
// log and not committed when the term ends may be committed by a later one.
func (g *group) decide(committed seq.Offset, ended bool) bool {
	switch {
	case g.err != nil:
	case !g.written:
		return false
	case ended:
		g.err = ErrUnknownOutcome
	case g.batch.End() > committed:
		return false
	}
	return true
}

func (g *group) settle() {
	at := commitlog.Placed{}
	if g.err == nil {
		at.Position = g.batch.Position()
	}
	for _, e := range g.entries {
		if g.err == nil {
			at.First = g.batch.First() + seq.Offset(e.index)
		}
		e.entry.Settle(at, g.err)
	}
	g.entries = nil
}
