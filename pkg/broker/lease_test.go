package broker

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestALeaseHoldsForItsSpanAfterTheLastContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var contact, confirmed time.Time
		l := newLease(time.Second, func() time.Time { return contact })
		l.confirmed = func() time.Time { return confirmed }
		wants := func(what string, want bool) {
			t.Helper()
			if got := l.held(time.Now()); got != want {
				t.Errorf("%s: held %v", what, got)
			}
		}
		wants("never in touch", false)
		contact = time.Now()
		wants("in touch", true)
		time.Sleep(time.Second)
		wants("at the end of the span", true)
		time.Sleep(1)
		wants("past it", false)
		if l.regained(time.Now()) {
			t.Error("regained without contact")
		}
		confirmed = time.Now().Add(-time.Millisecond)
		if !l.regained(time.Now()) {
			t.Error("not regained by the replicas' confirmation")
		}
		if l.regained(time.Now()) {
			t.Error("regained twice")
		}
		wants("confirmed", true)
	})
}

func TestALeaseIsNotStretchedByAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		contact := time.Now()
		l := newLease(time.Second, func() time.Time { return contact })
		l.confirmed = func() time.Time { return time.Time{} }
		now := time.Now()
		if !l.held(now) {
			t.Fatal("not held")
		}
		time.Sleep(time.Minute) // the process is stopped between asking and acting
		if l.held(time.Now()) {
			t.Error("held after a minute without contact")
		}
	})
}
