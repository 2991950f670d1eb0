package client

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// waiting is a message between its arrival and its handler.
type waiting struct {
	m       *Message
	key     string
	err     error     // of the function that tells keys
	arrived time.Time // its timeout has run since
	done    func()    // ends its touches
}

// lanes order messages for handlers that run concurrently: of each key the first is ready, and
// the others wait behind it. Its methods may be called by any goroutine.
type lanes struct {
	mu     sync.Mutex // guards what follows
	some   *sync.Cond // of mu: ready has something, or no more messages come
	ready  []waiting
	behind map[string][]waiting // by each key that is ready or with a handler
	ended  bool
}

func newLanes() *lanes {
	l := &lanes{behind: map[string][]waiting{}}
	l.some = sync.NewCond(&l.mu)
	return l
}

// add adds a message behind those of its key. One without a key waits for no other. It returns
// the messages of the key that the broker has taken back since they came: behind a handler that
// hangs they would come again and again.
func (l *lanes) add(w waiting, lost func(waiting) bool) (gone []waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.key != "" {
		if others, busy := l.behind[w.key]; busy {
			n := 0
			for n < len(others) && lost(others[n]) {
				n++
			}
			l.behind[w.key] = append(others[n:], w)
			return others[:n:n]
		}
		l.behind[w.key] = nil
	}
	l.ready = append(l.ready, w)
	l.some.Signal()
	return nil
}

// next waits for a message that is ready; false: none comes any more. Each is to be released.
func (l *lanes) next() (waiting, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ready) == 0 {
		if l.ended && len(l.behind) == 0 {
			return waiting{}, false
		}
		l.some.Wait()
	}
	w := l.ready[0]
	l.ready[0] = waiting{}
	l.ready = l.ready[1:]
	return w, true
}

// release has the next message of the key ready, at the end of those that are, so that a key
// with many messages does not hold up the others.
func (l *lanes) release(w waiting) {
	if w.key == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if others := l.behind[w.key]; len(others) > 0 {
		l.behind[w.key] = others[1:]
		l.ready = append(l.ready, others[0])
		l.some.Signal()
		return
	}
	delete(l.behind, w.key)
	if l.ended && len(l.behind) == 0 {
		l.some.Broadcast()
	}
}

// end says that no more messages come.
func (l *lanes) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.some.Broadcast()
}

// runByKey is Run where messages of one key wait for each other.
func runByKey(ctx context.Context, x *Consumer, handle Handler) error {
	l := newLanes()
	var handlers sync.WaitGroup
	for range x.cfg.concurrency {
		handlers.Go(func() {
			for {
				w, ok := l.next()
				if !ok {
					return
				}
				w.handle(ctx, x, handle)
				l.release(w)
			}
		})
	}
	for m := range x.Messages(ctx) {
		key, err := keyOf(m, x.cfg.key)
		lost := func(w waiting) bool { return w.lost(x) }
		for _, w := range l.add(waiting{m, key, err, time.Now(), x.touchWhile(m)}, lost) {
			w.leave()
		}
	}
	l.end()
	handlers.Wait()
	return x.Err()
}

// handle handles a message whose turn has come. It gives it back where the consumer ends,
// and leaves it alone where the broker has delivered it again meanwhile: its id may be in flight.
func (w waiting) handle(ctx context.Context, x *Consumer, handle Handler) {
	switch {
	case w.lost(x):
		w.leave()
		return
	case ctx.Err() != nil || closed(x.leaving):
		w.done()
		_ = w.m.Requeue(0) // where it fails the message is delivered again, too
		return
	}
	if w.err != nil {
		handle = func(context.Context, *Message) error { return w.err }
	}
	x.handle(ctx, w.m, w.done, handle)
}

// lost reports that the broker has taken the message back: its timeout is over, or its connection.
func (w waiting) lost(x *Consumer) bool {
	timeout := time.Duration(w.m.conn.server.MsgTimeout) * time.Millisecond
	return !x.cfg.autoTouch && timeout > 0 && time.Since(w.arrived) >= timeout || !w.m.conn.alive()
}

// leave ends what is done for a message that was lost, without an answer to the broker.
func (w waiting) leave() {
	w.done()
	_ = w.m.answerBy(false, func() bool { return true })
}

// keyOf returns the key of a message, and a panic as an error.
func keyOf(m *Message, key func(*Message) string) (of string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("key function panicked: %v", r)
		}
	}()
	return key(m), nil
}
