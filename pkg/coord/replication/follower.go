package replication

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/brokerd/brokerd/internal/stack"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// maxGroup is how many puts share one sync.
const maxGroup = 256

// ErrLonger is wrapped by the error passed to failed when a follower refuses a leader whose log
// lacks records committed here. Nothing was changed.
var ErrLonger = errors.New("leader lacks records committed on this replica")

// Positions stores the channels' positions that the leader shares with a
// follower. Calls are made one at a time.
type Positions interface {
	// Replace replaces all positions by a snapshot, which is on disk when it returns. The
	// callee owns the bytes.
	Replace(snapshot []byte) error
	// Update applies a change to the newest snapshot, which is on disk when it returns. The
	// callee owns the bytes.
	Update(update []byte) error
	// Cut forgets the positions of messages at or beyond an offset to which the log
	// is about to be truncated. That is on disk when Cut returns.
	Cut(end seq.Offset) error
	// Advance applies a change to the newest snapshot, possibly in memory only. It may be
	// called on the goroutine that delivers the leader's requests and must not wait for a sync.
	// The callee owns the bytes.
	Advance(change []byte) error
}

// Following describes the leadership that a follower follows.
type Following struct {
	Epoch     seq.Epoch
	Sync      meta.SyncPolicy
	Positions Positions // nil: shared positions are dropped
	// Unclean is the epoch of the last leader that an operator elected although it
	// may lack committed records; 0: none. If this log has nothing of that epoch or
	// later and differs from the leader's in committed records, those are
	// superseded: failed gets an error marked fate.Corrupt.
	Unclean seq.Epoch
	// Full, if set, reports whether the disk is full: then batches are refused, positions are
	// not. It must not block.
	Full func() bool
}

// Follower is the follower's side of one partition at one node. Requests arrive
// in the order in which the leader sent them. One goroutine, which runs only
// while there are any, handles them in that order. Puts that wait together are
// appended one at a time and share one sync. A change of the role overtakes all
// waiting requests: those of the old epoch are then refused.
type Follower struct {
	log    *commitlog.Log
	failed func(error)
	live   func(commitlog.Batch)

	adopted  atomic.Uint64 // following.Epoch, readable without the right to work
	compared atomic.Bool   // a leader has compared logs with this one since it was opened

	queue queue // the goroutine that handles its requests, or has acquired it, uses what follows

	following Following
	serving   bool // requests of the epoch's leader are accepted
	writer    *commitlog.Writer
	syncer    *Syncer
	last      point // after the last batch of the log
	known     bool  // last is set
	group     []held
	first     request // of the next round
	syncing   commitlog.Syncing
	told      seq.Offset // the highest committed end in the group's puts
	shares    uint64     // it has all shares of the epoch's term up to this number; 0: none
	pieces    pieces     // of a snapshot that is arriving
}

// pieces are the first bytes of a snapshot.
type pieces struct {
	number uint64
	bytes  []byte
}

// held is an answer that waits for a sync.
type held struct {
	request
	answer answer
}

// add adds a piece and returns all pieces so far. It returns false if an earlier
// one is missing.
func (p *pieces) add(m positions) ([]byte, bool) {
	if m.at == 0 {
		*p = pieces{number: m.number}
	}
	switch {
	case m.number != p.number || m.at != uint64(len(p.bytes)):
		return nil, false
	case uint64(len(m.piece)) == m.total:
		return m.piece, true
	}
	p.bytes = append(p.bytes, m.piece...)
	return p.bytes, true
}

// NewFollower returns the follower of a log, without a leader yet. A request that would exceed
// maxQueued bytes is answered as not ready: a leader keeps less than limit.Sizes.Put in flight.
// failed is called without a lock, possibly repeatedly: with an error that failed the log, with
// one marked fate.Corrupt if the log is damaged or an unclean election has superseded committed
// entries, and with one that wraps ErrLonger. live, if not nil, is called with the first batch
// of each put that the leader has just written, not with batches copied later.
func NewFollower(log *commitlog.Log, maxQueued int, failed func(error), live func(commitlog.Batch)) *Follower {
	f := &Follower{log: log, failed: failed, live: live}
	f.queue.most = maxQueued
	f.queue.idle.L = &f.queue.mu
	return f
}

// Adopt makes the follower serve the leader of an epoch, as the metadata says. Leaders of older
// epochs are refused from then on, even after a restart: the epoch is stored before Adopt
// returns. (A log that was never written to stores no epoch. Such a replica has acknowledged
// nothing, and its node acts on no metadata older than its own start.) An epoch older than the
// adopted one returns commitlog.ErrFenced. Adopt waits for the requests in progress, at most
// those that share one sync, and for no queued one.
func (f *Follower) Adopt(a Following) error { return f.change(a, true) }

