package replication

import (
	"errors"
	"sync"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// MaxQueuedBytes bounds what may wait at one follower to be appended. A leader
// keeps less than that in flight; what exceeds it is answered as not ready.
const MaxQueuedBytes = 64 << 20

// Follower is the follower's side of one partition at one node. Requests come
// in the order in which the leader sent them and are worked off in that order
// by one goroutine, which runs only while there are any.
type Follower struct {
	log *commitlog.Log

	mu      sync.Mutex // guards what follows
	queue   []request
	bytes   int
	working bool
	closed  bool
	idle    sync.Cond // working became false

	// of the working goroutine, or of Adopt while none works
	epoch  seq.Epoch
	writer *commitlog.Writer
	last   Point // behind the last batch of the log
	known  bool  // last is set
}

type request struct {
	kind    uint8
	payload []byte
	reply   func([]byte)
}

// NewFollower returns the follower of a log. It follows nobody yet.
func NewFollower(log *commitlog.Log) *Follower {
	f := &Follower{log: log}
	f.idle.L = &f.mu
	return f
}

// Adopt makes epoch the one that the follower serves: metadata says so. Leaders
// of older epochs are refused from then on, also after a restart: the epoch is
// stored before Adopt returns. An older epoch than the adopted one is an error.
func (f *Follower) Adopt(epoch seq.Epoch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.working {
		f.idle.Wait()
	}
	if epoch == f.epoch {
		return nil
	}
	w, err := f.log.Writer(epoch)
	if err != nil {
		return err
	}
	if err := f.log.Checkpoint(); err != nil {
		return err
	}
	f.epoch, f.writer, f.known = epoch, w, false
	return nil
}

// Handle takes a request of the leader's. It does not wait; reply is called
// once, perhaps from another goroutine. The payload is the follower's.
func (f *Follower) Handle(kind uint8, payload []byte, reply func([]byte)) {
	f.mu.Lock()
	if f.closed || f.bytes+len(payload) > MaxQueuedBytes {
		f.mu.Unlock()
		reply(answer{outcome: outcomeNotReady}.encode())
		return
	}
	f.queue = append(f.queue, request{kind, payload, reply})
	f.bytes += len(payload)
	start := !f.working
	f.working = true
	f.mu.Unlock()
	if start {
		go f.work()
	}
}

// Close refuses further requests and waits until those before are answered.
func (f *Follower) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for f.working {
		f.idle.Wait()
	}
}

func (f *Follower) work() {
	for {
		f.mu.Lock()
		if len(f.queue) == 0 {
			f.queue = nil
			f.working = false
			f.idle.Broadcast()
			f.mu.Unlock()
			return
		}
		r := f.queue[0]
		f.queue = f.queue[1:]
		f.bytes -= len(r.payload)
		f.mu.Unlock()
		r.reply(f.do(r).encode())
	}
}

func (f *Follower) do(r request) answer {
	var h header
	var err error
	var act func() answer
	switch r.kind {
	case KindPut:
		var m put
		m, err = decodePut(r.payload)
		h, act = m.header, func() answer { return f.put(m) }
	case KindReconcile:
		var m reconcile
		m, err = decodeReconcile(r.payload)
		h, act = m.header, f.reconcile
	case KindTruncate:
		var m truncate
		m, err = decodeTruncate(r.payload)
		h, act = m.header, func() answer { return f.truncate(m) }
	default:
		err = errMalformed
	}
	switch {
	case err != nil:
		return f.answer(outcomeFailed)
	case h.epoch < f.epoch:
		return f.answer(outcomeStale)
	case h.epoch > f.epoch:
		return f.answer(outcomeNotReady)
	}
	return act()
}

func (f *Follower) answer(o outcome) answer {
	return answer{outcome: o, epoch: f.epoch, start: f.log.Start(), end: f.log.End(), committed: f.log.CommittedEnd()}
}

