package backlog

import (
	"slices"
	"testing"
)

func TestBacklogIsProcessedInOrder(t *testing.T) {
	var done []int
	var sizes []int
	b := &Of[int]{Most: 2, Do: func(list []int) { done, sizes = append(done, list...), append(sizes, len(list)) }}
	b.Add(1, 2, 3)
	b.running.Wait()
	b.Add(4)
	b.running.Wait()
	if !slices.Equal(done, []int{1, 2, 3, 4}) || slices.Max(sizes) > 2 || !b.Idle() {
		t.Errorf("did %v in calls of %v, idle %v", done, sizes, b.Idle())
	}
}

func TestClosedBacklogAcceptsNothing(t *testing.T) {
	n, began, goOn := 0, make(chan struct{}), make(chan struct{})
	b := &Of[int]{Most: 1, Do: func([]int) {
		n++
		began <- struct{}{}
		<-goOn
	}}
	b.Add(1, 2, 3)
	<-began
	if b.Idle() {
		t.Error("idle while it works")
	}
	go func() {
		for !b.isClosed() {
		}
		close(goOn)
	}()
	b.Close()
	b.Add(4)
	if n != 1 || !b.Idle() {
		t.Errorf("did %d, idle %v", n, b.Idle())
	}
}

func (b *Of[T]) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}
