package coord

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Defaults of ReplicaOptions.
const (
	DefaultReplicaLag     = 2 * time.Second
	DefaultPublishTimeout = 5 * time.Second
)

// MaxUncommitted limits the bytes that a term has appended and not committed.
const MaxUncommitted = 64 << 20

// StallAfter is how long a follower that lacks something may receive nothing before
// ReplicaOptions.Stalled is called.
const StallAfter = 4 * time.Second

// termOptions describe a term of a replica.
type termOptions struct {
	ReplicaOptions
	Log  *commitlog.Log // the replica's
	View View
	Ages *age.Clock // stamps batches; nil: the term has its own

	// Committed is called with each batch once it is committed, in order, by one goroutine at a
	// time, before its entries are completed. It must not block. A zero Batch means that
	// entries inherited from an earlier term are committed.
	Committed func(commitlog.Batch)
	// Unverified means that the log was opened from disk, and has not been confirmed by the in-sync
	// replicas in a term since: it may be an older state of the disk. A comparison with an earlier
	// leader does not confirm it, because that leader may have held more; but if one in-sync
	// replica may commit alone, it counts, so that a fail-over does not wait. The term yields to an
	// in-sync replica that holds more, committed or not, instead of truncating it, and appends and
	// admits nothing before.
	Unverified bool
	// Unreadable, if set, is called without a lock each time the log is found damaged where a
	// follower needs it. It must not block.
	Unreadable func(error)
}

func (o termOptions) withDefaults() termOptions {
	o.Sizes = o.Sizes.OrDefault()
	o.ReplicaLag = cmp.Or(o.ReplicaLag, DefaultReplicaLag)
	o.PublishTimeout = cmp.Or(o.PublishTimeout, DefaultPublishTimeout)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Ages == nil {
		o.Ages = age.NewClock(nil)
	}
	return o
}

// tellActivated reports the result of membership.activate.
func (o *termOptions) tellActivated(t *Term, activated bool) {
	if activated && o.Activated != nil {
		o.Activated(t)
	}
}

// Term is one leadership of one partition in one epoch. Entries that arrive while a batch is being
// written form the next one: all of them share one append, one checksum, one sync and one message
// to each follower, and no entry ever waits for a timer. While nothing arrives a term costs only
// memory.
//
// A batch is sent to the followers before it is synced here, so that all sync at the same time. It
// is committed, and its entries are completed, once every counting replica has acknowledged it to
// this term: see isr.Tracker.
type Term struct {
	o      termOptions
	w      *commitlog.Writer
	syncer *replication.Syncer
	start  seq.Offset // where the term's own batches begin
	shares replication.Shares

	appender appender

	mu        sync.Mutex // guards what follows
	room      sync.Cond  // signals room to append, the end of a release, or the end of the term
	forming   *group     // nil if no entry waits
	releasing bool       // a goroutine runs releaseLocked
	backlog   backlog
	members   membership
	sharing   sharings
	sealed    chan struct{} // not nil: nothing more is accepted; closed once everything is on all in-sync replicas
	over      error         // why nothing more is accepted; nil while the term is live
	ended     bool          // nothing more is acknowledged either
	failure   error         // of the log
}

// lead begins a term: it revokes the log's previous writer, makes inherited entries durable, and
// commits them as far as the in-sync replicas hold them.
func lead(o termOptions) (*Term, error) {
	o = o.withDefaults()
	epoch := o.View.Epoch
	w, err := o.Log.Writer(epoch)
	if err != nil {
		return nil, fmt.Errorf("lead at epoch %d: %w", epoch, err)
	}
	if o.Log.DurableEnd() < o.Log.End() {
		if _, err := w.Sync(); err != nil {
			return nil, fmt.Errorf("lead at epoch %d: sync inherited entries: %w", epoch, err)
		}
	}
	t := &Term{o: o, w: w, start: o.Log.End()}
	t.room.L = &t.mu
	t.appender.begin(t)
	t.syncer = replication.NewSyncer(w, o.View.Sync, t.fail)
	t.members.begin(o, t.start)
	if committed := t.members.tracker.Committed(); committed > o.Log.CommittedEnd() {
		o.Log.Commit(committed)
	}
	t.Update(o.View)
	return t, nil
}

