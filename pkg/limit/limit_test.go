package limit

import "testing"

func TestEachLimitContainsThePreviousOne(t *testing.T) {
	for body := 4 << 10; body <= Body; body *= 2 {
		s := Of(body)
		for _, pair := range []struct {
			name          string
			inner, outer  int
			addedOnTheWay int
		}{
			{"a body is smaller than an entry", body, s.Entry, body / 2},
			{"an entry fits into a group that still takes one", s.Entry + s.Forming - 1, s.Group, batchOverhead},
			{"a group fits into a frame", s.Group, s.Frame, 1 << 10},
			{"a frame fits into a window that still takes one put", s.Frame + s.Window - 1, s.Put, 1},
			{"the share of one replicator of the credit fills its window", 9 * s.Window, s.Pair, s.Request},
			{"a chunk is smaller than a window", s.Chunk, s.Window, 1},
		} {
			if pair.inner+pair.addedOnTheWay > pair.outer {
				t.Errorf("body %d: %s: %d and %d exceed %d", body, pair.name, pair.inner, pair.addedOnTheWay, pair.outer)
			}
		}
	}
}

func TestDefaultLimitsAreTheConstants(t *testing.T) {
	s := Sizes{}.OrDefault()
	if s.Group != Group {
		t.Errorf("%+v", s)
	}
	if other := Of(4 << 10); other.OrDefault() != other {
		t.Error("given limits were replaced")
	}
}
