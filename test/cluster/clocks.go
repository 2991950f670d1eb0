package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
)

const (
	// clockLimit is from how far on a node whose clock is off does not lead.
	clockLimit = time.Minute
	// clockMessages is how many messages are published before each restart.
	clockMessages = 50
	// livesFor is their time to live.
	livesFor = time.Hour
)

// installClocks installs the program whose wall clock can be set on all nodes.
func installClocks(st *stage, o *nodes.Options) error {
	o.Program = st.o.clocks
	return nil
}

// playClocks restarts nodes with other wall clocks, one at a time and all at once, by SIGTERM and by kill -9: one
// clock is off, and most are right. No message expires, neither in partitions that only this node can lead, health
// names the node and by how much it is off, and one that is off by over a minute leads nothing once another can.
func playClocks(st *stage) {
	steps.Must(st.make("lives", map[string]any{"partitions": 3, "replicas": 3, "min_isr": 2, "ttl_ms": livesFor.Milliseconds()}, "c"))
	want := map[string]int{}
	for round, off := range []time.Duration{2 * time.Hour, -2 * time.Hour, 72 * time.Hour, 20 * time.Second} {
		single, kind := fmt.Sprint("single", round), fmt.Sprint("round", round)
		steps.Must(st.make(single, map[string]any{"partitions": 1, "replicas": 1, "min_isr": 1, "ttl_ms": livesFor.Milliseconds()}, "c"))
		n := steps.Need(st.leader(single, 0))
		steps.During(fmt.Sprintf("round %d: the clock of %s is %v ahead", round, n.ID, off), func() {
			steps.Must(errors.Join(publishAll(n, single, kind, clockMessages), publishAll(st.other(n), "lives", kind, clockMessages)))
			want[kind] = clockMessages
			steps.Must(restartAt(st, n, off, round == 2))
			steps.Must(errors.Join(st.whole("lives"), exactly(st, single, map[string]int{kind: clockMessages})))
			steps.Must(skewReported(st, n.ID, off))
			if off.Abs() > clockLimit {
				steps.Must(await(st, healTimeout, func(ctx context.Context) error { return leadsNothing(ctx, st, n) }))
			}
			steps.Must(restartAt(st, n, 0, false))
			steps.Must(errors.Join(st.whole("lives"), healthyAgain(st)))
		})
	}
	steps.Must(atLeast(st, "lives", want))
	st.say = append(st.say, fmt.Sprintf("%d restarts with another clock, %d messages", len(want), 2*len(want)*clockMessages))
}

// restartAt restarts a node with a wall clock that is off, or all at the same time.
func restartAt(st *stage, n *nodes.Node, ahead time.Duration, together bool) error {
	file := filepath.Join(st.dir, n.ID+".clock")
	if err := os.WriteFile(file, []byte(ahead.String()), 0o600); err != nil {
		return err
	}
	n.Env = []string{"FAKECLOCK=" + file}
	these := []*nodes.Node{n}
	if together {
		these = st.c.Nodes
	}
	if together || st.rng.IntN(2) == 0 {
		return errors.Join(st.kill(these...), st.start(these...))
	}
	st.disturb("SIGTERM %s, and start with a clock that is %v ahead", n.ID, ahead)
	return errors.Join(n.End(syscall.SIGTERM), st.start(n))
}

// skewReported waits until the health names the node and says by how much its clock is off.
func skewReported(st *stage, id string, off time.Duration) error {
	return await(st, healTimeout, func(context.Context) error {
		s, err := operate(st, "cluster", "health", "-o", "json")
		if err != nil {
			return err
		}
		how := "ahead of"
		if off < 0 {
			how = "behind"
		}
		if !strings.Contains(s.out, `"clock_skew"`) || !strings.Contains(s.out, how) || !strings.Contains(s.out, id) {
			return fmt.Errorf("%s is %v off, and health says %s%s", id, off, s.out, s.err)
		}
		return nil
	})
}

// leadsNothing returns an error if a node leads a partition.
func leadsNothing(ctx context.Context, st *stage, n *nodes.Node) error {
	t, err := st.c.Topic(ctx, "lives")
	if err != nil {
		return err
	}
	for i, p := range t.Partitions {
		if p.Leader == n.ID {
			return fmt.Errorf("%s, whose clock is off, leads partition %d", n.ID, i)
		}
	}
	return nil
}
