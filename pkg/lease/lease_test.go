package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

// leaseOf returns a lease of a second that uses these times, which the test changes.
func leaseOf(contact, confirmed *time.Time) *Lease {
	l := New(NewContact(time.Second, func() time.Time { return *contact }, nil), 1, func() bool { return true })
	l.Begin(func() time.Time { return *confirmed }, func() {})
	return l
}

func TestLeaseHoldsForItsSpanAfterTheLastConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var contact, confirmed time.Time
		l := leaseOf(&contact, &confirmed)
		wants := func(what string, want bool) {
			t.Helper()
			if got := l.Held(time.Now()); got != want {
				t.Errorf("%s: held %v", what, got)
			}
		}
		wants("never in touch", false)
		contact = time.Now().Add(-time.Millisecond)
		wants("in touch with the quorum before it began, and not recognised", false)
		contact = time.Now()
		wants("in touch with the quorum, and not recognised", false)
		confirmed = time.Now()
		wants("recognised", true)
		time.Sleep(time.Second)
		wants("at the end of the span", true)
		time.Sleep(time.Nanosecond)
		wants("past it", false)
		if l.Regained(time.Now()) {
			t.Error("regained without contact")
		}
		confirmed = time.Now().Add(-time.Millisecond)
		if !l.Regained(time.Now()) {
			t.Error("not regained by the replicas' confirmation")
		}
		if l.Regained(time.Now()) {
			t.Error("regained twice")
		}
		wants("confirmed", true)
	})
}

func TestLeaseContinuesWithQuorumWithoutGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		contact, confirmed := time.Now(), time.Now()
		l := leaseOf(&contact, &confirmed)
		if !l.Held(time.Now()) {
			t.Fatal("not held")
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			contact = time.Now().Add(-50 * time.Millisecond)
			l.contact.Unbroken()
		}
		if !l.Held(time.Now()) {
			t.Error("not held after ten seconds in touch")
		}
		time.Sleep(time.Minute) // the process is stopped, and continues
		contact = time.Now()    // the first heartbeat: the decision has not arrived yet
		if l.contact.Unbroken(); l.Held(time.Now()) {
			t.Error("held by the first heartbeat after a pause")
		}
		confirmed = time.Now()
		if !l.Held(time.Now()) {
			t.Error("not held though the replicas still recognise the term")
		}
	})
}

func TestLeaseIsNotRenewedWhenTheMetadataNamesAnotherLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		l := leaseOf(&now, &now)
		if !l.Held(now) {
			t.Fatal("not held")
		}
		l.named = func() bool { return false } // and the role does not follow
		for range 11 {
			time.Sleep(100 * time.Millisecond)
			now = time.Now()
			l.contact.Unbroken()
		}
		if l.Held(now) {
			t.Error("held after it was known for a second that another leads")
		}
	})
}

func TestPauseDoesNotExtendLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		contact, confirmed := time.Now(), time.Now()
		l := leaseOf(&contact, &confirmed)
		now := time.Now()
		if !l.Held(now) {
			t.Fatal("not held")
		}
		time.Sleep(time.Minute) // the process is stopped between asking and acting
		if l.Held(time.Now()) {
			t.Error("held after a minute without contact")
		}
	})
}
