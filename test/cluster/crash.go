package main

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/test/traffic"
)

// How the only node is killed, and what a kill may undo.
const (
	minLifetime = 400 * time.Millisecond // from serving to the kill
	maxLifetime = 2400 * time.Millisecond
	maxRecovery = 120 * time.Millisecond // from the start to a kill that is meant to hit the recovery
	crashAcks   = 100                    // a run with fewer acknowledgements a round is void
	forgetEvery = 8                      // rounds
	// crashWindow is how long before a kill a FIN may have been sent and be forgotten, while the
	// machine does not stall.
	crashWindow = 600 * time.Millisecond
)

// crash kills a node that is alone, repeatedly. The audit knows each process of it and the kill that
// ended it, so that no redelivery passes for a move to another node.
func crash(st *stage) {
	var stalls nodes.Stalls
	probe := traffic.Hire(1, func(ctx context.Context, _ int) {
		if err := stalls.Watch(ctx, filepath.Join(st.dir, "probe")); err != nil {
			st.l.Tell(func(a *audit.Audit, now time.Duration) { a.Complain(now, err.Error()) })
		}
	})
	defer probe.Dismiss()
	n, early := st.c.Nodes[0], false
	for round := 1; round <= st.o.rounds; round++ {
		life := minLifetime + time.Duration(st.rng.Int64N(int64(maxLifetime-minLifetime)))
		if early {
			life = time.Duration(st.rng.Int64N(int64(maxRecovery)))
		}
		st.wait(life)
		st.note("kill -9 in round %d", round)
		stall := stalls.Take()
		st.l.Tell(func(a *audit.Audit, now time.Duration) {
			a.Kill(now, round, stall)
			if round%forgetEvery == 0 {
				a.Forget(now)
			}
		})
		steps.Must(n.End(syscall.SIGKILL))
		st.l.round.Store(int64(round + 1))
		start := func() error { return st.start(n) }
		if early = round < st.o.rounds && st.rng.IntN(10) == 0; early {
			start = n.Start
		}
		steps.Must(start())
	}
	s := st.l.Stats()
	st.say = append(st.say, fmt.Sprintf("%d kills, longest stall of the machine %v", s.Kills, s.Stall.Round(time.Millisecond)))
	if s.Acked < crashAcks*st.o.rounds {
		steps.Fail("void: %d publishes acknowledged in %d rounds, the minimum is %d per round", s.Acked, st.o.rounds, crashAcks)
	}
}