// Epoch returns the term's epoch.
func (t *Term) Epoch() seq.Epoch { return t.w.Epoch() }

// Append accepts an entry. Its records are copied before Append returns; the outcome is passed
// to the entry's Complete. An error means that the entry was refused: nothing happened and
// Complete is not called. Append waits while too many bytes wait to be written or committed.
//
// An entry over Sizes.Entry is refused with failure.BodyTooBig: whatever is appended must
// fit into every follower.
func (t *Term) Append(e commitlog.Entry) error {
	size := e.Size()
	if size > t.o.Sizes.Entry {
		return fmt.Errorf("%w: records take %d bytes, limit is %d", failure.BodyTooBig, size, t.o.Sizes.Entry)
	}
	t.mu.Lock()
	for waited := false; ; waited = true {
		err := t.refusalLocked()
		ok := false
		if err == nil {
			ok, err = t.backlog.makeRoom(&t.o, t.forming, size, waited)
		}
		if err != nil {
			t.mu.Unlock()
			return err
		}
		if ok {
			break
		}
		t.room.Wait()
	}
	activated := false
	if t.forming == nil {
		t.forming = &group{since: t.o.Now()}
		t.forming.entries = t.forming.one[:0]
		activated = t.members.activate(t.forming.since)
	}
	g := t.forming
	g.entries, g.taken = append(g.entries, placedEntry{e, g.builder.Count()}), g.taken+size
	g.builder.Reserve(size)
	e.AppendTo(&g.builder)
	t.appender.startLocked(e)
	t.mu.Unlock()
	t.o.tellActivated(t, activated)
	return nil
}

// refusalLocked returns why the term accepts nothing now, or nil.
func (t *Term) refusalLocked() error {
	switch {
	case t.over != nil:
		return t.over
	case t.sealed != nil:
		return failure.Moving
	case t.backlog.stalled || t.members.few():
		return failure.TooFewISR
	}
	return nil
}

