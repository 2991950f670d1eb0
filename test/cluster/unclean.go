package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/test/wire"
)

// How many messages are published while both replicas run, while one runs, and after the election.
const (
	uncleanBoth  = 40
	uncleanOne   = 25
	uncleanAfter = 30
)

// Exit statuses of brokerctl.
const (
	exitUsage     = 2
	exitRefused   = 4
	exitUnhealthy = 10
)

// playUnclean loses the only replica that is in sync, once together with its disk and once without.
// The operator then elects the other one.
func playUnclean(st *stage) {
	st.say = append(st.say, fmt.Sprintf("two elections, each with the loss of %d messages", uncleanOne))
	for i, wipe := range []bool{true, false} {
		steps.During(fmt.Sprintf("round %d", i+1), func() { playLastCopy(st, fmt.Sprintf("unclean%d", i), wipe) })
	}
}

// playLastCopy kills the leader of a partition whose other replica lacks some messages.
func playLastCopy(st *stage, name string, wipe bool) {
	steps.Must(st.make(name, map[string]any{"partitions": 1, "replicas": 2, "min_isr": 1}, "c"))
	leader, follower, err := pair(st, name)
	steps.Must(err)
	steps.Must(publishAll(leader, name, "both", uncleanBoth))
	steps.Must(errors.Join(st.kill(follower), onlyInSync(st, name, leader), publishAll(leader, name, "one", uncleanOne), st.kill(leader)))
	steps.Must(st.start(follower))
	if wipe {
		steps.Must(errors.Join(leader.Wipe(), publishRefused(st, follower, name)))
	}
	electUnclean(st, name, leader, follower)
	steps.Must(errors.Join(publishAll(follower, name, "after", uncleanAfter), st.start(leader), st.whole(name)))
	steps.Must(errors.Join(exactly(st, name, map[string]int{"both": uncleanBoth, "after": uncleanAfter}), st.identical(name)))
}

// pair returns the leader and the follower of a partition with two replicas.
func pair(st *stage, name string) (leader, follower *nodes.Node, err error) {
	t, err := st.c.Topic(st.ctx, name)
	if err != nil {
		return nil, nil, err
	}
	p := t.Partitions[0]
	if len(p.Replicas) != 2 {
		return nil, nil, fmt.Errorf("%s is on %v instead of two nodes", name, p.Replicas)
	}
	other := p.Replicas[0]
	if other == p.Leader {
		other = p.Replicas[1]
	}
	return st.c.Node(p.Leader), st.c.Node(other), nil
}

// onlyInSync waits until a node is the only one in sync.
func onlyInSync(st *stage, name string, n *nodes.Node) error {
	return awaitTopic(st, moveTimeout, name, func(t nodes.Topic) error {
		if isr := t.Partitions[0].ISR; len(isr) != 1 || isr[0] != n.ID {
			return fmt.Errorf("%v are in sync", isr)
		}
		return nil
	})
}

// electUnclean follows the manual: a partition whose in-sync replica is lost stays offline until an
// operator elects another replica. The command reports the loss.
func electUnclean(st *stage, name string, gone, left *nodes.Node) {
	partition := name + "/0"
	steps.Must(await(st, moveTimeout, func(context.Context) error {
		return brokerctlSays(st, exitUnhealthy, "partitions_offline", "cluster", "health")
	}))
	before := steps.Need(counted(st, uncleanElections))
	steps.Must(errors.Join(
		brokerctlSays(st, exitRefused, "", "partition", "elect", partition),
		brokerctlSays(st, exitUsage, "held only by "+gone.ID, "partition", "elect", partition, "--unclean", "--to", left.ID),
		brokerctlSays(st, exitUnhealthy, "partitions_offline", "cluster", "health"),
		brokerctlSays(st, 0, left.ID, "partition", "elect", partition, "--unclean", "--to", left.ID, "--yes")))
	if after := steps.Need(counted(st, uncleanElections)); after != before+1 {
		steps.Fail("%s went from %d to %d", uncleanElections, before, after)
	}
}

// brokerctlSays runs brokerctl and demands an exit status and a text of it.
func brokerctlSays(st *stage, exit int, text string, args ...string) error {
	s, err := operate(st, args...)
	if err != nil {
		return err
	}
	if err := s.ended(exit); err != nil {
		return err
	}
	if !strings.Contains(s.out+s.err, text) {
		return fmt.Errorf("%s does not say %q: %s%s", s.command, text, s.out, s.err)
	}
	return nil
}

