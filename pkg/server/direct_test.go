package server

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// directRig is a session whose writer does not run, and its client.
type directRig struct {
	*session
	client *wire
	ctx    context.Context
}

func newDirectRig(t *testing.T) *directRig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	h := newHarness(t, Options{})
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &directRig{newSession(ctx, h.Server, conn, cancel), &wire{t, client}, ctx}
	t.Cleanup(func() {
		cancel(nil)
		_ = conn.Close()
		_ = client.Close()
	})
	if err := client.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	r.writer.deadline = time.Now().Add(testTimeout)
	return r
}

// publish queues the answer of a publish.
func (r *directRig) publish(t *testing.T) *answer {
	t.Helper()
	a := r.newAnswer()
	a.topic, a.count = &producedTopic{name: "t"}, 1
	a.phase.Store(phaseWaiting)
	if err := r.push(r.ctx, a); err != nil {
		t.Fatal(err)
	}
	return a
}

func (r *directRig) woken() bool { return len(r.wake) > 0 }

func TestSingleAnswerIsWrittenDirectly(t *testing.T) {
	r := newDirectRig(t)
	for range 3 {
		a := r.publish(t)
		of := a.topic
		a.publishDone(topic.Receipt{})
		r.client.expect("OK")
		if r.woken() || of.published.Load() != 1 || r.writer.bufp != nil {
			t.Errorf("woken %v, published %d, buffer %v", r.woken(), of.published.Load(), r.writer.bufp)
		}
	}
	if got := r.srv.counters.bytesOut.Load(); got != 30 {
		t.Errorf("%d bytes are counted", got)
	}
}

func TestWriterAnswersOtherwise(t *testing.T) {
	for name, arrange := range map[string]func(r *directRig, a *answer){
		"it is at work":                func(r *directRig, _ *answer) { r.writer.mu.Lock() },
		"it has something to write":    func(r *directRig, _ *answer) { r.writer.reserve(); r.writer.buf = append(r.writer.buf, 1) },
		"it delivers":                  func(r *directRig, _ *answer) { r.writer.sub = &fakeSub{} },
		"it compresses":                func(r *directRig, _ *answer) { r.writer.flush = func() error { return nil } },
		"it encrypts":                  func(r *directRig, _ *answer) { r.writer.out = io.Discard },
		"there is no socket":           func(r *directRig, _ *answer) { r.conn.raw = nil },
		"a deadline has passed":        func(r *directRig, _ *answer) { r.writer.deadline = time.Unix(1, 0) },
		"another publish waits":        func(r *directRig, _ *answer) { r.publish(t) },
		"commands behind it were read": func(_ *directRig, a *answer) { a.more = true },
		"the answer is an error":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			r, receipt := newDirectRig(t), topic.Receipt{}
			a := r.publish(t)
			if arrange == nil {
				receipt.Err = failure.QueueFull
			} else {
				arrange(r, a)
			}
			a.publishDone(receipt)
			if !r.woken() {
				t.Error("the writer was not woken")
			}
			if err := r.client.SetReadDeadline(time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			if n, err := r.client.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Errorf("%d bytes were written", n)
			}
		})
	}
}

