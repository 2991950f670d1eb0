package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
)

// operateTimeout bounds one command of an operator, which may wait for its work to end.
const operateTimeout = 40 * time.Second

// Exit statuses of brokerctl, as docs/brokerctl.md lists them.
const (
	exitNotFound    = 3
	exitUnavailable = 6 // no node answered in time, or the outcome is not known
)

// said is the output of a command and its exit status.
type said struct {
	command  string
	out, err string
	exit     int
}

// ended returns an error unless the command ended with this exit status.
func (s said) ended(exit int) error {
	if s.exit == exit {
		return nil
	}
	err := fmt.Errorf("%s ended with %d instead of %d: %s%s", s.command, s.exit, exit, s.out, s.err)
	if s.exit == exitUnavailable { // no node answered in time
		return &nodes.Late{Err: err}
	}
	return err
}

// operate runs brokerctl with the addresses of all nodes and without a terminal. The command may
// be refused. The error means that it could not be run.
func operate(st *stage, args ...string) (said, error) {
	ctx, cancel := context.WithTimeout(st.ctx, operateTimeout)
	defer cancel()
	return operateWithin(ctx, st, args...)
}

// operateWithin is operate for a command that may take until ctx ends.
func operateWithin(ctx context.Context, st *stage, args ...string) (said, error) {
	s := said{command: "brokerctl " + strings.Join(args, " ")}
	var addresses []string
	for _, n := range st.c.Nodes {
		if n.Running() {
			addresses = append(addresses, "http://"+n.HTTP)
		}
	}
	st.note("%s", s.command)
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(st.o.broker), "brokerctl"), args...)
	cmd.Env = append(os.Environ(), "BROKERCTL_ADDR="+strings.Join(addresses, ","))
	cmd.WaitDelay = time.Second // a process that it started may hold its output open
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	s.out, s.err, s.exit = out.String(), stderr.String(), cmd.ProcessState.ExitCode()
	if ctx.Err() != nil {
		return s, &nodes.Late{Err: fmt.Errorf("%s does not end: %w\n%s%s", s.command, context.Cause(ctx), s.out, s.err)}
	}
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		return s, fmt.Errorf("%s: %w (make build)", s.command, err)
	}
	return s, nil
}

// brokerctl runs brokerctl, which must succeed.
func brokerctl(st *stage, args ...string) error {
	s, err := operate(st, args...)
	if err != nil {
		return err
	}
	return s.ended(0)
}

// grow starts one more node.
func grow(st *stage) (*nodes.Node, error) {
	at, err := st.o.ports.Free(1)
	if err != nil {
		return nil, err
	}
	fresh := st.c.Grow(at[0])
	return fresh, st.start(fresh)
}

// withoutReplicas waits until no partition of the topic has a replica on a node. The node that
// answers may learn of the last move later than the node that answered brokerctl.
func withoutReplicas(st *stage, n *nodes.Node) error {
	return awaitTopic(st, moveTimeout, topic, func(t nodes.Topic) error {
		for _, p := range t.Partitions {
			if slices.Contains(p.Replicas, n.ID) {
				return fmt.Errorf("partition %d is on %v, including %s, which must hold no replica", p.Partition, p.Replicas, n.ID)
			}
		}
		return nil
	})
}

// remove removes a node, which may have led the metadata. A command whose outcome was unknown may
// have removed it already.
func remove(st *stage, n *nodes.Node) error {
	tries := 0
	return await(st, moveTimeout, func(context.Context) error {
		tries++
		s, err := operate(st, "node", "remove", n.ID, "--yes")
		if err != nil || tries > 1 && s.exit == exitNotFound {
			return err
		}
		return s.ended(0)
	})
}

// unlisted waits until a node is no member of the cluster any more.
func unlisted(st *stage, n *nodes.Node) error {
	return await(st, moveTimeout, func(ctx context.Context) error {
		info, err := st.c.Info(ctx)
		if err != nil {
			return err
		}
		for _, member := range info.Nodes {
			if member.ID == n.ID {
				return fmt.Errorf("%s was removed and is still listed as %s", n.ID, member.State)
			}
		}
		return nil
	})
}

