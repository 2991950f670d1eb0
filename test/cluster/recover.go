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
	"github.com/brokerd/brokerd/test/steps"
)

// refusedStatus is the exit status of a node whose cluster was recovered without it.
const refusedStatus = "exit status 78"

// playRecovered loses two of three nodes permanently under load. The operator recovers the third
// one as the manual says. Every acknowledged message must still be delivered. The old nodes must be
// refused with their data, and may join with empty disks.
func playRecovered(st *stage) {
	survivor := steps.Need(partitionLeader(st))
	if st.rng.IntN(2) == 0 {
		survivor = st.other(survivor)
	}
	lost := others(st, survivor)
	steps.Must(st.kill(lost...))
	st.wait(2 * time.Second)
	recoverRefused(st, survivor, "is in use by")
	steps.Must(st.kill(survivor))
	recoverRefused(st, survivor, "Nothing was changed")
	text, err := runRecover(st, survivor, "--yes-lose-what-is-missing")
	if err != nil {
		steps.Fail("recover: %w\n%s", err, text)
	}
	st.l.Tell(func(a *audit.Audit, _ time.Duration) { a.Renumber() })
	steps.Must(st.start(survivor))
	staysAway(st, lost...)
	for _, n := range lost {
		steps.Must(n.Wipe())
	}
	steps.Must(st.start(lost...))
	steps.Must(replicas(st, topic, 3))
}

// staysAway starts nodes of the cluster before the recovery, which must refuse to run.
func staysAway(st *stage, these ...*nodes.Node) {
	for _, n := range these {
		st.note("start %s with its old data", n.ID)
		steps.Must(n.Start())
	}
	ctx, cancel := context.WithTimeoutCause(st.ctx, startTimeout, fmt.Errorf("not after %v", startTimeout))
	defer cancel()
	for _, n := range these {
		select {
		case <-n.Exited():
		case <-ctx.Done():
			steps.Fail("%s runs with the data of an abandoned cluster: %w", n.ID, context.Cause(ctx))
		}
		if n.How() != refusedStatus || !strings.Contains(n.LogEnd(), "recovered without this node") {
			steps.Fail("%s ended with %s\n%s", n.ID, n.How(), n.LogEnd())
		}
	}
}

// recoverRefused requires that a recovery changes nothing and gives the reason.
func recoverRefused(st *stage, n *nodes.Node, why string) {
	text, err := runRecover(st, n)
	if _, ended := errors.AsType[*exec.ExitError](err); !ended || !strings.Contains(text, why) {
		steps.Fail("recover says %q instead of %q: %w", text, why, err)
	}
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