// publishAll publishes count messages that begin with what, and waits for the acknowledgement of
// each. None may be refused.
func publishAll(n *nodes.Node, name, what string, count int) error {
	c, err := wire.Dial(n.TCP, wire.Options{ID: "producer", UserAgent: userAgent, Timeout: answerTimeout})
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range count {
		c.Pub(name, 0, fmt.Appendf(nil, "%s %d", what, i))
		if err := c.Expect("OK"); err != nil {
			return fmt.Errorf("%q, message %d: %w", what, i, err)
		}
	}
	return nil
}

// exactly consumes all messages of a topic. It requires the given number of messages of each kind,
// in the order in which they were published, and no others.
func exactly(st *stage, name string, want map[string]int) error {
	got := map[string]int{}
	came, all := 0, 0
	for _, n := range want {
		all += n
	}
	err := consumeAll(st, name, func() bool { return came < all }, func(body string) error {
		what, _, _ := strings.Cut(body, " ")
		if text := fmt.Sprintf("%s %d", what, got[what]); text != body || got[what] >= want[what] {
			return fmt.Errorf("%q was delivered after %v", body, got)
		}
		got[what]++
		came++
		return nil
	})
	if err != nil {
		return err
	}
	for what, n := range want {
		if got[what] != n {
			return fmt.Errorf("received %d messages of %q instead of %d", got[what], what, n)
		}
	}
	st.note("%v came", got)
	return nil
}

// maxReconnects is how often the consumer of consumeAll may be disconnected: the broker disconnects
// it when the node that it is connected to stops leading, as in a repair of a damaged log.
const maxReconnects = 5

// consumeAll consumes a topic's channel c: it passes the bodies of all messages to take, and
// finishes them. It ends when no message has arrived for a while. It waits longer while some are
// owed: a node that has just started may need a moment to get messages of partitions that others
// lead. It reconnects when the broker disconnects it, like client libraries.
func consumeAll(st *stage, name string, owed func() bool, take func(body string) error) error {
	for reconnects := 0; ; reconnects++ {
		c, err := dialConsumer(st, name)
		if err != nil {
			return err
		}
		err = consumeFrom(c, owed, take)
		c.Close()
		if !disconnected(err) || reconnects == maxReconnects {
			return err
		}
		st.note("the consumer was disconnected: %v", err)
	}
}

// disconnected reports whether the broker has closed a connection.
func disconnected(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// consumeFrom is consumeAll on one connection.
func consumeFrom(c *wire.Client, owed func() bool, take func(body string) error) error {
	for {
		deadline := time.Now().Add(settleTime)
		if owed() {
			deadline = time.Now().Add(moveTimeout)
		}
		kind, data, err := c.AnswerBefore(deadline)
		if errors.Is(err, wire.ErrQuiet) {
			return nil
		}
		if err != nil {
			return err
		}
		if kind == wire.FrameError && bytes.HasPrefix(data, []byte("E_FIN_FAILED")) {
			continue // the leadership has moved: the message is delivered again
		}
		if kind != wire.FrameMessage {
			return fmt.Errorf("a consumer received %q instead of a message", data)
		}
		d, err := wire.ParseMessage(data)
		if err != nil {
			return err
		}
		if err := errors.Join(take(string(d.Body)), c.Command("FIN", string(d.ID[:]))); err != nil {
			return err
		}
	}
}

// dialConsumer opens a connection and subscribes it to a topic's channel c. It repeats that while the leadership moves.
func dialConsumer(st *stage, name string) (c *wire.Client, err error) {
	err = await(st, answerTimeout, func(context.Context) error {
		c, err = wire.Dial(st.c.Nodes[0].TCP, wire.Options{ID: "consumer", UserAgent: userAgent, Timeout: answerTimeout})
		if err != nil {
			return err
		}
		err = errors.Join(c.Command("SUB", name, "c"), c.Expect("OK"), c.Command("RDY", "1"))
		if err != nil {
			c.Close()
		}
		return err
	})
	return c, err
}

// uncleanElections is the metric of an alert.
const uncleanElections = "brokerd_unclean_elections_total"

// counted returns the sum of a counter over all running nodes.
func counted(st *stage, metric string) (int, error) {
	sum := 0
	for _, n := range st.c.Nodes {
		if !n.Running() {
			continue
		}
		text, err := n.Fetch(st.ctx, http.MethodGet, "/metrics", nil)
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			value := 0
			if _, err := fmt.Sscanf(line, metric+" %d", &value); err == nil {
				sum += value
			}
		}
	}
	return sum, nil
}
