package isr

import (
	"fmt"
	"testing"
	"time"
)

func TestNextChange(t *testing.T) {
	now := time.Unix(1000, 0)
	fine := func(n string) Replica { return Replica{Node: nodes(n)[0], CaughtUp: now, Ready: true} }
	late := func(n string) Replica { return Replica{Node: nodes(n)[0], CaughtUp: now.Add(-2001 * time.Millisecond)} }
	gone := func(n string) Replica {
		r := fine(n)
		r.Gone = true
		return r
	}
	short := func(n string) Replica { return Replica{Node: nodes(n)[0], CaughtUp: now.Add(-2 * time.Second)} }
	slow := func(n string) Replica {
		r := fine(n)
		r.Slow = true
		return r
	}
	full := func(n string, ago time.Duration) Replica {
		return Replica{Node: nodes(n)[0], CaughtUp: now.Add(-ago), Full: true}
	}
	readyAndFull := func(n string, ago time.Duration) Replica {
		r := full(n, ago)
		r.Ready = true
		return r
	}
	for _, tc := range []struct {
		name     string
		in       string
		replicas []Replica
		want     string
	}{
		{"all is well", "n1 n2 n3", []Replica{fine("n2"), fine("n3")}, ""},
		{"one lags", "n1 n2 n3", []Replica{fine("n2"), late("n3")}, "[n1 n2]"},
		{"just in time", "n1 n2 n3", []Replica{fine("n2"), short("n3")}, ""},
		{"one is down", "n1 n2 n3", []Replica{gone("n2"), fine("n3")}, "[n1 n3]"},
		{"all but the leader go together", "n2 n1 n3", []Replica{gone("n2"), late("n3")}, "[n1]"},
		{"one has caught up", "n1", []Replica{late("n2"), fine("n3")}, "[n1 n3]"},
		{"one joins at a time", "n1", []Replica{fine("n2"), fine("n3")}, "[n1 n2]"},
		{"who leaves goes before who joins", "n1 n2", []Replica{gone("n2"), fine("n3")}, "[n1]"},
		{"who is down does not join", "n1 n2", []Replica{fine("n2"), gone("n3")}, ""},
		{"who is not ready does not join", "n1 n2", []Replica{fine("n2"), short("n3")}, ""},
		{"the leader never leaves", "n1", nil, ""},
		{"one is slow", "n1 n2 n3", []Replica{fine("n2"), slow("n3")}, "[n1 n2]"},
		{"one slow one leaves at a time", "n1 n2 n3", []Replica{slow("n2"), slow("n3")}, "[n1 n3]"},
		{"a slow one stays where it is needed", "n1 n3", []Replica{slow("n3")}, ""},
		{"a dead one goes before a slow one", "n1 n2 n3", []Replica{gone("n2"), slow("n3")}, "[n1 n3]"},
		{"one with a full disk lags for less", "n1 n2 n3", []Replica{fine("n2"), full("n3", 501*time.Millisecond)}, "[n1 n2]"},
		{"one with a full disk does not join if it would lag", "n1 n2", []Replica{fine("n2"), readyAndFull("n3", 501*time.Millisecond)}, ""},
		{"it joins otherwise", "n1 n2", []Replica{fine("n2"), readyAndFull("n3", 500*time.Millisecond)}, "[n1 n2 n3]"},
		{"and may lag a little", "n1 n2 n3", []Replica{fine("n2"), full("n3", 500*time.Millisecond)}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := nodes(tc.in)
			c, due := Next(now, 2*time.Second, 2, in, tc.replicas)
			got := ""
			if due {
				got = fmt.Sprint(c.ISR)
			}
			if got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if fmt.Sprint(in) != fmt.Sprint(nodes(tc.in)) {
				t.Errorf("the set that was given is now %v", in)
			}
		})
	}
}

// TestReplicaDoesNotJoinAndLeaveInTurn has a leader decide again at once, whatever it knows of a replica: otherwise it
// would change the set as fast as the metadata allows.
func TestReplicaDoesNotJoinAndLeaveInTurn(t *testing.T) {
	now := time.Unix(1000, 0)
	for ago := time.Duration(0); ago <= 3*time.Second; ago += 100 * time.Millisecond {
		for _, r := range []Replica{{}, {Full: true}, {Gone: true}, {Full: true, Gone: true}} {
			r.Node, r.Ready, r.CaughtUp = "n2", true, now.Add(-ago)
			in, changes := nodes("n1"), 0
			for c, due := Next(now, 2*time.Second, 1, in, []Replica{r}); due && changes < 5; c, due = Next(now, 2*time.Second, 1, in, []Replica{r}) {
				in = c.ISR
				changes++
			}
			if changes > 1 {
				t.Errorf("%+v, %v behind: %d changes", r, ago, changes)
			}
		}
	}
}
