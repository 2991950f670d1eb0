package channel

import "slices"

// event is a point in time for one message. It is stale when the message has another event, or
// none.
type event struct {
	at     int64  // ns on the timeline
	number uint64 // grows with each event; orders those at the same time
	slot   int32
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.number < other.number
}

// timers is a queue of events by time and number, with lazy removal. Events that arrive in order of
// time, which are nearly all, go to a sorted run where every operation is O(1); the others go to a
// heap with four children per node.
type timers struct {
	run   []event // sorted
	head  int     // of run
	heap  []event // 4-ary
	stale int     // number of stale events
}

// minSweep is the number of stale events from which on a sweep is worthwhile.
const minSweep = 64

func (t *timers) len() int { return len(t.run) - t.head + len(t.heap) }

func (t *timers) push(e event) {
	if t.head == len(t.run) {
		t.run, t.head = t.run[:0], 0
	}
	if n := len(t.run); n == 0 || t.run[n-1].at <= e.at {
		if n == cap(t.run) && t.head > n/2 {
			t.run = t.run[:copy(t.run, t.run[t.head:])]
			t.head = 0
		}
		t.run = append(t.run, e)
		return
	}
	t.heap = append(t.heap, e)
	t.up(len(t.heap) - 1)
}

// reserve makes room for a number of events, which mostly arrive in order of time if inOrder.
func (t *timers) reserve(events int, inOrder bool) {
	if inOrder {
		t.run = slices.Grow(t.run, events)
		return
	}
	t.heap = slices.Grow(t.heap, events)
}

// peek returns the earliest event, stale or not.
func (t *timers) peek() (event, bool) {
	switch {
	case t.inRun():
		return t.run[t.head], true
	case len(t.heap) > 0:
		return t.heap[0], true
	}
	return event{}, false
}

// pop removes the event that peek returned.
func (t *timers) pop() {
	if t.inRun() {
		t.head++
		return
	}
	n := len(t.heap) - 1
	t.heap[0] = t.heap[n]
	t.heap = t.heap[:n]
	t.down(0)
}

// inRun reports whether the earliest event is at the head of the run.
func (t *timers) inRun() bool {
	return t.head < len(t.run) && (len(t.heap) == 0 || t.run[t.head].before(t.heap[0]))
}

// needsSweep reports whether stale events outnumber the live ones.
func (t *timers) needsSweep() bool { return t.stale >= minSweep && t.stale > t.len()/2 }

// sweep drops the events for which live is false.
func (t *timers) sweep(live func(event) bool) {
	kept := t.run[:0]
	for _, e := range t.run[t.head:] {
		if live(e) {
			kept = append(kept, e)
		}
	}
	t.run, t.head = kept, 0
	kept = t.heap[:0]
	for _, e := range t.heap {
		if live(e) {
			kept = append(kept, e)
		}
	}
	t.heap = kept
	for i := (len(kept) - 2) / 4; i >= 0 && len(kept) > 1; i-- {
		t.down(i)
	}
	t.stale = 0
}

func (t *timers) up(i int) {
	e := t.heap[i]
	for i > 0 {
		parent := (i - 1) / 4
		if t.heap[parent].before(e) {
			break
		}
		t.heap[i] = t.heap[parent]
		i = parent
	}
	t.heap[i] = e
}

func (t *timers) down(i int) {
	if i >= len(t.heap) {
		return
	}
	e := t.heap[i]
	for {
		least := 4*i + 1
		if least >= len(t.heap) {
			break
		}
		for c := least + 1; c < min(4*i+5, len(t.heap)); c++ {
			if t.heap[c].before(t.heap[least]) {
				least = c
			}
		}
		if e.before(t.heap[least]) {
			break
		}
		t.heap[i] = t.heap[least]
		i = least
	}
	t.heap[i] = e
}
