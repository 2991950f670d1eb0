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
func retire(st *stage, n *nodes.Node) error {
	if err := brokerctl(st, "node", "decommission", n.ID, "--yes", "--wait"); err != nil {
		return err
	}
	if err := withoutReplicas(st, n); err != nil {
		return err
	}
	if n.Running() && st.s.graceful {
		if err := n.Stop(); err != nil {
			return err
		}
	}
	alive := n.Running()
	if err := remove(st, n); err != nil {
		return err
	}
	select {
	case <-n.Exited():
	case <-time.After(moveTimeout):
		return &nodes.Late{Err: fmt.Errorf("%s was removed and continues to run", n.ID)}
	}
	if alive && n.How() != removedStatus {
		return fmt.Errorf("%s was removed and ended with %s instead of %s", n.ID, n.How(), removedStatus)
	}
	return unlisted(st, n)
}

// fiveNodes has two of five nodes down at once. One is started again. The other is lost
// permanently, and a new node replaces it.
func fiveNodes(st *stage) error {
	var down []*nodes.Node
	for range 2 {
		n, err := partitionLeader(st)
		if err != nil {
			return err
		}
		if err := st.kill(n); err != nil {
			return err
		}
		down = append(down, n)
		if err := othersLead(st, topic, n); err != nil {
			return err
		}
		st.wait(st.random())
	}
	if err := st.start(down[0]); err != nil {
		return err
	}
	fresh, err := grow(st)
	if err != nil {
		return err
	}
	if err := retire(st, down[1]); err != nil {
		return err
	}
	return await(st, healTimeout, func(ctx context.Context) error {
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
	})
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
func membership(st *stage) error {
	n, err := partitionLeader(st)
	if err != nil {
		return err
	}
	if err := upgrade(st, n); err != nil {
		return err
	}
	if err := brokerctl(st, "topic", "add-partitions", topic, "--partitions", fmt.Sprint(partitions+2)); err != nil {
		return err
	}
	fresh, err := grow(st)
	if err != nil {
		return err
	}
	leader, err := partitionLeader(st)
	if err != nil {
		return err
	}
	onto := []string{fresh.ID, leader.ID, st.other(fresh, leader).ID}
	if err := brokerctl(st, "partition", "move", topic+"/0", "--replicas", strings.Join(onto, ","), "--yes", "--wait"); err != nil {
		return err
	}
	t, err := st.c.Topic(st.ctx, topic)
	if err != nil {
		return err
	}
	if len(t.Partitions) != partitions+2 || !slices.Equal(t.Partitions[0].Replicas, onto) {
		return fmt.Errorf("the first of %d partitions is on %v instead of %v", len(t.Partitions), t.Partitions[0].Replicas, onto)
	}
	if err := st.whole(topic); err != nil {
		return err
	}
	return retire(st, st.other(fresh))
}

// upgrade restarts a node as described in the manual.
func upgrade(st *stage, n *nodes.Node) error {
	if err := brokerctl(st, "node", "drain", n.ID, "--stopping", "--wait"); err != nil {
		return err
	}
	if err := othersLead(st, topic, n); err != nil {
		return err
	}
	if err := errors.Join(stop(st, n), st.start(n), brokerctl(st, "node", "undrain", n.ID)); err != nil {
		return err
	}
	return healthyAgain(st)
}