// Rest adopts an epoch like Adopt but serves no leader.
func (f *Follower) Rest(epoch seq.Epoch) error { return f.change(Following{Epoch: epoch}, false) }

// Yield ends following: this node leads in an epoch. Requests are refused, and
// the log is left alone, from before Yield returns.
func (f *Follower) Yield(epoch seq.Epoch) {
	f.queue.acquire()
	defer f.release()
	f.retire()
	f.adopt(Following{Epoch: max(epoch, f.following.Epoch)}, false)
}

func (f *Follower) change(a Following, serve bool) error {
	f.queue.acquire()
	defer f.release()
	if a.Epoch < f.following.Epoch {
		return fmt.Errorf("adopt epoch %d, already at %d: %w", a.Epoch, f.following.Epoch, commitlog.ErrFenced)
	}
	if a.Epoch == f.following.Epoch && f.writer != nil {
		f.adopt(a, serve)
		f.syncer.SetPolicy(a.Sync)
		return nil
	}
	w, err := f.log.Writer(a.Epoch)
	if err != nil {
		return err
	}
	f.retire()
	f.adopt(Following{Epoch: a.Epoch}, false)
	if err := f.log.Checkpoint(0); err != nil {
		return err
	}
	f.writer, f.syncer = w, NewSyncer(w, a.Sync, f.failed)
	f.adopt(a, serve)
	return nil
}

// Epoch returns the highest epoch that was adopted or yielded to.
func (f *Follower) Epoch() seq.Epoch { return seq.Epoch(f.adopted.Load()) }

// Compared reports whether a leader has compared its log with this one, and
// truncated this one where they differ, since the log was opened.
func (f *Follower) Compared() bool { return f.compared.Load() }

// retire gives up the right to write.
func (f *Follower) retire() {
	if f.syncer != nil {
		f.syncer.Stop()
		f.syncer.Wait()
	}
	f.writer, f.syncer, f.known = nil, nil, false
}

// adopt publishes that an epoch was adopted. Shares are numbered per epoch, and
// shares that other Positions stored are not in these: the count restarts.
func (f *Follower) adopt(a Following, serve bool) {
	if a.Epoch != f.following.Epoch || a.Positions != f.following.Positions {
		f.shares, f.pieces = 0, pieces{}
	}
	f.following, f.serving = a, serve
	f.adopted.Store(uint64(a.Epoch))
}

// release ends the change of a role that began with queue.acquire, and has the
// waiting requests handled.
func (f *Follower) release() {
	goOn(f)
}

// Handle handles a request of the leader without blocking. reply is called once, possibly from
// another goroutine. The follower takes ownership of the payload. by is the connection, in which
// answers of one round gather; nil: they do not.
func (f *Follower) Handle(by vfs.Gatherer, kind uint8, payload []byte, reply func([]byte)) {
	r := request{kind, payload, reply, by}
	now, taken := f.queue.push(r)
	switch {
	case !taken:
		reply(NotReady())
	case now && kind == kindAdvance:
		// Changes of positions are kept in memory. Handled at once, they save the
		// waiting consumers a switch of goroutines.
		a, _ := f.do(r)
		reply(a.encode())
		f.release()
	case now && !join(f, r):
		go f.workFrom(r)
	}
}

// Close refuses all requests that are not in progress, and ends following.
func (f *Follower) Close() {
	f.queue.close()
	f.queue.acquire()
	f.retire()
	f.adopt(Following{Epoch: f.following.Epoch}, false)
	for r, ok := f.queue.next(); ok; r, ok = f.queue.next() {
		r.reply(NotReady())
	}
}

// workFrom handles a request and then the queue, until the log joins a round.
func (f *Follower) workFrom(r request) {
	stack.Grow()
	for {
		a, sync := f.do(r)
		f.group = append(f.group, held{request{reply: r.reply, by: r.by}, a})
		ok := false
		if sync && len(f.group) < maxGroup {
			if r, ok = f.queue.nextPut(); ok {
				continue
			}
		}
		f.answerGroup(sync)
		if r, ok = f.queue.next(); !ok || join(f, r) {
			return
		}
	}
}

// answerGroup answers the handled requests, after a sync if one of them needs
// it.
func (f *Follower) answerGroup(last bool) {
	var err error
	if owesSync(f, last) {
		err = f.syncer.Sync()
	}
	answerAll(f, nil, err)
}

// answerAll answers the handled requests. If their sync has failed, none of them succeeds. with
// gathers the answers; nil: they are sent one by one. The committed end is recorded after the
// sync, so that it never exceeds what is on disk.
func answerAll(f *Follower, with *vfs.Gathering, err error) {
	if err != nil {
		for i := range f.group {
			f.group[i].answer = f.refusal(err)
		}
		f.told = 0
	}
	if c := min(f.told, f.log.End()); c > f.log.CommittedEnd() {
		f.log.Commit(c)
	}
	f.told = 0
	for i, h := range f.group {
		h.answer.committed = f.log.CommittedEnd()
		if with != nil {
			with.Hold(h.by)
		}
		h.reply(h.answer.encode())
		f.group[i] = held{}
	}
	f.group = f.group[:0]
}