// removedStatus is the exit status of a node that is removed while it runs: no supervisor should
// start it again.
const removedStatus = "exit status 78"

// retire moves everything away from a node, which may be dead, and removes the node. A node that is
// alive is stopped before if no publish may fail. Otherwise it ends because it was removed.
func retire(st *stage, n *nodes.Node) {
	steps.Must(brokerctl(st, "node", "decommission", n.ID, "--yes", "--wait"))
	steps.Must(withoutReplicas(st, n))
	if n.Running() && st.s.graceful {
		steps.Must(n.Stop())
	}
	alive := n.Running()
	steps.Must(remove(st, n))
	select {
	case <-n.Exited():
	case <-time.After(moveTimeout):
		steps.Must(&nodes.Late{Err: fmt.Errorf("%s was removed and continues to run", n.ID)})
	}
	if alive && n.How() != removedStatus {
		steps.Fail("%s was removed and ended with %s instead of %s", n.ID, n.How(), removedStatus)
	}
	steps.Must(unlisted(st, n))
}

// fiveNodes has two of five nodes down at once. One is started again. The other is lost
// permanently, and a new node replaces it.
func fiveNodes(st *stage) {
	var down []*nodes.Node
	for range 2 {
		n := steps.Need(partitionLeader(st))
		steps.Must(st.kill(n))
		down = append(down, n)
		steps.Must(othersLead(st, topic, n))
		st.wait(st.random())
	}
	steps.Must(st.start(down[0]))
	fresh := steps.Need(grow(st))
	retire(st, down[1])
	steps.Must(await(st, healTimeout, func(ctx context.Context) error {
		info, err := st.c.Info(ctx)
		if err != nil {
			return err
		}
		for _, n := range info.Nodes {
			if n.ID == fresh.ID && !n.Voter {
				return fmt.Errorf("%s was not promoted in place of %s", fresh.ID, down[1].ID)
			}
		}
		return nil
	}))
}

// othersLead waits until other nodes lead the partitions of a topic that a lost node led.
func othersLead(st *stage, name string, gone *nodes.Node) error {
	return awaitTopic(st, moveTimeout, name, func(t nodes.Topic) error {
		for _, p := range t.Partitions {
			if p.Leader == gone.ID || p.Leader == "" {
				return fmt.Errorf("partition %d is led by %q", p.Partition, p.Leader)
			}
		}
		return nil
	})
}

// membership adds and removes nodes of a cluster while it works.
func membership(st *stage) {
	n := steps.Need(partitionLeader(st))
	upgrade(st, n)
	steps.Must(brokerctl(st, "topic", "add-partitions", topic, "--partitions", fmt.Sprint(partitions+2)))
	fresh := steps.Need(grow(st))
	leader := steps.Need(partitionLeader(st))
	onto := []string{fresh.ID, leader.ID, st.other(fresh, leader).ID}
	steps.Must(brokerctl(st, "partition", "move", topic+"/0", "--replicas", strings.Join(onto, ","), "--yes", "--wait"))
	t := steps.Need(st.c.Topic(st.ctx, topic))
	if len(t.Partitions) != partitions+2 || !slices.Equal(t.Partitions[0].Replicas, onto) {
		steps.Fail("the first of %d partitions is on %v instead of %v", len(t.Partitions), t.Partitions[0].Replicas, onto)
	}
	steps.Must(st.whole(topic))
	retire(st, st.other(fresh))
}

// upgrade restarts a node as described in the manual.
func upgrade(st *stage, n *nodes.Node) {
	steps.Must(brokerctl(st, "node", "drain", n.ID, "--stopping", "--wait"))
	steps.Must(othersLead(st, topic, n))
	steps.Must(errors.Join(stop(st, n), st.start(n), brokerctl(st, "node", "undrain", n.ID)))
	steps.Must(healthyAgain(st))
}
