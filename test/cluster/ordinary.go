package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/test/wire"
)

// Scenarios of ordinary operation: topics without messages, clusters that grow, topics that are
// created while a node drains, nodes with different limits.

// maxEpochs is how many leaderships an empty partition may have in a restart of all nodes.
const maxEpochs = 5

// healthyAgain waits until the cluster reports no problem.
func healthyAgain(st *stage) error {
	return await(st, healTimeout, func(context.Context) error { return brokerctl(st, "cluster", "health", "-q") })
}

// takenEverywhere publishes to a topic through every node that runs.
func takenEverywhere(st *stage, name string) error {
	for _, n := range st.c.Nodes {
		if !n.Running() {
			continue
		}
		if err := publishUntilOK(n, name, time.Now().Add(answerTimeout)); err != nil {
			return fmt.Errorf("at %s: %w", n.ID, err)
		}
	}
	return nil
}

// playEmptyRestart restarts all nodes, cleanly and by kill -9, while topics have no messages and no
// channels. They must be healthy and accept publishes, and their leaders must not keep changing.
func playEmptyRestart(st *stage) {
	all := st.c.Nodes
	for _, down := range []struct {
		name string
		how  func() error
	}{
		{"stopped", func() error { st.note("SIGTERM all"); return st.c.Stop() }},
		{"killed", func() error { return st.kill(all...) }},
	} {
		steps.Must(st.make(down.name, map[string]any{"partitions": len(all), "replicas": len(all)}))
		steps.Must(errors.Join(down.how(), st.start(all...)))
		if err := errors.Join(st.whole(down.name), healthyAgain(st), takenEverywhere(st, down.name)); err != nil {
			steps.Fail("empty partitions, all nodes %s: %w", down.name, err)
		}
		t := steps.Need(st.c.Topic(st.ctx, down.name))
		for _, p := range t.Partitions {
			if p.Epoch > maxEpochs {
				steps.Fail("empty partition %d, all nodes %s: it is in epoch %d", p.Partition, down.name, p.Epoch)
			}
		}
		steps.Must(st.identical(down.name))
	}
}

// startAlone makes all nodes but the first join the first.
func startAlone(_ *stage, o *nodes.Options) error {
	first := o.Nodes[0].Cluster
	o.ArgsOf = func(id string) []string {
		if id == "n1" {
			return nil
		}
		return []string{"--join", first}
	}
	return nil
}

// playGrowFromOne creates topics on one node, and adds two nodes. A topic without a replica count
// must get three copies, a topic with one must keep it, and the loss of the first node must lose no
// messages.
func playGrowFromOne(st *stage) {
	first := st.c.Nodes[0]
	for _, name := range []string{"open", "named"} {
		config := map[string]any{"partitions": 2}
		if name == "named" {
			config["replicas"] = 1
		}
		steps.Must(errors.Join(st.make(name, config, "c"), publishAll(first, name, "before", aMinimum)))
	}
	for range 2 {
		steps.Need(grow(st))
	}
	steps.Must(replicas(st, "open", 3))
	steps.Must(errors.Join(healthyAgain(st), replicas(st, "named", 1), allVote(st), st.kill(first)))
	steps.Must(othersLead(st, "open", first))
	steps.Must(publishAll(st.c.Nodes[1], "open", "after", aMinimum))
	steps.Must(st.start(first))
	steps.Must(errors.Join(st.whole("open"), atLeast(st, "open", map[string]int{"before": aMinimum, "after": aMinimum}), st.identical("open")))
}

// allVote waits until all nodes have a vote: a node that joins gets it some seconds later.
func allVote(st *stage) error {
	return await(st, healTimeout, func(ctx context.Context) error {
		info, err := st.c.Info(ctx)
		if err != nil {
			return err
		}
		for _, n := range info.Nodes {
			if !n.Voter {
				return fmt.Errorf("%s has no vote", n.ID)
			}
		}
		return nil
	})
}

// replicas waits until all partitions of a topic have n copies in sync.
func replicas(st *stage, name string, want int) error {
	return awaitTopic(st, healTimeout, name, func(t nodes.Topic) error {
		for _, p := range t.Partitions {
			if len(p.Replicas) != want || len(p.ISR) != want {
				return fmt.Errorf("partition %d of %s: of %v are in sync %v, want %d", p.Partition, name, p.Replicas, p.ISR, want)
			}
		}
		return nil
	})
}

