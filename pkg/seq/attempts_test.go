package seq

import "testing"

func TestSharedFailuresAreNotCharged(t *testing.T) {
	var a Attempts
	for range 5 {
		a = a.Delivered()
	}
	a = a.Share().Delivered().Share()
	if a.Deliveries() != 6 || a.Shared() != 2 || a.Charged() != 4 || !a.Valid() {
		t.Errorf("%d deliveries, %d shared, %d charged", a.Deliveries(), a.Shared(), a.Charged())
	}
	if back := a.Undelivered(); back.Deliveries() != 5 || back.Shared() != 2 {
		t.Errorf("undelivered: %d deliveries, %d shared", back.Deliveries(), back.Shared())
	}
}

func TestNoMoreFailuresAreSharedThanDeliveries(t *testing.T) {
	if a := Attempts(0).Share(); a != 0 {
		t.Errorf("without a delivery: %d", a)
	}
	if a := Attempts(0).Undelivered(); a != 0 {
		t.Errorf("undelivered: %d", a)
	}
	if a := Attempts(1).Share().Share(); a.Shared() != 1 || !a.Valid() {
		t.Errorf("shared twice: %d", a.Shared())
	}
}

func TestForgivenessIsBounded(t *testing.T) {
	var a Attempts
	for range 100 {
		a = a.Delivered().Share()
	}
	if a.Shared() != 15 || a.Charged() != 85 {
		t.Errorf("%d shared, %d charged", a.Shared(), a.Charged())
	}
	for range 2 * MaxAttempts {
		a = a.Delivered()
	}
	if a.Deliveries() != MaxAttempts || a.Shared() != 15 || !a.Valid() {
		t.Errorf("%d deliveries, %d shared", a.Deliveries(), a.Shared())
	}
}

// Two replicas may know different counts of one message. The one with more deliveries is later; of
// equal ones, the one that knows how the last delivery ended.
func TestLaterCountIsKept(t *testing.T) {
	two := Attempts(2)
	for _, c := range []struct{ a, b, want Attempts }{
		{0, 1, 1},
		{two, two.Share(), two.Share()},
		{Attempts(1).Share(), two, two},
		{two.Share().Share(), 3, 3},
	} {
		if c.a.Later(c.b) != c.want || c.b.Later(c.a) != c.want {
			t.Errorf("later of %#x and %#x: %#x, want %#x", c.a, c.b, c.a.Later(c.b), c.want)
		}
	}
}

func TestImpossibleCountIsInvalid(t *testing.T) {
	for _, a := range []Attempts{MaxAttempts + 1, 1 << sharedShift, 2 | 3<<sharedShift} {
		if a.Valid() {
			t.Errorf("%#x is valid", uint16(a))
		}
	}
}

// TestUndoneDeliveriesLeaveAValidCount: whatever their number and the number of shared failures.
func TestUndoneDeliveriesLeaveAValidCount(t *testing.T) {
	for n := range 1 << 16 {
		if a := Attempts(n); a.Valid() && !a.Undelivered().Valid() {
			t.Fatalf("%d deliveries, %d shared failures: %d and %d after one is undone", a.Deliveries(), a.Shared(), a.Undelivered().Deliveries(), a.Undelivered().Shared())
		}
	}
}
