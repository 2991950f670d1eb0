package peer

import (
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
)

// copyBelow is the size below which a slice of a payload is copied before it is written. A larger
// slice is written from where it is. Copying a small slice costs less than an entry of its own in
// the write.
const copyBelow = 4 << 10

// writeAtOnce is the number of bytes up to which the goroutine that queues them writes itself, if
// the connection accepts them without waiting. It leaves more to the writer, because writing would
// delay it.
const writeAtOnce = 16 << 10

// burst is how soon after a write the next one belongs to a burst. In a burst the writer writes,
// after it has let other goroutines queue their frames: one write for many.
const burst = 50 * time.Microsecond

// gatherMost is how many bytes are gathered at most between Hold and Release. More is written
// before Release.
const gatherMost = 64 << 10

// keepBelow is the size above which a buffer is not kept for the next write.
const keepBelow = 1 << 20

// piece is a slice that is written from where it is, after the first at encoded bytes.
type piece struct {
	at   int
	data []byte
}

// load is the data of one write: encoded bytes, and pieces between them.
type load struct {
	encoded []byte
	pieces  []piece
	bytes   int // in total
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

// prepend inserts encoded bytes at the front. It copies them.
func (l *load) prepend(b []byte) {
	l.encoded = append(slices.Clone(b), l.encoded...)
	for i := range l.pieces {
		l.pieces[i].at += len(b)
	}
	l.bytes += len(b)
}

// reset empties the load for its next use.
func (l *load) reset() {
	if cap(l.encoded) > keepBelow {
		l.encoded = nil
	}
	clear(l.pieces)
	l.encoded, l.pieces, l.bytes = l.encoded[:0], l.pieces[:0], 0
}

// outbox holds the data that waits to be written to a connection, and the calls that wait for an
// answer. Many goroutines may use it.
type outbox struct {
	wake chan struct{}    // wakes the writer; holds one wake-up at most
	try  func([]byte) int // writes what the connection accepts without waiting, and returns how many bytes; nil: nothing
	now  func() time.Time

	mu      sync.Mutex // guards what follows
	waiting load
	writing int    // bytes that are being written
	taken   uint64 // loads, to be written
	calls   map[uint64]func([]byte, error)
	awake   bool      // the writer, or the goroutine in its place, checks again anyway
	standIn bool      // a goroutine writes in the writer's place
	wrote   time.Time // when the last load was taken
	atOnce  load      // the load of the goroutine in the writer's place
	holds   int       // callers of Hold that have yet to call Release
	overdue bool      // held data has to be written now
	err     error
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), now: time.Now, calls: make(map[uint64]func([]byte, error))}
}

// bounds are the limits of an outbox.
type bounds struct {
	bytes int // waiting or being written, before one more frame is refused
	calls int // without an answer
}

// call queues a call's frame. If it returns nil, the connection's reader will call done, otherwise
// done will not be called.
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

// put queues any other frame. More than limit bytes break the connection: the other side does not
// read its answers.
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

// unlockAndTell unlocks, and makes sure that waiting data is written. The caller writes a little
// itself, which saves a change of goroutines. The writer writes more, and what is part of a burst.
// gathered: the burst has ended.
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

// writeLocked writes waiting data instead of the writer, as much as the connection accepts without
// waiting. If nothing is left, it does not wake the writer. It unlocks while it writes.
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

// heldLocked reports whether waiting data is held back for more.
func (o *outbox) heldLocked() bool {
	return o.holds > 0 && !o.overdue && o.waiting.bytes < gatherMost
}

// hurry makes the writer write held data: the caller of Hold takes too long.
func (o *outbox) hurry() {
	o.mu.Lock()
	o.overdue = o.waiting.bytes > 0
	o.mu.Unlock()
}

// loads returns how many loads have been taken.
func (o *outbox) loads() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taken
}

// swap exchanges the waiting data for an empty load. If it returns false, there is nothing, and the
// writer will be woken. An error means that the outbox has failed.
func (o *outbox) swap(empty *load) (ok bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return false, o.err
	}
	if o.standIn { // that goroutine wakes the writer if something is left
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

// answered removes and returns the call of a correlation.
func (o *outbox) answered(correlation uint64) (func([]byte, error), bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	done, ok := o.calls[correlation]
	delete(o.calls, correlation)
	return done, ok
}

// fail makes the outbox refuse everything from now on. The first error stays.
func (o *outbox) fail(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	o.mu.Unlock()
	o.signal()
}

// abandoned returns the calls without an answer after fail, in the order in which they were made.
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

// cause returns the error that fail was given.
func (o *outbox) cause() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
