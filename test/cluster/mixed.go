package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
)

// installPrevious installs the previous release on all nodes.
func installPrevious(st *stage, o *nodes.Options) error {
	o.Program = st.o.previous
	return nil
}

// mixedVersions upgrades a cluster from the previous release to this one, downgrades it, and
// upgrades it again, as the manual says, while clients publish and consume. While both releases
// run, operators work with a node of each. At the end the upgrade is finalized. After that the
// previous release must refuse to start.
func mixedVersions(st *stage) {
	before, now := st.o.previous, st.o.broker
	for i, program := range []string{now, before, now} {
		install(st, program, fmt.Sprintf("mixed%d", i))
	}
	steps.Must(brokerctl(st, "cluster", "finalize-upgrade"))
	steps.Must(healthyAgain(st))
	n := st.other()
	steps.Must(stop(st, n))
	n.Install(before)
	st.note("start %s with the previous release", n.ID)
	steps.Must(n.Start())
	select {
	case <-n.Exited():
	case <-time.After(startTimeout):
		steps.Fail("%s serves with the previous release after the upgrade was finalized", n.ID)
	}
	if n.How() != removedStatus || !strings.Contains(n.LogEnd(), "level") {
		steps.Fail("%s with the previous release, after the upgrade was finalized, exited with %s instead of %s", n.ID, n.How(), removedStatus)
	}
	n.Install(now)
	steps.Must(st.start(n))
}

// install installs a program on all nodes, one after the other, with brokerctl's rolling upgrade.
// Once one of them runs it, operators create, change and delete topics through each node: that node
// is the first of the cluster.
func install(st *stage, program, name string) {
	asked := filepath.Join(st.dir, "install")
	ctx, cancel := context.WithTimeoutCause(st.ctx, rollingTimeout, fmt.Errorf("not after %v", rollingTimeout))
	defer cancel()
	worked := make(chan error, 1)
	go func() {
		defer cancel() // brokerctl would wait for the shell
		worked <- installAsked(ctx, st, asked, program, name)
	}()
	// The shell's command waits for the node's new process, as systemctl does.
	wait := fmt.Sprintf("echo {{.Node}} >%[1]s.new && mv %[1]s.new %[1]s && while [ -e %[1]s ]; do sleep 0.02; done", asked)
	s, err := operateWithin(ctx, st, "rolling", "upgrade", "--exec", wait)
	cancel()
	steps.Must(errors.Join(<-worked, err))
	steps.Must(s.ended(0))
	steps.Must(errors.Join(st.whole(topic), healthyAgain(st), completeAnswers(st, topic, channels[0])))
}

// rollingTimeout bounds a rolling upgrade of all nodes.
const rollingTimeout = 90 * time.Second

// installAsked restarts each node that the file names with a program, until ctx ends.
func installAsked(ctx context.Context, st *stage, asked, program, name string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for restarted := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		id, err := os.ReadFile(asked)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		n := st.c.Node(strings.TrimSpace(string(id)))
		if err := stop(st, n); err != nil {
			return err
		}
		n.Install(program)
		if err := st.start(n); err != nil {
			return err
		}
		if restarted++; restarted < len(st.c.Nodes) {
			if err := operateMixed(st, fmt.Sprintf("%s.%d", name, restarted)); err != nil {
				return fmt.Errorf("while %d of %d nodes run %s: %w", restarted, len(st.c.Nodes), program, err)
			}
		}
		if err := os.Remove(asked); err != nil {
			return err
		}
	}
}

// operateMixed creates a topic through each node, and works with it through the next one.
func operateMixed(st *stage, name string) error {
	for i, n := range st.c.Nodes {
		next := st.c.Nodes[(i+1)%len(st.c.Nodes)]
		made := name + "." + n.ID
		for _, act := range []struct {
			at   *nodes.Node
			args []string
		}{
			{n, []string{"topic", "create", made, "--partitions", "3", "--replicas", "3"}},
			{next, []string{"channel", "create", made + "/c"}},
			{n, []string{"message", "pub", made, "one", "two", "three"}},
			{next, []string{"message", "pub", made, "--delay", "1h", "later"}},
			{n, []string{"channel", "alter", made + "/c", "--max-attempts", "5"}},
			{next, []string{"message", "peek", made + "/c"}},
			{next, []string{"channel", "empty", made + "/c", "--yes"}},
			{n, []string{"channel", "undo", made + "/c"}},
			{n, []string{"channel", "list", made}},
			{next, []string{"partition", "verify", made}},
			{n, []string{"topic", "delete", made, "--yes"}},
			{next, []string{"topic", "restore", made}},
			{n, []string{"channel", "describe", made + "/c"}},
		} {
			args := append([]string{"--addr", "http://" + act.at.HTTP}, act.args...)
			if err := brokerctl(st, args...); err != nil {
				return err
			}
		}
		if err := takenEverywhere(st, made); err != nil {
			return err
		}
		if err := errors.Join(st.identical(made), completeAnswers(st, made, "c")); err != nil {
			return err
		}
	}
	return nil
}

// completeAnswers asks each node about a topic and a channel: no answer may lack what another node,
// perhaps of another release, should have contributed.
func completeAnswers(st *stage, name, channel string) error {
	for _, n := range st.c.Nodes {
		if err := await(st, moveTimeout, func(ctx context.Context) error { return n.Complete(ctx, name, channel) }); err != nil {
			return err
		}
	}
	return nil
}

// mixedKills has one node, or two of three, run this release and the others the previous one. It
// kills a leader of each release while the third node lags: what only the leader and the follower of
// the other release hold is not committed, and neither of them may consider it so.
func mixedKills(st *stage) {
	order := slices.Clone(st.c.Nodes)
	st.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, n := range order[:1+st.rng.IntN(2)] {
		st.disturb("SIGTERM %s, which gets this release", n.ID)
		steps.Must(n.Stop())
		n.Install(st.o.broker)
		steps.Must(errors.Join(st.start(n), st.recovered()))
	}
	between := order[1] // it runs the release of one of the others, which run different ones
	st.disturb("SIGSTOP %s several times", between.ID)
	steps.Must(errors.Join(brokerctl(st, "cluster", "balance", "--leaders"), st.c.EarlyCommits(st.ctx, topic, between), st.recovered()))
	for _, leader := range []*nodes.Node{order[0], order[len(order)-1]} {
		st.disturb("SIGSTOP %s, then kill -9 %s", between.ID, leader.ID)
		steps.Must(between.Pause())
		st.wait(nodes.LagTime)
		err := errors.Join(leader.End(syscall.SIGKILL), between.Resume(), othersLead(st, topic, leader))
		steps.Must(errors.Join(err, st.start(leader), st.recovered()))
	}
	steps.Must(completeAnswers(st, topic, channels[0]))
}
