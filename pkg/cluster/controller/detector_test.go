package controller

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/meta"
)

// detect runs a detector on node n1 that watches n2, with events "TIME WHAT" in milliseconds, and
// returns its verdicts with their times. n2 is the previous controller, last heard from before the
// start; 0: it is not.
func detect(t *testing.T, heard int, former uint64, events map[int]string, until int) []string {
	t.Helper()
	w := newWorld(t, Options{})
	w.start("n1", "")
	w.start("n2", "")
	d := newDetector(Options{}, "n1", w.clock())
	if former > 0 {
		d.Succeed(Former{"n2", former, w.clock().Add(-time.Duration(heard) * time.Millisecond)})
	}
	var said []string
	for ms := 0; ms <= until; ms += 10 {
		w.now = time.Duration(ms) * time.Millisecond
		switch what := events[ms]; what {
		case "heard":
			d.Heard("n2", w.state.Node("n2").Incarnation, w.clock())
		case "heard of another process":
			d.Heard("n2", 99, w.clock())
		case "stalled":
			d.Heard("n2", 0, w.clock())
		case "heard of a stranger":
			d.Heard("n9", 1, w.clock())
		case "refused":
			d.Refused("n2", w.clock())
		case "started":
			w.start("n2", "")
		case "removed":
			w.apply(meta.SetNodeIntent{ID: "n2", Intent: meta.IntentDecommission})
			w.apply(meta.RemoveNode{ID: "n2"})
		case "asleep until then":
			for k := range events {
				if k < ms && events[k] == "falls asleep" {
					delete(events, k)
				}
			}
		}
		if asleep(events, ms) {
			continue
		}
		verdicts, _, next := d.Tick(&w.state, w.clock())
		if !next.After(w.clock()) || next.After(w.clock().Add(probeEvery)) {
			t.Fatalf("at %d: next tick at %v", ms, next.Sub(w.clock()))
		}
		for _, v := range verdicts {
			said = append(said, fmt.Sprintf("%d %s %v", ms, v.Node, v.Alive))
			state := meta.NodeDown
			if v.Alive {
				state = meta.NodeUp
			}
			w.apply(meta.SetNodeState{ID: v.Node, State: state, Incarnation: v.Incarnation})
		}
	}
	return said
}

// asleep reports whether the detector does not run: from "falls asleep" until "asleep until then".
func asleep(events map[int]string, ms int) bool {
	for k, what := range events {
		if what == "falls asleep" && k <= ms {
			return true
		}
	}
	return false
}

