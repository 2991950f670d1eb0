package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/nodes"
)

// refusedStatus is the exit status of a node whose cluster was recovered without it.
const refusedStatus = "exit status 78"

// playRecovered loses two of three nodes permanently under load. The operator recovers the third
// one as the manual says. Every acknowledged message must still be delivered. The old nodes must be
// refused with their data, and may join with empty disks.
func playRecovered(st *stage) error {
	survivor, err := partitionLeader(st)
	if err != nil {
		return err
	}
	if st.rng.IntN(2) == 0 {
		survivor = st.other(survivor)
	}
	lost := others(st, survivor)
	if err := st.kill(lost...); err != nil {
		return err
	}
	st.wait(2 * time.Second)
	if err := recoverRefused(st, survivor, "is in use by"); err != nil {
		return err
	}
	if err := st.kill(survivor); err != nil {
		return err
	}
	if err := recoverRefused(st, survivor, "Nothing was changed"); err != nil {
		return err
	}
	text, err := runRecover(st, survivor, "--yes-lose-what-is-missing")
	if err != nil {
		return fmt.Errorf("recover: %w\n%s", err, text)
	}
	st.l.Tell(func(a *audit.Audit, _ time.Duration) { a.Renumber() })
	if err := st.start(survivor); err != nil {
		return err
	}
	if err := staysAway(st, lost...); err != nil {
		return err
	}
	for _, n := range lost {
		if err := n.Wipe(); err != nil {
			return err
		}
	}
	if err := st.start(lost...); err != nil {
		return err
	}
	return replicas(st, topic, 3)
}

// staysAway starts nodes of the cluster before the recovery, which must refuse to run.
func staysAway(st *stage, these ...*nodes.Node) error {
	for _, n := range these {
		st.note("start %s with its old data", n.ID)
		if err := n.Start(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(st.ctx, startTimeout, fmt.Errorf("not after %v", startTimeout))
	defer cancel()
	for _, n := range these {
		select {
		case <-n.Exited():
		case <-ctx.Done():
			return fmt.Errorf("%s runs with the data of an abandoned cluster: %w", n.ID, context.Cause(ctx))
		}
		if n.How() != refusedStatus || !strings.Contains(n.LogEnd(), "recovered without this node") {
			return fmt.Errorf("%s ended with %s\n%s", n.ID, n.How(), n.LogEnd())
		}
	}
	return nil
}

// recoverRefused requires that a recovery changes nothing and gives the reason.
func recoverRefused(st *stage, n *nodes.Node, why string) error {
	text, err := runRecover(st, n)
	if _, ended := errors.AsType[*exec.ExitError](err); !ended || !strings.Contains(text, why) {
		return fmt.Errorf("recover says %q instead of %q: %w", text, why, err)
	}
	return nil
}

// runRecover runs the offline recovery on a node's data and returns its output.
func runRecover(st *stage, n *nodes.Node, args ...string) (string, error) {
	st.note("brokerd recover on the data of %s %v", n.ID, args)
	ctx, cancel := context.WithTimeout(st.ctx, operateTimeout)
	defer cancel()
	args = append([]string{"recover", "--only-survivor", "--data-dir", n.Data()}, args...)
	text, err := exec.CommandContext(ctx, st.o.broker, args...).CombinedOutput()
	return string(text), err
}
