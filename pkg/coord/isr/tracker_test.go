package isr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// TestScripts plays short histories: "ack n1 5" and so on, with the committed
// end expected after each line.
func TestScripts(t *testing.T) {
	for _, tc := range []struct{ name, isr, script string }{
		{"a single replica commits what it acknowledges", "n1", `
			ack n1 3 = 3
			ack n1 3 = 3
			ack n1 2 = 3
			ack n1 7 = 7`},
		{"the least of the set counts", "n1 n2 n3", `
			ack n1 9 = 0
			ack n2 4 = 0
			ack n3 6 = 4
			ack n2 9 = 6`},
		{"one that was never heard of holds everything back", "n1 n2", `
			ack n1 9 = 0`},
		{"a removal counts once it is applied", "n1 n2", `
			ack n1 9 = 0
			propose n1 = 0
			ack n1 10 = 0
			apply n1 = 10`},
		{"an addition counts from when it is proposed", "n1", `
			ack n1 5 = 5
			propose n1 n2 = 5
			ack n1 9 = 5
			ack n2 7 = 7
			apply n1 n2 = 7
			ack n2 9 = 9`},
		{"a refused addition no longer counts", "n1", `
			ack n1 5 = 5
			propose n1 n2 = 5
			ack n1 9 = 5
			withdraw = 9`},
		{"what an outsider acknowledged is remembered", "n1", `
			ack n2 8 = 0
			ack n1 8 = 8
			apply n1 n2 = 8
			ack n1 9 = 8`},
		{"a new session starts from nothing", "n1 n2", `
			ack n1 9 = 0
			ack n2 5 = 5
			forget n2 = 5
			ack n1 12 = 5
			ack n2 3 = 5
			ack n2 10 = 10`},
		{"proposals add up until one is applied", "n1", `
			ack n1 5 = 5
			propose n1 n2 = 5
			propose n1 n3 = 5
			ack n1 9 = 5
			ack n3 9 = 5
			ack n2 7 = 7
			apply n1 n3 = 9`},
		{"a set that is too small commits what was inherited, and no more", "n1", `
			require 2 4 = 0
			ack n1 3 = 3
			ack n1 9 = 4
			propose n1 n2 = 4
			ack n2 9 = 4
			apply n1 n2 = 9
			ack n2 12 = 9
			apply n1 = 9
			ack n1 12 = 9
			require 1 4 = 12`},
		{"the committed end never moves back", "n1 n2", `
			ack n1 9 = 0
			ack n2 9 = 9
			apply n1 n2 n3 = 9
			ack n3 2 = 9
			ack n3 9 = 9`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := New(nodes(tc.isr), 0)
			for line := range strings.Lines(strings.TrimSpace(tc.script)) {
				call, want, _ := strings.Cut(strings.TrimSpace(line), " = ")
				play(tr, strings.Fields(call))
				if got := fmt.Sprint(tr.Committed()); got != want {
					t.Fatalf("after %q: committed end %s, want %s", call, got, want)
				}
			}
		})
	}
}

func nodes(text string) []meta.NodeID {
	var all []meta.NodeID
	for n := range strings.FieldsSeq(text) {
		all = append(all, meta.NodeID(n))
	}
	return all
}

func play(tr *Tracker, words []string) {
	rest := nodes(strings.Join(words[1:], " "))
	switch words[0] {
	case "ack":
		var end seq.Offset
		fmt.Sscan(words[2], &end)
		tr.Ack(rest[0], end)
	case "propose":
		tr.Propose(rest)
	case "apply":
		tr.Apply(rest)
	case "require":
		var least int
		var start seq.Offset
		fmt.Sscan(words[1], &least)
		fmt.Sscan(words[2], &start)
		tr.Require(least, start)
	case "withdraw":
		tr.Withdraw()
	case "forget":
		tr.Forget(rest[0])
	}
}

// TestCommittedEndIsBounded checks the invariants of the package comment over
// random histories against the plainest possible reckoning.
func TestCommittedEndIsBounded(t *testing.T) {
	rng := testrand.New(t)
	all := nodes("n1 n2 n3 n4")
	for range 2000 {
		applied, pending := all[:1+rng.IntN(3)], []meta.NodeID(nil)
		acked := map[meta.NodeID]seq.Offset{}
		tr, committed := New(applied, 0), seq.Offset(0)
		for range 40 {
			switch n := all[rng.IntN(len(all))]; rng.IntN(6) {
			case 0:
				pending = all[:1+rng.IntN(4)]
				tr.Propose(pending)
			case 1:
				if pending != nil {
					applied, pending = pending, nil
					tr.Apply(applied)
				}
			case 2:
				delete(acked, n)
				tr.Forget(n)
			default:
				acked[n] = max(acked[n], seq.Offset(rng.IntN(100)))
				tr.Ack(n, acked[n])
			}
			if now := tr.Committed(); now < committed {
				t.Fatalf("committed end went from %d back to %d", committed, now)
			} else if now > committed {
				for _, m := range append(append([]meta.NodeID(nil), applied...), pending...) {
					if acked[m] < now {
						t.Fatalf("committed %d, but %s holds only %d", now, m, acked[m])
					}
				}
				committed = now
			}
		}
	}
}

func TestAckedReturnsLastAcknowledgement(t *testing.T) {
	tr := New(nodes("n1"), 0)
	if _, known := tr.Acked("n1"); known {
		t.Error("a member is known before it said anything")
	}
	tr.Ack("n1", 4)
	if end, known := tr.Acked("n1"); end != 4 || !known {
		t.Errorf("Acked = %d, %v; want 4, true", end, known)
	}
}