// do executes a request. sync means that the answer must wait for a sync.
func (f *Follower) do(r request) (a answer, sync bool) {
	var h header
	var err error
	var act func() answer
	switch r.kind {
	case KindPut:
		var m put
		m, err = decodePut(r.payload)
		h, act = m.header, func() answer {
			a, sync = f.put(m)
			return a
		}
	case kindReconcile:
		var m reconcile
		m, err = decodeReconcile(r.payload)
		h, act = m.header, f.reconcile
	case KindTruncate:
		var m truncate
		m, err = decodeTruncate(r.payload)
		h, act = m.header, func() answer { return f.truncate(m) }
	case KindPositions:
		var m positions
		m, err = decodePositions(r.payload)
		h, act = m.header, func() answer { return f.replace(m) }
	case kindAdvance, kindUpdate:
		var m advance
		m, err = decodeAdvance(r.payload)
		h, act = m.header, func() answer { return f.advance(m, r.kind) }
	default:
		err = errMalformed
	}
	switch {
	case err != nil:
		return f.answer(outcomeFailed), false
	case h.epoch < f.following.Epoch:
		return f.answer(outcomeStale), false
	case h.epoch > f.following.Epoch || !f.serving:
		return f.answer(outcomeNotReady), false
	}
	a = act()
	return a, sync
}

func (f *Follower) answer(o outcome) answer {
	return answer{outcome: o, epoch: f.following.Epoch, start: f.log.Start(), end: f.log.End(), committed: f.log.CommittedEnd()}
}

// put appends batches that continue the log. sync means that the answer, if it
// is a success, must wait until they are on disk.
func (f *Follower) put(m put) (a answer, sync bool) {
	last, err := f.lastPoint()
	if err != nil {
		return f.refusal(err), false
	}
	rest := m.batches
	if m.prev != last {
		if rest, err = f.skipKnown(m, last); fate.Of(err) == fate.Corrupt {
			return f.refusal(err), false
		} else if err != nil {
			return f.answer(outcomeMismatch), false
		}
	}
	due := false
	if len(rest) > 0 && f.following.Full != nil && f.following.Full() {
		f.told = max(f.told, m.committed)
		return f.answer(outcomeFull), false
	}
	if len(rest) > 0 {
		added, err := f.writer.AppendRaws(rest)
		count := 0
		for _, b := range added {
			f.last = pointOf(b)
			count += b.Count()
		}
		if count > 0 {
			due = f.syncer.Appended(count)
			f.notifyLive(added[0], m.committed)
		}
		if err != nil {
			return f.refusal(err), false
		}
	}
	f.told = max(f.told, m.committed)
	return f.answer(outcomeOK), m.sync || due
}

// notifyLive reports an appended batch if the leader has just written it. A
// batch that the leader knew as committed when it sent the put may be older. For
// one that it did not, this replica is in sync, or about to be.
func (f *Follower) notifyLive(b commitlog.Batch, committed seq.Offset) {
	if f.live != nil && b.First() >= committed && b.Epoch() == f.following.Epoch {
		f.live(b)
	}
}

// refusal returns the answer that reports an error of the log to the leader.
func (f *Follower) refusal(err error) answer {
	f.known = false
	switch broken := f.log.Failed(); {
	case broken != nil:
		f.failed(broken)
	case fate.Of(err) == fate.Corrupt: // it is damaged where it must be compared
		f.failed(err)
	case errors.Is(err, commitlog.ErrBelowCommitted) && f.log.LastEpoch() < f.following.Unclean:
		// An operator has elected a replica that lacks what is committed here.
		f.failed(fate.Mark(err, fate.Corrupt))
	case errors.Is(err, commitlog.ErrBelowCommitted):
		f.failed(fmt.Errorf("%w: %w", ErrLonger, err))
		return f.answer(outcomeLonger)
	case errors.Is(err, commitlog.ErrFenced), errors.Is(err, commitlog.ErrRevoked):
		return f.answer(outcomeStale)
	case errors.Is(err, failure.NoSpace), errors.Is(err, failure.NoFiles):
		return f.answer(outcomeFull)
	case errors.Is(err, commitlog.ErrInvalidBatch), errors.Is(err, commitlog.ErrNotContiguous):
		return f.answer(outcomeMismatch)
	}
	return f.answer(outcomeFailed)
}

