package server

import "testing"

// TestAnswersThatAreOwedAreBounded: by number and by the bodies that they stand
// for; a single one may be larger than the bound.
func TestAnswersThatAreOwedAreBounded(t *testing.T) {
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
