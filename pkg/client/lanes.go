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
	err     error     // of the key function
	arrived time.Time // its timeout runs since then
	done    func()    // stops its touches
}

// lanes order messages for concurrent handlers: the first message of each key is ready, and the
// others of the key wait for it. Any goroutine may call its methods.
type lanes struct {
	mu     sync.Mutex // guards the fields below
	some   *sync.Cond // of mu: ready is not empty, or no more messages arrive
	ready  []waiting
	behind map[string][]waiting // messages that wait, by each key that is ready or being handled
	ended  bool
}

func newLanes() *lanes {
	l := &lanes{behind: map[string][]waiting{}}
	l.some = sync.NewCond(&l.mu)
	return l
}

// add appends a message to those of its key. A message without a key waits for no other. It returns
// the messages of the key that timed out since they arrived: behind a hung handler, they would be
// redelivered repeatedly.
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

// next waits for a ready message, which the caller must release. It returns false if no more
// messages arrive.
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

// release makes the next message of the key ready, after all other ready messages, so that a key
// with many messages does not delay the others.
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

// end marks that no more messages arrive.
func (l *lanes) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.some.Broadcast()
}

// runByKey is Run for messages ordered by key.
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
				func() {
					defer l.release(w) // also if the handler ends this goroutine
					w.handle(ctx, x, handle)
				}()
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

// handle handles a message when it is its turn. If the consumer has ended, it requeues the message.
// If the broker has redelivered the message meanwhile, it does nothing, because the id may be in
// flight again.
func (w waiting) handle(ctx context.Context, x *Consumer, handle Handler) {
	switch {
	case w.lost(x):
		w.leave()
		return
	case ctx.Err() != nil || closed(x.leaving):
		w.done()
		_ = w.m.Requeue(0) // on failure the message is redelivered anyway
		return
	}
	if w.err != nil {
		handle = func(context.Context, *Message) error { return w.err }
	}
	x.handle(ctx, w.m, w.done, handle)
}

// lost reports whether the broker no longer counts the message as in flight here: its timeout has
// passed, or its connection has ended.
func (w waiting) lost(x *Consumer) bool {
	timeout := time.Duration(w.m.conn.server.MsgTimeout) * time.Millisecond
	return !x.cfg.autoTouch && timeout > 0 && time.Since(w.arrived) >= timeout || !w.m.conn.alive()
}

// leave stops the touches of a lost message without answering it.
func (w waiting) leave() {
	w.done()
	_ = w.m.answerBy(false, func() bool { return true })
}

// keyOf returns the key of a message, and converts a panic to an error.
func keyOf(m *Message, key func(*Message) string) (of string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("key function panicked: %v", r)
		}
	}()
	return key(m), nil
}
