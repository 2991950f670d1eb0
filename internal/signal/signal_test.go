package signal

import (
	"sync"
	"testing"
)

func fired(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestFireWakesEarlierWaiters(t *testing.T) {
	var s Signal
	s.Fire() // no goroutine waits
	first, second := s.Wait(), s.Wait()
	if fired(first) || fired(second) {
		t.Fatal("what happened before the wait ended it")
	}
	s.Fire()
	if !fired(first) || !fired(second) {
		t.Error("a waiter was not told")
	}
	if fired(s.Wait()) {
		t.Error("a wait that began afterwards has ended")
	}
}

func TestManyWaitAndFireAtOnce(t *testing.T) {
	var s Signal
	var waiters, others sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		waiters.Go(func() {
			for range 500 {
				<-s.Wait()
			}
		})
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.Fire()
				}
			}
		})
	}
	waiters.Wait()
	close(stop)
	others.Wait()
}