func TestDetector(t *testing.T) {
	for _, test := range []struct {
		name   string
		events map[int]string
		until  int
		want   string
	}{
		{"new, and nothing heard: grace", nil, 990, "[]"},
		{"then silent", nil, 1500, "[1000 n2 false]"},
		{"heard in time", map[int]string{900: "heard"}, 1890, "[]"},
		{"silent since", map[int]string{900: "heard"}, 2000, "[1900 n2 false]"},
		{"refused once", map[int]string{100: "refused", 200: "heard"}, 1100, "[]"},
		{"refused again too soon", map[int]string{100: "refused", 140: "refused", 200: "heard"}, 1100, "[]"},
		{"refused again", map[int]string{100: "refused", 150: "refused"}, 300, "[150 n2 false]"},
		{"refused, heard, refused", map[int]string{100: "refused", 150: "heard", 200: "refused"}, 900, "[]"},
		{"another process is no sign of life", map[int]string{500: "heard of another process"}, 1100, "[1000 n2 false]"},
		{"nor is an answer of a process that does not serve", map[int]string{500: "stalled", 900: "stalled"}, 1100, "[1000 n2 false]"},
		{"stalled for less than the timeout", map[int]string{100: "heard", 500: "stalled", 900: "stalled", 1000: "heard"}, 1990, "[]"},
		{"nor is a stranger", map[int]string{500: "heard of a stranger"}, 1100, "[1000 n2 false]"},
		{"a new process is", map[int]string{500: "started"}, 1490, "[]"},
		{"for as long as it is heard of", map[int]string{500: "started"}, 1600, "[1500 n2 false]"},
		{"back without a restart", map[int]string{1200: "heard"}, 1300, "[1000 n2 false 1200 n2 true]"},
		{"restarted after death", map[int]string{1200: "started"}, 1300, "[1000 n2 false]"},
		{"removed", map[int]string{500: "removed"}, 3000, "[]"},
		{"paused, nobody is blamed", map[int]string{100: "falls asleep", 5000: "asleep until then"}, 5990, "[]"},
		{"but those who stay silent", map[int]string{100: "falls asleep", 5000: "asleep until then"}, 6000, "[6000 n2 false]"},
		{"a refusal before a pause is forgotten", map[int]string{100: "refused", 110: "falls asleep", 5000: "asleep until then", 5010: "refused"}, 5050, "[]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := fmt.Sprint(detect(t, 0, 0, test.events, test.until)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// A process that starts or stops gives the same answer as one whose disk has stalled.
func TestVerdictNamesEachReasonNotToServe(t *testing.T) {
	w := newWorld(t, Options{})
	w.start("a", "")
	w.start("b", "")
	d := newDetector(Options{}, "a", w.clock())
	why := ""
	for end := w.now + 2*DefaultSessionTimeout; w.now < end; w.now += step {
		verdicts, _, _ := d.Tick(&w.state, w.clock())
		for _, v := range verdicts {
			why = cmp.Or(why, v.Why)
		}
		d.Heard("b", 0, w.clock())
	}
	if want := "answers that it does not serve: it starts or stops, or its disk has stalled"; why != want {
		t.Errorf("%q, want %q", why, want)
	}
}

// The previous controller's silence counts from before the start, and it gets time to answer its
// successor.
func TestDetectorOfASuccessor(t *testing.T) {
	for _, test := range []struct {
		name   string
		heard  int    // ms before the start
		former uint64 // incarnation
		events map[int]string
		until  int
		want   string
	}{
		{"silent before", 600, 1, nil, 1500, "[400 n2 false]"},
		{"for long", 5000, 1, nil, 1500, "[200 n2 false]"},
		{"just heard of", 0, 1, nil, 1500, "[1000 n2 false]"},
		{"heard of later than the start", -500, 1, nil, 1400, "[1000 n2 false]"},
		{"answers", 5000, 1, map[int]string{190: "heard"}, 1180, "[]"},
		{"answers and falls silent", 5000, 1, map[int]string{190: "heard"}, 1500, "[1190 n2 false]"},
		{"refuses", 600, 1, map[int]string{10: "refused", 60: "refused"}, 1500, "[60 n2 false]"},
		{"has started again since", 5000, 7, nil, 1500, "[1000 n2 false]"},
		{"starts again", 600, 1, map[int]string{300: "started"}, 1500, "[1300 n2 false]"},
		{"the successor pauses", 600, 1, map[int]string{100: "falls asleep", 5000: "asleep until then"}, 5990, "[]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := fmt.Sprint(detect(t, test.heard, test.former, test.events, test.until)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// A node is probed at once, then at regular intervals, and sooner after a refusal.
func TestProbes(t *testing.T) {
	w := newWorld(t, Options{})
	w.start("n1", "")
	w.start("n2", "")
	d := newDetector(Options{}, "n1", w.clock())
	var asked []int64 // ms
	for w.now = 0; w.now < 700*time.Millisecond; w.now += step {
		_, probe, _ := d.Tick(&w.state, w.clock())
		if len(probe) == 0 {
			continue
		}
		if probe[0] != "n2" || len(probe) > 1 {
			t.Fatal(probe)
		}
		asked = append(asked, w.now.Milliseconds())
		if w.now > 300*time.Millisecond {
			d.Refused("n2", w.clock())
		} else {
			d.Heard("n2", 1, w.clock())
		}
	}
	if got := fmt.Sprint(asked); got != "[0 200 400 450 600]" {
		t.Error(got)
	}
}

// A starved controller runs late, and receives answers late that were sent in time. It declares no
// living node dead, and still detects a dead one.
func TestStarvedControllerDeclaresOnlyTheDead(t *testing.T) {
	seed := testrand.Seed(t)
	for round := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, round))
		w := newWorld(t, Options{})
		for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
			w.start(id, "")
		}
		d := newDetector(Options{}, "n1", w.clock())
		dies := time.Duration(3+r.IntN(3)) * time.Second
		next := w.clock()
		asked := map[meta.NodeID]int{} // and how many rounds ago
		buried := time.Duration(0)
		for w.now < 10*time.Second && buried == 0 {
			// The controller is late by up to 0.45 s each time.
			w.now += max(0, next.Sub(w.clock())) + time.Duration(r.IntN(450))*time.Millisecond
			verdicts, probe, again := d.Tick(&w.state, w.clock())
			next = again
			for _, v := range verdicts {
				if v.Node != "n3" || v.Alive || w.now < dies {
					t.Fatalf("round %d: after %v: %+v", round, w.now, v)
				}
				buried = w.now
			}
			// Probed nodes answer at once. The controller probes late and receives late: two rounds
			// later.
			for _, id := range []meta.NodeID{"n2", "n3"} {
				if looks, ok := asked[id]; ok && looks == 2 {
					delete(asked, id)
					if id == "n2" || w.now < dies {
						d.Heard(id, 1, w.clock())
					}
				} else if ok {
					asked[id]++
				}
			}
			for _, id := range probe {
				if _, open := asked[id]; !open {
					asked[id] = 1
				}
			}
		}
		if buried == 0 {
			t.Fatalf("round %d: n3 died at %v and was not found by %v", round, dies, w.now)
		}
	}
}