// playDrainCreate creates a topic of three copies while one of three nodes drains, and then stops
// that node and starts it again.
func playDrainCreate(st *stage) {
	n := st.other()
	steps.Must(brokerctl(st, "node", "drain", n.ID, "--stopping", "--wait"))
	steps.Must(st.make("made", map[string]any{"partitions": 3, "replicas": 3}))
	steps.Must(errors.Join(takenEverywhere(st, "made"), stop(st, n), takenEverywhere(st, "made")))
	steps.Must(errors.Join(st.start(n), brokerctl(st, "node", "undrain", n.ID)))
	steps.Must(errors.Join(st.whole("made"), healthyAgain(st), takenEverywhere(st, "made"), st.identical("made")))
}

// playTwoNodes stops one of two nodes cleanly: publishing must continue, and the cluster must
// report that it tolerates no failure.
func playTwoNodes(st *stage) {
	steps.Must(errors.Join(st.make("pair", map[string]any{"partitions": 1}, "c"), replicas(st, "pair", 2)))
	stays, goes := st.c.Nodes[0], st.c.Nodes[1]
	steps.Must(errors.Join(healthyAgain(st), publishAll(stays, "pair", "both", aMinimum), brokerctlSays(st, 0, "two_voters", "cluster", "health")))
	steps.Must(errors.Join(stop(st, goes), publishAll(stays, "pair", "one", aMinimum), st.start(goes)))
	steps.Must(errors.Join(st.whole("pair"), atLeast(st, "pair", map[string]int{"both": aMinimum, "one": aMinimum}), st.identical("pair")))
}

// Bodies that playLimits publishes.
const (
	largeBody  = 12 << 20 // only the first node accepts it from a client
	largeBatch = 70 << 20 // the same; replicas send less at once
	smallBody  = 100 << 10
	openBy     = "outcome unknown" // the outcome on a busy machine that takes long; in the end all replicas hold the batch
)

// limitsDiffer gives the first node the largest possible limits and the second the smallest, and
// does not change the other nodes.
func limitsDiffer(_ *stage, o *nodes.Options) error {
	o.ArgsOf = func(id string) []string {
		switch id {
		case "n1":
			return []string{"--max-msg-size", "64MiB", "--max-body-size", "128MiB"}
		case "n2":
			return []string{"--max-msg-size", "64KiB", "--max-body-size", "128KiB"}
		}
		return nil
	}
	return nil
}

// playLimits publishes at one node messages that the others would accept from no client: to the
// partitions of all leaders, and the largest body to the partition of the node with the smallest
// limits. All replicas must hold what the node accepted, and continue.
func playLimits(st *stage) {
	steps.Must(st.make("large", map[string]any{"partitions": 3, "replicas": 3}))
	large, small := st.c.Nodes[0], st.c.Nodes[1]
	batch := make([][]byte, 5)
	for i := range batch {
		batch[i] = bytes.Repeat([]byte{byte('a' + i)}, largeBatch/len(batch))
	}
	t := steps.Need(st.c.Topic(st.ctx, "large"))
	largest := false
	for _, p := range t.Partitions {
		to := fmt.Sprintf("large %d", p.Partition)
		err := answered(large, func(c *wire.Client) { c.Pub(to, 0, bytes.Repeat([]byte("x"), largeBody)) }, "OK", openBy)
		if err == nil && p.Leader == small.ID {
			err, largest = answered(large, func(c *wire.Client) { c.MPub(to, batch) }, "OK", openBy), true
		}
		if err != nil {
			steps.Fail("at the node with large limits, led by %s: %w", p.Leader, err)
		}
	}
	if !largest {
		steps.Fail("void: the node with small limits leads nothing")
	}
	if err := answered(small, func(c *wire.Client) { c.Pub("large", 0, make([]byte, smallBody)) }, "E_BAD_MESSAGE"); err != nil {
		steps.Fail("at the node with small limits: %w", err)
	}
	steps.Must(errors.Join(takenEverywhere(st, "large"), st.whole("large"), healthyAgain(st), st.identical("large")))
}

// answered demands an answer that contains one of these texts.
func answered(n *nodes.Node, send func(*wire.Client), texts ...string) error {
	c, err := wire.Dial(n.TCP, wire.Options{ID: "producer", UserAgent: userAgent, Timeout: drainTimeout})
	if err != nil {
		return err
	}
	defer c.Close()
	send(c)
	_, data, err := c.Exchange()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(string(data), text) }) {
		return fmt.Errorf("%q is answered, not %q", data, texts)
	}
	return nil
}
