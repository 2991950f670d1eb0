package network

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestWeather(t *testing.T) {
	const packets = 10_000
	for name, tc := range map[string]struct {
		is       Weather
		size     int
		arrives  float64       // copies per packet
		least    time.Duration // delay
		most     time.Duration
		overtake bool
	}{
		"clear":      {Weather{}, 100, 1, 0, 0, false},
		"delayed":    {Weather{Delay: time.Second, Jitter: time.Millisecond}, 100, 1, 999 * time.Millisecond, 1001 * time.Millisecond, true},
		"lossy":      {Weather{Loss: 0.25}, 100, 0.75, 0, 0, false},
		"duplicated": {Weather{Duplicate: 0.25}, 100, 1.25, 0, 0, false},
		"cut":        {Weather{Cut: true}, 100, 0, 0, 0, false},
		"small":      {Weather{Largest: 1280}, 1280, 1, 0, 0, false},
		"too large":  {Weather{Largest: 1280}, 1281, 0, 0, 0, false},
		// A packet of 100 bytes arrives each millisecond at a link that carries half of them.
		"narrow": {Weather{Rate: 50_000}, 100, 0.5, 2 * time.Millisecond, queued + 2*time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Network{rng: rand.New(rand.NewPCG(1, 1)), weather: map[edge]Weather{}, free: map[edge]time.Time{}}
			w.n = 2
			w.Everywhere(tc.is)
			now, count, before, overtook := time.Unix(0, 0), 0, time.Time{}, false
			for range packets {
				for _, d := range w.delays(edge{1, 2}, tc.size, now) {
					count++
					if d < tc.least || d > tc.most {
						t.Fatalf("delayed by %v", d)
					}
					overtook = overtook || now.Add(d).Before(before)
					before = now.Add(d)
				}
				now = now.Add(time.Millisecond)
			}
			if got := float64(count) / packets; got < tc.arrives-0.05 || got > tc.arrives+0.05 || overtook != tc.overtake {
				t.Errorf("%.2f copies per packet arrive, some overtake others: %v", got, overtook)
			}
			if w.Heal(); len(w.delays(edge{1, 2}, tc.size, now)) != 1 {
				t.Error("the link is not clear again")
			}
		})
	}
}