// Stop ends the term: it accepts nothing more and finishes the write in progress. Entries that are
// not committed by then complete with failure.Unconfirmed, those not written with failure.NotLeading. A
// term without other replicas first writes and commits what it has accepted. When Stop returns,
// everything is on disk and no callback runs any more. If the log has failed, its error is
// returned.
func (t *Term) Stop() error {
	t.mu.Lock()
	if t.Shared() {
		t.endLocked(failure.NotLeading)
	} else if t.over == nil {
		t.over = failure.NotLeading
	}
	t.room.Broadcast()
	t.mu.Unlock()
	t.syncer.Stop()
	t.appender.running.Wait()
	t.syncer.Wait()
	for _, f := range t.members.followers() {
		f.stop()
	}
	if t.o.Log.DurableEnd() < t.o.Log.End() {
		if err := t.syncer.Sync(); err != nil {
			t.fail(err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(failure.NotLeading)
	for t.releasing {
		t.room.Wait()
	}
	return t.failure
}

// write writes a group, unless it is refused, and sends it to the followers. due means that it must
// be synced before it counts.
func (t *Term) write(g *group) (due bool, err error) {
	batch, err := t.w.Append(&g.builder, t.o.Ages.Wall(g.since))
	if err != nil {
		return false, t.refused(g, err)
	}
	t.o.Ages.Appended(age.Batch{First: batch.First(), Epoch: t.Epoch(), Timestamp: batch.Timestamp()}, g.since)
	t.mu.Lock()
	g.batch, g.written = batch, true
	t.members.timeAppend(t.o.Now(), batch.End())
	t.mu.Unlock()
	for _, f := range t.members.followers() {
		f.rep.Push(batch)
	}
	return t.syncer.Appended(batch.Count()), nil
}

// errAgain says that a group must be written again: its entries were completed as if it were written,
// because the write took too long, and then the write failed without an effect.
var errAgain = errors.New("write again")

// refused completes a group that was not appended, in its turn, or returns errAgain. It returns the log's
// error if the log has failed: possibly not in this append, but in another write to it.
func (t *Term) refused(g *group, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	revoked := errors.Is(err, commitlog.ErrRevoked) || errors.Is(err, commitlog.ErrClosed)
	if g.told && t.over == nil && !revoked && fate.Of(err) == fate.Refused && t.o.Log.Failed() == nil {
		return errAgain
	}
	g.builder, g.err = commitlog.Builder{}, err
	if revoked {
		t.endLocked(failure.NotLeading)
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

// releaseLocked commits what is acknowledged and completes, in order, the groups and shares with a
// known outcome. One goroutine at a time does so, and releases the lock during callbacks. It loops
// until nothing new is decided, so concurrent callers return immediately.
func (t *Term) releaseLocked() {
	if t.releasing {
		return
	}
	t.releasing = true
	for {
		committed := t.members.tracker.Committed()
		before := t.o.Log.CommittedEnd()
		decided, late := t.backlog.popDecided(committed, t.ended, t.o.Budget)
		shared := t.sharing.popDecided(&t.members, t.ended)
		commit := !t.ended && before < committed
		lacking := len(t.members.view.ISR) < len(t.members.view.Replicas)
		if len(decided)+len(late)+len(shared) == 0 && !commit {
			break
		}
		t.mu.Unlock()
		if commit {
			t.o.Log.Commit(committed)
			if before < t.start {
				t.o.Committed(commitlog.Batch{})
			}
		}
		if t.o.CatchUp.Copying() {
			tellCatchUp(t.o.CatchUp, t.o.Now(), decided, lacking)
		}
		for _, g := range decided {
			if g.err == nil {
				t.o.Committed(g.batch)
			}
			g.complete(g.err)
		}
		for _, g := range late {
			g.complete(g.err)
		}
		for _, s := range shared {
			s.done(s.err)
		}
		t.mu.Lock()
	}
	t.releasing = false
	t.checkSealLocked()
	t.room.Broadcast()
}

// fail ends the term because its log failed.
func (t *Term) fail(err error) {
	t.mu.Lock()
	first := t.failure == nil
	if first {
		t.failure = err
		t.endLocked(fate.Mark(fmt.Errorf("partition log failed: %w", err), fate.Refused))
	}
	t.mu.Unlock()
	if first && t.o.Failed != nil {
		go t.o.Failed(err)
	}
}

// endLocked ends the term at once: nothing more is accepted or acknowledged, and waiting entries
// are refused.
func (t *Term) endLocked(why error) {
	t.ended = true
	if t.over == nil {
		t.over = why
	}
	if g := t.forming; g != nil {
		t.forming = nil
		g.builder, g.err = commitlog.Builder{}, t.over
		t.backlog.add(g)
	}
	for _, f := range t.members.followers() {
		f.setStalled(false, t.o.Stalled)
		f.drag.slow = false
		f.setSlow(t.o.Now(), 0, t.o.Slow)
	}
	t.syncer.Stop()
	t.room.Broadcast()
	t.releaseLocked()
	t.checkSealLocked()
}

// supersede ends the term because a replica knows a newer epoch.
func (t *Term) supersede(epoch seq.Epoch) {
	t.mu.Lock()
	first := !t.ended
	t.endLocked(failure.NotLeading)
	t.mu.Unlock()
	if first && t.o.Superseded != nil {
		go t.o.Superseded(epoch)
	}
}

// markDamaged records that a part of the log cannot be read. Followers that cannot be served because of
// that stay in the in-sync set: they hold what this log has lost, and one of them should lead.
func markDamaged(t *Term) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.members.logDamaged = true
}
