package consume

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleRelaySourcePausesBeforeAskingForCredit has two relays that share a credit of one, both of
// ordered channels whose next messages other consumers hold. They took the credit from each other
// as fast as the network allows.
func TestIdleRelaySourcePausesBeforeAskingForCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fd := &relaySource{wakeup: make(chan struct{}, 1)}
		if !fd.mayStarve(time.Now()) {
			t.Fatal("it may not even ask once")
		}
		fd.told, fd.toldAt, fd.barren = true, time.Now(), true
		fd.ready(1)
		fd.ready(0)
		<-fd.wakeup
		if fd.mayStarve(time.Now()) {
			t.Error("nothing came of the credit, and it asks again at once")
		}
		began := time.Now()
		<-fd.wakeup
		if waited := time.Since(began); waited != starvedPause {
			t.Errorf("woken after %v", waited)
		}
		if !fd.mayStarve(time.Now()) {
			t.Error("it may not ask after the pause")
		}
		fd.told, fd.toldAt, fd.barren = true, time.Now(), false
		fd.ready(0)
		if !fd.mayStarve(time.Now()) {
			t.Error("it waits though the credit brought something")
		}
	})
}
