package server

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/topic"
)

// TestPendingAnswersAreBounded: by their number and by the size of the publishes they answer. A
// single one may exceed the bound.
func TestPendingAnswersAreBounded(t *testing.T) {
	owe := func(q *answerQueue, bodies int) bool {
		a := &answer{bytes: bodies}
		a.phase.Store(phaseReady)
		return q.tryPush(a)
	}
	for _, tc := range []struct {
		name   string
		bodies []int
		taken  int
	}{
		{"as many as may be", []int{0, 0, 0, 0}, 3},
		{"as many bytes as may be", []int{60, 40, 1}, 2},
		{"one byte too many", []int{60, 41}, 1},
		{"one that is larger than all may be", []int{500, 1}, 1},
	} {
		q := &answerQueue{maxCount: 3, maxBytes: 100, room: make(chan struct{}, 1)}
		for i, bodies := range tc.bodies {
			if took := owe(q, bodies); took != (i < tc.taken) {
				t.Errorf("%s: number %d taken %v", tc.name, i, took)
			}
		}
		batch := make([]*answer, 8)
		if n := q.popReady(batch); n != tc.taken {
			t.Errorf("%s: %d written, want %d", tc.name, n, tc.taken)
		}
		if !owe(q, 100) {
			t.Errorf("%s: nothing is taken after all was written", tc.name)
		}
	}
}

// TestNextAnswerWakesWriter: later answers are written with it. An answer that is completed just
// before the writer sleeps still wakes it.
func TestNextAnswerWakesWriter(t *testing.T) {
	l := &link{wake: make(chan struct{}, 1), queue: answerQueue{maxCount: 8, maxBytes: 1 << 10}}
	l.direct = newDirect(&writer{link: l})
	l.direct.writer.mu.Lock() // the writer does not sleep
	woken := func() bool {
		select {
		case <-l.wake:
			return true
		default:
			return false
		}
	}
	one, other := &producedTopic{}, &producedTopic{}
	var all []*answer
	for _, of := range []*producedTopic{one, one, other} {
		a := &answer{link: l, topic: of}
		if all = append(all, a); !l.queue.tryPush(a) {
			t.Fatal("the queue is full")
		}
	}
	if ready, mixed := l.queue.await(); ready || mixed {
		t.Fatalf("behind two of one topic: ready %v, mixed %v", ready, mixed)
	}
	all[1].publishDone(topic.Receipt{})
	if woken() {
		t.Error("an answer that cannot be written yet woke the writer")
	}
	all[0].publishDone(topic.Receipt{})
	if !woken() {
		t.Error("the answer that is next did not wake the writer")
	}
	if ready, _ := l.queue.await(); !ready {
		t.Error("the writer sleeps while an answer is ready")
	}
	batch := make([]*answer, 8)
	if n := l.queue.popReady(batch); n != 2 {
		t.Fatalf("%d answers are written, want 2", n)
	}
	if ready, mixed := l.queue.await(); ready || mixed {
		t.Errorf("before the last: ready %v, mixed %v", ready, mixed)
	}
	all[2].publishDone(topic.Receipt{})
	if !woken() {
		t.Error("the last answer did not wake the writer")
	}
	if l.queue.popReady(batch); l.queue.n > 0 {
		t.Fatal("an answer is left")
	}
	l.queue.await()
	for _, of := range []*producedTopic{one, other} {
		if a := (&answer{link: l, topic: of}); !l.queue.tryPush(a) {
			t.Fatal("the queue is full")
		} else if of == other {
			a.publishDone(topic.Receipt{})
		}
	}
	if !woken() {
		t.Error("a writer that waits for no answer was not woken")
	}
	if _, mixed := l.queue.await(); !mixed {
		t.Error("the next two are of different topics, and await does not report it")
	}
	// An answer that was written directly is no longer awaited.
	for l.queue.n > 0 {
		l.queue.ring[l.queue.head].phase.Store(phaseReady)
		if l.queue.n == 1 {
			l.queue.await()
			if l.queue.popOnly() == nil || l.queue.awaited.Load() != nil {
				t.Error("the writer waits for an answer that was written")
			}
			break
		}
		l.queue.popReady(batch[:1])
	}
}
