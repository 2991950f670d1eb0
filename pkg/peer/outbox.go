package peer

import (
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
)

// copyBelow is the size from which a slice of a payload goes to the socket from
// where it lies; smaller ones are copied, which costs less than a piece of its
// own in the write.
const copyBelow = 4 << 10

// writeAtOnce is how much is written by whoever queues it, where the connection
// takes it without waiting. More is left to the writer: it would hold up the caller.
const writeAtOnce = 16 << 10

// burst is how soon after a write another one is part of a burst. In a burst the writer
// writes, which lets whoever is about to queue a frame do so first: one write for many.
const burst = 50 * time.Microsecond

// gatherMost is how much gathers at the most between Hold and Release: more is written meanwhile.
const gatherMost = 64 << 10

// A buffer that grew past keepBelow is not kept for the next write.
const keepBelow = 1 << 20

// piece is a slice that is sent from where it lies: after at bytes of the
// encoded ones.
type piece struct {
	at   int
	data []byte
}

// load is what is sent in one go: encoded bytes, and pieces between them.
type load struct {
	encoded []byte
	pieces  []piece
	bytes   int // of all
}

func (l *load) add(header *[frameHeader]byte, payload [][]byte) {
	l.encoded = append(l.encoded, header[:]...)
	l.bytes += frameHeader
	for _, p := range payload {
		l.bytes += len(p)
		if len(p) < copyBelow {
			l.encoded = append(l.encoded, p...)
			continue
		}
		l.pieces = append(l.pieces, piece{len(l.encoded), p})
	}
}

// prepend puts encoded bytes in front, which are copied.
func (l *load) prepend(b []byte) {
	l.encoded = append(slices.Clone(b), l.encoded...)
	for i := range l.pieces {
		l.pieces[i].at += len(b)
	}
	l.bytes += len(b)
}

// reset empties the load for the next use.
func (l *load) reset() {
	if cap(l.encoded) > keepBelow {
		l.encoded = nil
	}
	clear(l.pieces)
	l.encoded, l.pieces, l.bytes = l.encoded[:0], l.pieces[:0], 0
}

// outbox holds what waits to be written to a connection, and the calls that
// wait for an answer. It may be used by many goroutines.
type outbox struct {
	wake chan struct{}    // tells the writer, at most one at a time
	try  func([]byte) int // writes what the connection takes without waiting, and returns how much that was; nil: nothing
	now  func() time.Time

	mu      sync.Mutex // guards what follows
	waiting load
	writing int    // bytes that someone has taken and not written
	taken   uint64 // loads, to be written
	calls   map[uint64]func([]byte, error)
	awake   bool      // the writer will look again by itself, or whoever stands in for it tells it
	standIn bool      // someone writes in the writer's place
	wrote   time.Time // when a load was taken last
	atOnce  load      // what the stand-in writes
	holds   int       // callers of Hold that have yet to call Release
	overdue bool      // what waits is to be written although it is held
	err     error
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), now: time.Now, calls: make(map[uint64]func([]byte, error))}
}

// bounds of an outbox.
type bounds struct {
	bytes int // waiting or being written, before one more frame
	calls int // without an answer
}

// call queues a call's frame. Once it has returned nil, done will be called by
// the connection's reader; otherwise it will not.
func (o *outbox) call(header *[frameHeader]byte, payload [][]byte, correlation uint64, done func([]byte, error), b bounds) error {
	o.mu.Lock()
	if err := o.err; err != nil {
		o.mu.Unlock()
		return err
	}
	if o.waiting.bytes+o.writing >= b.bytes || len(o.calls) >= b.calls {
		o.mu.Unlock()
		return errBusy
	}
	o.calls[correlation] = done
	o.waiting.add(header, payload)
	o.unlockAndTell(false)
	return nil
}

// put queues any other frame. More than limit bytes break the connection: the
// other side does not take its answers.
func (o *outbox) put(header *[frameHeader]byte, payload [][]byte, limit int) error {
	o.mu.Lock()
	if err := o.err; err != nil {
		o.mu.Unlock()
		return err
	}
	if o.waiting.bytes+o.writing > limit {
		o.mu.Unlock()
		return errSlow
	}
	o.waiting.add(header, payload)
	o.unlockAndTell(false)
	return nil
}

