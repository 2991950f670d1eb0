package limit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(2)
		turns.Acquire()
		turns.Acquire()
		taken := 0
		for range 3 {
			go func() {
				turns.Acquire()
				taken++
			}()
		}
		for want := range 3 {
			synctest.Wait()
			if taken != want || turns.Waiting() != 3-want {
				t.Fatalf("%d have a turn beside two, and %d wait, want %d and %d", taken, turns.Waiting(), want, 3-want)
			}
			turns.Give()
		}
		synctest.Wait()
		if taken != 3 || turns.Waiting() != 0 {
			t.Errorf("%d had their turn and %d wait, want all three", taken, turns.Waiting())
		}
	})
}

func TestTurnPassesToWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		turns.Acquire()
		turns.Pass() // nothing waits
		had := false
		go func() {
			turns.Acquire()
			had = true
			turns.Give()
		}()
		synctest.Wait()
		turns.Pass()
		if !had {
			t.Error("who passed a turn on went on before who waited")
		}
		turns.Give()
	})
}

func TestTurnWithTimeLimitEnds(t *testing.T) {
	const most = 10 * time.Millisecond
	for name, end := range map[string]time.Duration{"early": most / 2, "late": 3 * most} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := NewTurns(1)
				giveBack := turns.AcquireFor(most)
				began := time.Now()
				time.AfterFunc(end, giveBack)
				turns.Acquire()
				if waited, want := time.Since(began), min(end, most); waited != want {
					t.Errorf("the next waited for %v, want %v", waited, want)
				}
				time.Sleep(4 * most) // virtual time: a turn ended twice would release this one
				go func() {
					turns.Acquire()
					turns.Give()
				}()
				synctest.Wait()
				if turns.Waiting() != 1 {
					t.Error("one turn was given back twice")
				}
				turns.Give()
			})
		})
	}
}

func TestWithoutBoundNothingWaits(t *testing.T) {
	var turns *Turns
	turns.Acquire()
	turns.Pass()
	turns.AcquireFor(time.Second)()
	turns.Give()
	if turns.Waiting() != 0 {
		t.Error("somebody waits")
	}
}

func TestTurnIsPassedAfterManyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewTurns(1)
		if all.For(FewMessages) != nil || all.For(FewMessages+1) != all {
			t.Error("turns are not for many messages")
		}
		all.Acquire()
		had := false
		go func() {
			all.Acquire()
			had = true
			all.Give()
		}()
		synctest.Wait()
		for n := 1; n <= TurnMessages; n++ {
			if had {
				t.Fatalf("the turn is passed on behind %d messages", n-1)
			}
			all.Listed(n)
		}
		if !had {
			t.Error("the turn is not passed on")
		}
	})
}

func TestExcessBurstsWaitForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		turns.Acquire()
		first, second := turns.Burst(), turns.Burst() // both at once
		var began time.Time
		go func() {
			defer turns.Burst()()
			began = time.Now()
		}()
		synctest.Wait()
		if !began.IsZero() || turns.Waiting() != 1 {
			t.Fatalf("%d bursts wait for the turn behind two, want 1", turns.Waiting())
		}
		turns.Give()
		time.Sleep(breathFor)
		synctest.Wait()
		if began.IsZero() {
			t.Fatal("the third burst waits though the turn is free")
		}
		first()
		turns.Acquire() // the third has given it back
		third := turns.Burst()
		if turns.Waiting() != 0 {
			t.Error("a burst beside one waited for a turn")
		}
		turns.Give()
		second()
		third()
		if n := turns.bursts.Load(); n != 0 {
			t.Errorf("%d bursts are under way when all have ended", n)
		}
	})
}

func TestWaitingBurstReleasesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		for range 2 {
			defer turns.Burst()()
		}
		end := turns.Burst()
		began := time.Now()
		turns.Acquire()
		if took := time.Since(began); took > burstTurn {
			t.Errorf("the turn of a burst lasted for %v, want %v at most", took, burstTurn)
		}
		turns.Give()
		end()
	})
}
