package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
)

// How a node is starved: it is stopped and resumed in turn, each for a random time up to these.
const (
	starvedTime = 20 * time.Second
	runsFor     = 80 * time.Millisecond
	stopsFor    = 350 * time.Millisecond
	// electionsBorne is how many changes of the metadata's leader there may be in that time. A node
	// that mistakes its own pauses for silence of the others would see dead leaders all the time.
	electionsBorne = 6
)

// playStarved gives all nodes little processor time: they run late, but none is dead.
func playStarved(st *stage) {
	before := steps.Need(counted(st, "brokerd_raft_term"))
	st.disturb("starve all nodes for %v", starvedTime)
	errs := make([]error, len(st.c.Nodes))
	var wg sync.WaitGroup
	for i, n := range st.c.Nodes {
		rng := rand.New(rand.NewPCG(st.o.seed, uint64(100+i)))
		wg.Go(func() { errs[i] = starve(st, n, rng) })
	}
	wg.Wait()
	steps.Must(errors.Join(errs...))
	st.note("they run unsynchronized")
	steps.Must(st.recovered())
	after := steps.Need(counted(st, "brokerd_raft_term"))
	elections := (after - before) / len(st.c.Nodes)
	st.say = append(st.say, fmt.Sprintf("%d elections", elections))
	if elections > electionsBorne {
		steps.Fail("the metadata leader changed %d times in %v, the maximum is %d", elections, starvedTime, electionsBorne)
	}
}

// starve stops and continues a node repeatedly.
func starve(st *stage, n *nodes.Node, rng *rand.Rand) error {
	for end := time.Now().Add(starvedTime); time.Now().Before(end) && st.ctx.Err() == nil; {
		if err := n.Pause(); err != nil {
			return err
		}
		st.wait(time.Duration(rng.Int64N(int64(stopsFor))))
		if err := n.Resume(); err != nil {
			return err
		}
		st.wait(time.Duration(rng.Int64N(int64(runsFor))))
	}
	return nil
}
