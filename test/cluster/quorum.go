package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/test/wire"
)

// How long the cluster without a quorum is watched, and the time limit for a node's answer.
const (
	lostTime      = 6 * time.Second
	answerTimeout = 10 * time.Second
	aMinimum      = 50
)

// playQuorumLost kills two of three nodes. Operations that do not need the others must continue.
// Those that do must be refused with the reason.
func playQuorumLost(st *stage) {
	steps.Must(st.make("solo", map[string]any{"partitions": 1, "replicas": 1}, "c"))
	steps.Must(st.make("trio", map[string]any{"partitions": 1, "replicas": 3}))
	survivor := steps.Need(st.leader("solo", 0))
	steps.Must(publishUntilOK(survivor, "trio", time.Now().Add(answerTimeout)))
	others := others(st, survivor)
	steps.Must(st.kill(others...))
	st.wait(2 * time.Second) // longer than every lease
	steps.Must(errors.Join(soloGoesOn(st, survivor), publishRefused(st, survivor, "trio"), createRefuses(st), diagnosed(st, others)))
	steps.Must(errors.Join(st.kill(survivor), survivor.Start()))
	st.note("start %s alone", survivor.ID)
	steps.Must(errors.Join(diagnosed(st, others), st.start(others...), st.whole("trio")))
	steps.Must(errors.Join(publishUntilOK(survivor, "trio", time.Now().Add(answerTimeout)), st.identical("trio"), st.identical("solo")))
}

// diagnosed requires that a node without a quorum names the silent nodes to an operator.
func diagnosed(st *stage, silent []*nodes.Node) error {
	return await(st, answerTimeout, func(context.Context) error {
		var errs []error
		for _, n := range silent {
			errs = append(errs,
				brokerctlSays(st, 0, n.ID+"    down", "node", "list"),
				brokerctlSays(st, 0, n.ID+"    yes    no answer", "cluster", "raft"))
		}
		return errors.Join(append(errs,
			brokerctlSays(st, exitUnhealthy, fmt.Sprintf("nodes_silent     %d", len(silent)), "cluster", "health"),
			brokerctlSays(st, exitUnhealthy, "1/3 nodes", "cluster", "health"),
			brokerctlSays(st, 0, "1/3", "cluster", "info"),
			brokerctlSays(st, 0, "trio/0", "partition", "list"))...)
	})
}

// soloGoesOn publishes to and consumes from the partition whose only replica is on the survivor.
func soloGoesOn(st *stage, n *nodes.Node) error {
	pub, err := wire.Dial(n.TCP, wire.Options{ID: "producer", UserAgent: userAgent, Timeout: patience})
	if err != nil {
		return err
	}
	defer pub.Close()
	sub, err := wire.Dial(n.TCP, wire.Options{ID: "consumer", UserAgent: userAgent, Timeout: patience})
	if err != nil {
		return err
	}
	defer sub.Close()
	err = errors.Join(sub.Command("SUB", "solo", "c"), sub.Expect("OK"), sub.Command("RDY", "1"))
	if err != nil {
		return fmt.Errorf("subscription without a quorum: %w", err)
	}
	count := 0
	for end := time.Now().Add(lostTime); time.Now().Before(end) && st.ctx.Err() == nil; count++ {
		pub.Pub("solo", 0, []byte("message"))
		if err := pub.Expect("OK"); err != nil {
			return fmt.Errorf("publish %d to a partition on this node alone, without a quorum: %w", count, err)
		}
		kind, data, err := sub.Answer()
		if err != nil || kind != wire.FrameMessage {
			return fmt.Errorf("delivery %d of a partition on this node alone, without a quorum: %q, %w", count, data, err)
		}
		d, err := wire.ParseMessage(data)
		if err != nil {
			return err
		}
		if err := sub.Command("FIN", string(d.ID[:])); err != nil {
			return err
		}
	}
	st.note("%d messages without a quorum", count)
	st.say = append(st.say, fmt.Sprintf("%d messages without a quorum", count))
	if count < aMinimum {
		return fmt.Errorf("void: %d messages", count)
	}
	return nil
}

// publishRefused publishes to a partition that cannot accept it, and requires an error that says
// so.
func publishRefused(st *stage, n *nodes.Node, topic string) error {
	c, err := wire.Dial(n.TCP, wire.Options{ID: "producer", UserAgent: userAgent, Timeout: answerTimeout})
	if err != nil {
		return err
	}
	defer c.Close()
	began := time.Now()
	c.Pub(topic, 0, []byte("message"))
	kind, data, err := c.Exchange()
	if err != nil {
		return fmt.Errorf("a publish to %s, which cannot take it, is not answered: %w", topic, err)
	}
	if kind != wire.FrameError || len(strings.Fields(string(data))) < 2 {
		return fmt.Errorf("a publish to %s, which cannot take it, is answered with %q", topic, data)
	}
	st.note("refused after %v: %s", time.Since(began).Round(time.Millisecond), data)
	return nil
}

// createRefuses sends requests that need the metadata.
func createRefuses(st *stage) error {
	err := st.c.CreateTopic(st.ctx, "late", nil)
	if _, ok := errors.AsType[*nodes.StatusError](err); !ok {
		return fmt.Errorf("a topic was created without a quorum, or the refusal does not say why: %w", err)
	}
	st.note("refused: %v", err)
	return nil
}

// publishUntilOK publishes one message, and repeats that until it succeeds or the time has passed.
func publishUntilOK(n *nodes.Node, topic string, until time.Time) error {
	var err error
	for time.Now().Before(until) {
		if err = publishAll(n, topic, "message", 1); err == nil {
			return nil
		}
	}
	return fmt.Errorf("publishing to %s: %w", topic, err)
}

// Limits for five topics at once: the aim, and what a busy machine may need.
const (
	topicsAtOnce  = 5
	writableLimit = 3 * time.Second
)

// playFiveTopics creates topics at once and measures the time until all accept a message.
func playFiveTopics(st *stage) {
	began := time.Now()
	errs := make([]error, topicsAtOnce)
	var wg sync.WaitGroup
	for i := range topicsAtOnce {
		wg.Go(func() {
			name := fmt.Sprintf("five%d", i)
			ctx, cancel := context.WithTimeout(st.ctx, answerTimeout)
			defer cancel()
			if err := st.c.CreateTopic(ctx, name, map[string]any{"partitions": 1, "replicas": 3}); err != nil {
				errs[i] = err
				return
			}
			errs[i] = publishUntilOK(st.c.Nodes[i%len(st.c.Nodes)], name, time.Now().Add(answerTimeout))
		})
	}
	wg.Wait()
	took := time.Since(began)
	st.say = append(st.say, fmt.Sprintf("all writable after %v", took.Round(time.Millisecond)))
	if took > writableLimit {
		errs = append(errs, fmt.Errorf("all were writable after %v; the maximum is %v", took, writableLimit))
	}
	steps.Must(errors.Join(errs...))
}