// TestWriterContinuesWhenSocketIsFull fills the socket up to its last byte.
func TestWriterContinuesWhenSocketIsFull(t *testing.T) {
	for range 3 {
		r := newDirectRig(t)
		a := r.publish(t)
		full := 0
		err := r.conn.raw.Write(func(fd uintptr) bool {
			for _, size := range []int{64 << 10, 1} {
				for {
					n, err := syscall.Write(int(fd), make([]byte, size))
					if errors.Is(err, syscall.EAGAIN) {
						break
					}
					full += max(n, 0)
				}
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		a.publishDone(topic.Receipt{})
		if !r.woken() {
			t.Fatal("the writer was not woken")
		}
		go r.writer.run(r.ctx)
		if _, err := io.ReadFull(r.client, make([]byte, full)); err != nil {
			t.Fatal(err)
		}
		r.client.expect("OK")
		r.cancel(nil)
		<-r.writerDone
		if r.publish(t).phase.Store(phaseReady); r.direct.answer() {
			t.Error("a writer that has ended has a place")
		}
	}
}

// TestAnswersToPipelinedPublishesAreBatched: one write per answer would cost more than waking the
// writer.
func TestAnswersToPipelinedPublishesAreBatched(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	w.send(strings.Repeat("PUB held\n"+sized("a"), 3))
	eventually(t, "the publishes arrive", func() bool { return h.broker.heldCount() == 3 })
	h.Server.mu.Lock()
	defer h.Server.mu.Unlock()
	for s := range h.Server.sessions {
		q := &s.queue
		q.mu.Lock()
		for i := range q.n {
			if a := q.ring[(q.head+i)&(len(q.ring)-1)]; a.more != (i < 2) {
				t.Errorf("answer %d of 3: more commands are known to be behind it: %v", i+1, a.more)
			}
		}
		if q.n != 3 {
			t.Errorf("%d answers are under way", q.n)
		}
		q.mu.Unlock()
	}
	h.broker.release()
}

// TestReaderAppendsOnlyForWaitingClient sends publishes in several ways.
func TestReaderAppendsOnlyForWaitingClient(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	pub := "PUB t\n" + sized("a")
	w.send(pub)
	w.expect("OK")
	w.send(pub + pub + "NOP\n")
	w.expect("OK", "OK")
	w.send("PUB held\n" + sized("a") + "NOP\n")
	eventually(t, "the publish arrives", func() bool { return h.broker.heldCount() == 1 })
	w.send(pub) // its answer waits for an earlier one
	eventually(t, "the publish arrives", func() bool { return len(h.broker.stored("t")) == 4 })
	h.broker.release()
	w.expect("OK", "OK")
	w.send(mpub("t", "b", "c"))
	w.expect("OK")
	w.send("SUB other ch\n")
	w.expect("OK")
	w.send(pub)
	w.expect("OK")
	h.broker.mu.Lock()
	defer h.broker.mu.Unlock()
	if want := []bool{true, false, false, false, false, true, false}; !slices.Equal(h.broker.inline, want) {
		t.Errorf("inline: %v, want %v", h.broker.inline, want)
	}
}

// newDeliveryRig returns a session with a subscription that has messages available. The client's
// RDY is 1.
func newDeliveryRig(t *testing.T, messages int) (*directRig, *fakeSub) {
	t.Helper()
	r := newDirectRig(t)
	ch := &fakeChannel{inFlight: map[seq.MessageID]fakeMessage{}, owner: map[seq.MessageID]*fakeSub{}}
	sub := &fakeSub{b: &fakeBroker{}, ch: ch, wake: r.poke, ready: 1, hand: true}
	for i := range messages {
		ch.ready = append(ch.ready, fakeMessage{id: seq.NewMessageID(0, seq.Offset(i)), body: []byte("b")}) //nolint:gosec // an index
	}
	r.writer.sub = sub
	return r, sub
}

// TestNextMessageIsDeliveredDirectly also checks that the consumer is registered as waiting for
// more.
func TestNextMessageIsDeliveredDirectly(t *testing.T) {
	r, sub := newDeliveryRig(t, 3)
	for i := range 3 {
		takes := sub.takes
		r.direct.serve()
		if m := r.client.frame(); !strings.HasSuffix(m, "b") {
			t.Errorf("message %d: %q", i, m)
		}
		if r.woken() || r.writer.bufp != nil || sub.takes != takes+2 {
			t.Errorf("woken %v, buffer %v, %d takes", r.woken(), r.writer.bufp, sub.takes-takes)
		}
		sub.holding = 0
	}
	r.direct.serve()
	if r.woken() || r.writer.bufp != nil {
		t.Errorf("nothing to deliver: woken %v, buffer %v", r.woken(), r.writer.bufp)
	}
}

func TestWriterDeliversOtherwise(t *testing.T) {
	for name, arrange := range map[string]func(r *directRig, s *fakeSub){
		"it is at work":                func(r *directRig, _ *fakeSub) { r.writer.mu.Lock() },
		"it has something to write":    func(r *directRig, _ *fakeSub) { r.writer.reserve(); r.writer.buf = append(r.writer.buf, 1) },
		"it waits for memory":          func(r *directRig, _ *fakeSub) { r.writer.wanted = 1 },
		"it compresses":                func(r *directRig, _ *fakeSub) { r.writer.flush = func() error { return nil } },
		"it encrypts":                  func(r *directRig, _ *fakeSub) { r.writer.out = io.Discard },
		"there is no socket":           func(r *directRig, _ *fakeSub) { r.conn.raw = nil },
		"a deadline has passed":        func(r *directRig, _ *fakeSub) { r.writer.deadline = time.Unix(1, 0) },
		"an answer waits":              func(r *directRig, _ *fakeSub) { r.publish(t) },
		"a disk is to be read":         func(_ *directRig, s *fakeSub) { s.hand = false },
		"the subscription has ended":   func(r *directRig, _ *fakeSub) { r.writer.dry = true },
		"there is no subscription yet": func(r *directRig, _ *fakeSub) { r.writer.sub = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r, sub := newDeliveryRig(t, 1)
			arrange(r, sub)
			r.direct.serve()
			if !r.woken() || sub.takes > 0 {
				t.Errorf("woken %v, %d takes", r.woken(), sub.takes)
			}
		})
	}
}

// TestTwoMessagesAreLeftToWriter: the second message was found after the first one was written.
func TestTwoMessagesAreLeftToWriter(t *testing.T) {
	r, sub := newDeliveryRig(t, 2)
	sub.ready = 2
	sub.most = 1
	r.direct.serve()
	r.client.frame()
	if !r.woken() || len(r.writer.buf) == 0 {
		t.Errorf("woken %v, %d bytes are left", r.woken(), len(r.writer.buf))
	}
	go r.writer.run(r.ctx)
	r.client.frame()
}

// TestUndeliverableMessageIsNotWritten also checks that the connection ends.
func TestUndeliverableMessageIsNotWritten(t *testing.T) {
	r, sub := newDeliveryRig(t, 1)
	sub.late = true
	r.direct.serve()
	if n, err := r.client.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if end := r.cause.Load(); end == nil || !errors.Is(end.why, errNotDeliverable) {
		t.Errorf("ended by %v", end)
	}
}

// TestAnswerWakesWriterOnlyForFullConsumer: a consumer that found no message is woken when there is
// one.
func TestAnswerWakesWriterOnlyForFullConsumer(t *testing.T) {
	for _, waits := range []bool{true, false} {
		r, sub := newDeliveryRig(t, 0)
		sub.waits = waits
		r.session.sub, r.freed = sub, 1
		r.rest()
		if r.woken() == waits {
			t.Errorf("waits %v: woken %v", waits, r.woken())
		}
	}
}
