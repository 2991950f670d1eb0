package vfs

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Callers that ask while a round runs wait for the next round, which serves all of them;
// another key does not wait.
func TestRoundsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s rounds
		var begun atomic.Int32
		release := make(chan error)
		work := func() error { begun.Add(1); return <-release }
		var ended sync.WaitGroup
		errs := make(chan error, 10)
		ask := func(key string, n int) {
			for range n {
				ended.Go(func() { errs <- s.share(key, work) })
			}
			synctest.Wait()
		}
		ask("a", 1)
		ask("a", 4)
		if n := begun.Load(); n != 1 {
			t.Fatalf("%d rounds at the same time", n)
		}
		ask("b", 1)
		if n := begun.Load(); n != 2 {
			t.Fatalf("another key waits: %d rounds", n)
		}
		release <- nil
		release <- nil
		synctest.Wait()
		if n := begun.Load(); n != 3 || len(errs) != 2 {
			t.Fatalf("%d rounds, %d ended, before the shared one ends", n, len(errs))
		}
		ask("a", 1) // arrives too late for it
		failed := errors.New("failed")
		release <- failed
		synctest.Wait()
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		for range 4 {
			if err := <-errs; !errors.Is(err, failed) {
				t.Errorf("one of those who share got %v", err)
			}
		}
		if n := begun.Load(); n != 4 {
			t.Fatalf("who came late has no round: %d", n)
		}
		release <- nil
		ended.Wait()
		if err := <-errs; err != nil || len(s.open) > 0 {
			t.Errorf("%v, %d keys are kept", err, len(s.open))
		}
	})
}