// skipKnown handles a put that does not start at the log's end, because it was
// sent again. It compares the batches that the log already has and skips them.
// An error means that the logs differ.
func (f *Follower) skipKnown(m put, last point) ([]byte, error) {
	if m.prev.End > last.End {
		return nil, errMalformed // a gap
	}
	rest := m.batches
	for len(rest) > 0 {
		b, err := commitlog.Decode(rest)
		if err != nil {
			return nil, err
		}
		if b.First() >= last.End {
			break
		}
		mine, err := batchAt(f.log, b.First())
		if err != nil {
			return nil, err
		}
		if pointOf(mine) != pointOf(b) || mine.First() != b.First() {
			return nil, errMalformed
		}
		rest = rest[b.Size():]
		m.prev = pointOf(b)
	}
	if m.prev != last {
		return nil, errMalformed
	}
	return rest, nil
}

// batchAt returns the batch that contains an offset, committed or not.
func batchAt(l *commitlog.Log, o seq.Offset) (commitlog.Batch, error) {
	raw, err := l.ReadRaw(o, 1, nil)
	if err != nil {
		return commitlog.Batch{}, err
	}
	return commitlog.Decode(raw)
}

// lastPoint returns the point after the log's last batch.
func (f *Follower) lastPoint() (point, error) {
	if f.known {
		return f.last, nil
	}
	p, err := pointBefore(f.log, f.log.End())
	if err != nil {
		return point{}, err
	}
	f.last, f.known = p, true
	return p, nil
}

// pointBefore returns the point at an offset where a batch of the log ends. At
// the log's start the batch before is not known: only the offset counts.
func pointBefore(l *commitlog.Log, end seq.Offset) (point, error) {
	if end <= l.Start() {
		return point{End: end}, nil
	}
	b, err := batchAt(l, end-1)
	if err != nil {
		return point{}, err
	}
	if b.End() != end {
		return point{}, errMalformed
	}
	return pointOf(b), nil
}

func (f *Follower) reconcile() answer {
	a := f.answer(outcomeOK)
	a.epochs = f.log.Epochs()
	return a
}

// truncate truncates the log to a point that both logs have, or empties it to
// start at that point. A log that refuses to be truncated keeps its positions, too.
func (f *Follower) truncate(m truncate) answer {
	f.known = false
	if committed := f.log.CommittedEnd(); m.to.End < committed {
		return f.refusal(fmt.Errorf("truncate to %d, committed end is %d: %w", m.to.End, committed, commitlog.ErrBelowCommitted))
	}
	if !m.reset {
		at, err := pointBefore(f.log, m.to.End)
		if fate.Of(err) == fate.Corrupt {
			return f.refusal(err)
		}
		if err != nil || at != m.to {
			return f.answer(outcomeMismatch)
		}
	}
	if err := f.cut(m.to.End); err != nil {
		return f.answer(outcomeFailed)
	}
	if m.reset {
		if err := f.writer.Reset(commitlog.Origin{Start: m.to.End, Position: m.position, Before: m.before}); err != nil {
			return f.refusal(err)
		}
		f.last, f.known = m.to, true
	} else if err := f.writer.TruncateTo(m.to.End); err != nil {
		return f.refusal(err)
	}
	f.compared.Store(true)
	return f.answer(outcomeOK)
}

// cut erases the positions of messages at or beyond the end to which the log is
// about to be truncated. The leader shares its positions again in this session.
func (f *Follower) cut(end seq.Offset) error {
	f.shares, f.pieces = 0, pieces{}
	if p := f.following.Positions; p != nil {
		return p.Cut(end)
	}
	return nil
}

// replace accepts a piece of a snapshot of the channels' positions. A snapshot that it
// already has, possibly with later changes, is ignored: an earlier session may have
// brought it.
func (f *Follower) replace(m positions) answer {
	if m.number <= f.shares {
		return f.answer(outcomeOK)
	}
	snapshot, ok := f.pieces.add(m)
	switch {
	case !ok:
		return f.answer(outcomeMismatch)
	case uint64(len(snapshot)) < m.total:
		return f.answer(outcomeOK)
	}
	f.pieces = pieces{}
	if p := f.following.Positions; p != nil {
		if err := p.Replace(snapshot); err != nil {
			return f.answer(outcomeFailed)
		}
	}
	f.shares = m.number
	return f.answer(outcomeOK)
}

// advance accepts changes or updates of positions. It refuses those that do not directly
// follow what it has: the ones between were lost in transit, and success would count for
// those, too.
func (f *Follower) advance(m advance, kind uint8) answer {
	if m.after > f.shares {
		return f.answer(outcomeMismatch)
	}
	for i, c := range m.changes {
		n := m.after + uint64(i) + 1
		if n <= f.shares {
			continue
		}
		if p := f.following.Positions; p != nil {
			take := p.Advance
			if kind == kindUpdate {
				take = p.Update
			}
			if err := take(c); err != nil {
				return f.answer(outcomeFailed)
			}
		}
		f.shares = n
	}
	return f.answer(outcomeOK)
}