// unlockAndTell gives up the lock and sees to it that what waits is written: a
// little by the caller, which spares those who wait for it a change of
// goroutines, more, and what is part of a burst, by the writer. gathered: the burst is over.
func (o *outbox) unlockAndTell(gathered bool) {
	if o.awake || o.heldLocked() {
		o.mu.Unlock()
		return
	}
	o.awake = true
	if o.try != nil && len(o.waiting.pieces) == 0 && (o.waiting.bytes <= writeAtOnce || gathered && o.waiting.bytes <= gatherMost) {
		if now := o.now(); gathered || now.Sub(o.wrote) >= burst {
			o.wrote = now
			o.writeLocked()
		}
	}
	tell := o.awake
	o.mu.Unlock()
	if tell {
		o.signal()
	}
}

// writeLocked writes what waits, in the writer's place, as far as that goes
// without waiting, and leaves the writer asleep if nothing is left. It gives up the
// lock while it writes.
func (o *outbox) writeLocked() {
	o.atOnce, o.waiting, o.overdue = o.waiting, o.atOnce, false
	o.standIn, o.writing = true, o.atOnce.bytes
	o.taken++
	o.mu.Unlock()
	n := o.try(o.atOnce.encoded)
	o.mu.Lock()
	o.standIn, o.writing = false, 0
	if rest := o.atOnce.encoded[n:]; len(rest) > 0 {
		o.waiting.prepend(rest)
	}
	o.atOnce.reset()
	o.awake = o.waiting.bytes > 0
}

func (o *outbox) signal() { signal.Poke(o.wake) }

// Hold implements Gatherer.
func (o *outbox) Hold() {
	o.mu.Lock()
	o.holds++
	o.mu.Unlock()
}

// Release implements Gatherer.
func (o *outbox) Release() {
	o.mu.Lock()
	o.holds--
	if o.waiting.bytes == 0 {
		o.mu.Unlock()
		return
	}
	o.unlockAndTell(true)
}

// heldLocked reports whether what waits is to wait for more.
func (o *outbox) heldLocked() bool {
	return o.holds > 0 && !o.overdue && o.waiting.bytes < gatherMost
}

// hurry has what waits written even if it is held: whoever holds it takes too long.
func (o *outbox) hurry() {
	o.mu.Lock()
	o.overdue = o.waiting.bytes > 0
	o.mu.Unlock()
}

// loads returns how many loads were taken to be written.
func (o *outbox) loads() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taken
}

// swap exchanges what waits for an empty load. When it reports false, there is
// nothing, and the writer will be told; an err is the end.
func (o *outbox) swap(empty *load) (ok bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return false, o.err
	}
	if o.standIn { // who tells the writer if something is left
		return false, nil
	}
	o.writing = 0
	if o.waiting.bytes == 0 || o.heldLocked() {
		o.awake = false
		return false, nil
	}
	o.overdue = false
	o.waiting, *empty = *empty, o.waiting
	o.writing = empty.bytes
	o.taken++
	o.wrote = o.now()
	return true, nil
}

// answered returns the call of a correlation and forgets it.
func (o *outbox) answered(correlation uint64) (func([]byte, error), bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	done, ok := o.calls[correlation]
	delete(o.calls, correlation)
	return done, ok
}

// fail makes the outbox refuse everything from now on; the first cause stays.
func (o *outbox) fail(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	o.mu.Unlock()
	o.signal()
}

// abandoned returns the calls without an answer, in the order in which they
// were made, after fail.
func (o *outbox) abandoned() []func([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	order := make([]uint64, 0, len(o.calls))
	for c := range o.calls {
		order = append(order, c)
	}
	slices.Sort(order)
	calls := make([]func([]byte, error), len(order))
	for i, c := range order {
		calls[i] = o.calls[c]
	}
	clear(o.calls)
	return calls
}

// cause returns what fail was told.
func (o *outbox) cause() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
