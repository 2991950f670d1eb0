package measure

import (
	"testing"
	"time"
)

func TestBudgetIsSpentOnceAndInTime(t *testing.T) {
	start := time.Unix(100, 0)
	b := NewBudget(start, 5, 2)
	for i, want := range []struct {
		n   int64
		due time.Duration
	}{{2, 0}, {2, time.Second}, {1, 2 * time.Second}} {
		if n, due := b.Claim(2); n != want.n || due != start.Add(want.due) {
			t.Errorf("claim %d: %d, due %v", i, n, due)
		}
	}
	if n, _ := b.Claim(2); n != 0 {
		t.Errorf("%d beyond the budget", n)
	}
	if n, due := NewBudget(start, 0, 0).Claim(1 << 40); n != 1<<40 || !due.IsZero() {
		t.Errorf("without a limit: %d, due %v", n, due)
	}
}

func TestStampIsReadByItsRunOnly(t *testing.T) {
	s, body := NewStamp(), make([]byte, MinBody)
	at := time.Now().Add(time.Second)
	s.Put(body, at)
	if got, ours := s.Get(body); !ours || got.Sub(at).Abs() > time.Microsecond || !s.On() {
		t.Errorf("%v, %v, want %v", got, ours, at)
	}
	other := s
	other.run += 2
	for name, of := range map[string]Stamp{"another run": other, "none": {}} {
		if _, ours := of.Get(body); ours {
			t.Errorf("%s recognizes it", name)
		}
	}
	if _, ours := s.Get(body[:MinBody-1]); ours {
		t.Error("a short body is recognized")
	}
}

func TestThroughputIsPerSecond(t *testing.T) {
	var c Counts
	c.Add(Counts{Messages: 10, Bytes: 40, Failed: 1})
	c.Add(Counts{Messages: 10, Redelivered: 2})
	got := *NewThroughput(c, 4*time.Second)
	if want := (Throughput{Messages: 20, Failed: 1, Redelivered: 2, Bytes: 40, Seconds: 4, MessagesPerSecond: 5, BytesPerSecond: 10}); got != want {
		t.Errorf("%+v", got)
	}
	h := NewHistogram()
	if h.Percentiles() != nil {
		t.Error("percentiles of nothing")
	}
	h.Record(time.Second)
	h.Record(24 * time.Hour)
	if p := h.Percentiles(); p.Max < 59*time.Second || p.P50 > 2*time.Second {
		t.Errorf("%+v", p)
	}
}