// put appends batches that continue the log.
func (f *Follower) put(m put) answer {
	last, err := f.lastPoint()
	if err != nil {
		return f.answer(outcomeFailed)
	}
	rest := m.batches
	if m.prev != last {
		if rest, err = f.skipKnown(m, last); err != nil {
			return f.answer(outcomeMismatch)
		}
	}
	for len(rest) > 0 {
		b, err := commitlog.Decode(rest)
		if err != nil {
			return f.answer(outcomeMismatch)
		}
		if _, err = f.writer.AppendRaw(rest[:b.Size()]); err != nil {
			return f.failed(err)
		}
		f.last, rest = PointOf(b), rest[b.Size():]
	}
	if m.sync && f.log.DurableEnd() < f.log.End() {
		if _, err := f.writer.Sync(); err != nil {
			return f.failed(err)
		}
	}
	if c := min(m.committed, f.log.End()); c > f.log.CommittedEnd() {
		f.log.Commit(c)
	}
	return f.answer(outcomeOK)
}

// failed says what an error of the log's means to the leader.
func (f *Follower) failed(err error) answer {
	f.known = false
	switch {
	case errors.Is(err, commitlog.ErrFenced), errors.Is(err, commitlog.ErrRevoked):
		return f.answer(outcomeStale)
	case errors.Is(err, commitlog.ErrNoSpace):
		return f.answer(outcomeNotReady)
	}
	return f.answer(outcomeFailed)
}

// skipKnown handles a put that does not start at the log's end: a request that
// was sent again. What the log has already is compared and left out. An error
// says that the logs differ.
func (f *Follower) skipKnown(m put, last Point) ([]byte, error) {
	if m.prev.End > last.End {
		return nil, errMalformed // a gap
	}
	r := f.log.NewReader()
	defer r.Release()
	rest := m.batches
	for len(rest) > 0 {
		b, err := commitlog.Decode(rest)
		if err != nil {
			return nil, err
		}
		if b.First() >= last.End {
			break
		}
		mine, err := f.batchAt(b.First())
		if err != nil {
			return nil, err
		}
		if PointOf(mine) != PointOf(b) || mine.First() != b.First() {
			return nil, errMalformed
		}
		rest = rest[b.Size():]
		m.prev = PointOf(b)
	}
	if m.prev != last {
		return nil, errMalformed
	}
	return rest, nil
}

// batchAt returns the batch that contains an offset, committed or not.
func (f *Follower) batchAt(o seq.Offset) (commitlog.Batch, error) {
	raw, err := f.log.ReadRaw(o, 1, nil)
	if err != nil {
		return commitlog.Batch{}, err
	}
	return commitlog.Decode(raw)
}

// lastPoint returns the point behind the log's last batch.
func (f *Follower) lastPoint() (Point, error) {
	if f.known {
		return f.last, nil
	}
	p, err := pointBefore(f.log, f.log.End())
	if err != nil {
		return Point{}, err
	}
	f.last, f.known = p, true
	return p, nil
}

// pointBefore returns the point at an offset where a batch of the log ends. At
// the log's start nothing is known of what was before: only the offset counts.
func pointBefore(l *commitlog.Log, end seq.Offset) (Point, error) {
	if end <= l.Start() {
		return Point{End: end}, nil
	}
	raw, err := l.ReadRaw(end-1, 1, nil)
	if err != nil {
		return Point{}, err
	}
	b, err := commitlog.Decode(raw)
	if err != nil {
		return Point{}, err
	}
	if b.End() != end {
		return Point{}, errMalformed
	}
	return PointOf(b), nil
}

func (f *Follower) reconcile() answer {
	a := f.answer(outcomeOK)
	a.epochs = f.log.Epochs()
	return a
}

// truncate cuts the log back to a point that both logs have, or starts it anew.
func (f *Follower) truncate(m truncate) answer {
	f.known = false
	if m.reset {
		if err := f.writer.Reset(commitlog.Origin{Start: m.to.End, Position: m.position, Before: m.before}); err != nil {
			return f.failed(err)
		}
		f.last, f.known = m.to, true
		return f.answer(outcomeOK)
	}
	at, err := pointBefore(f.log, m.to.End)
	if err != nil || at != m.to {
		return f.answer(outcomeMismatch)
	}
	if err := f.writer.TruncateTo(m.to.End); err != nil {
		return f.failed(err)
	}
	return f.answer(outcomeOK)
}
