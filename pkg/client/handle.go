package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"
)

// touchPart is the part of the message timeout after which a message is touched.
const touchPart = 2

// Run handles messages until ctx ends or the consumer is closed, WithConcurrency at a time, and
// returns when all handlers have returned. It returns nil, or the reason why a broker refused
// the consumer permanently.
//
// When ctx ends, received messages are left for Close or another Run, or, with WithKeyOrder,
// requeued. Handlers see the end through their own contexts.
func (x *Consumer) Run(ctx context.Context, handle Handler) error {
	if x.cfg.key != nil {
		return runByKey(ctx, x, handle)
	}
	var handlers sync.WaitGroup
	for range x.cfg.concurrency {
		handlers.Go(func() {
			for m := range x.Messages(ctx) {
				x.handle(ctx, m, x.touchWhile(m), handle)
			}
		})
	}
	handlers.Wait()
	return x.Err()
}

// errGone is the error of a handler that ended its goroutine (runtime.Goexit), as FailNow does in tests.
var errGone = errors.New("handler ended its goroutine")

// handle handles one message and answers it, also if the handler ends the goroutine. done stops its touches.
func (x *Consumer) handle(ctx context.Context, m *Message, done func(), handle Handler) {
	err := errGone
	defer func() {
		done()
		wait, asked := errors.AsType[*later](err)
		switch {
		case m.Answered():
		case err == nil:
			_ = m.Finish() // on failure the message is redelivered anyway
		case asked:
			_ = m.Requeue(wait.delay)
		default:
			_ = m.Requeue(x.cfg.requeueDelay(m.Attempts))
			x.client.cfg.log.Warn("handler failed; message requeued", "topic", x.topic, "channel", x.channel, "id", m.ID.String(), "attempts", m.Attempts, "error", err)
		}
		x.judge(err != nil && !asked)
	}()
	err = guarded(ctx, m, handle)
}

// guarded calls the handler and converts a panic to an error.
func guarded(ctx context.Context, m *Message, handle Handler) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("handler panicked: %v\n%s", r, debug.Stack())
		}
	}()
	return handle(ctx, m)
}

// touchWhile touches a message until the returned function is called.
func (x *Consumer) touchWhile(m *Message) (done func()) {
	timeout := time.Duration(m.conn.server.MsgTimeout) * time.Millisecond
	if !x.cfg.autoTouch || timeout <= 0 {
		return func() {}
	}
	var mu sync.Mutex // guards the timer
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(timeout/touchPart, func() {
		mu.Lock()
		defer mu.Unlock()
		if timer != nil && m.Touch() == nil {
			timer.Reset(timeout / touchPart)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		timer = nil
	}
}

// judge makes the consumer accept fewer messages while its handler fails.
func (x *Consumer) judge(failed bool) {
	x.mu.Lock()
	if !failed && x.throttle.level == 0 {
		x.mu.Unlock()
		return
	}
	now := time.Now()
	var d time.Duration
	if failed {
		d = x.throttle.failed(now, rand.Float64())
	} else {
		d = x.throttle.succeeded(now, rand.Float64())
	}
	x.shareLocked(now)
	x.mu.Unlock()
	if d == 0 {
		return
	}
	if hook := x.client.cfg.hooks.BackedOff; hook != nil {
		hook(x.topic, x.channel, d)
	}
	time.AfterFunc(d, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.shareLocked(time.Now())
	})
}
