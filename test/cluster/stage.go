package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/network"
	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/test/traffic"
)

// Durations and time limits.
const (
	startTimeout = 20 * time.Second // from the start until the cluster is ready
	warmUp       = 1500 * time.Millisecond
	steadyTime   = time.Second      // of load before, between and after faults
	healTimeout  = 30 * time.Second // from the end of a fault until every replica is in sync
	moveTimeout  = 10 * time.Second // until every consumer has got a message
	drainTimeout = 40 * time.Second // until all messages are finished
	settleTime   = noticeTime       // within which no message may
)

// stage is a cluster with a load, for one scenario.
type stage struct {
	ctx context.Context
	o   options
	s   scenario
	rng *rand.Rand
	c   *nodes.Cluster
	net *network.Network // nil: the nodes use this machine's addresses
	l   *load            // nil: the scenario brings its own load

	authority *nodes.Authority // issues the nodes' certificates; nil: they have none

	dir   string
	began time.Time
	mu    sync.Mutex // guards did
	did   []string   // actions and observations, for the report
	say   []string   // measurements for the report
}

// newStage starts the nodes.
func newStage(ctx context.Context, o options, s scenario, dir string) (*stage, error) {
	st := &stage{ctx: ctx, o: o, s: s, dir: dir, rng: rand.New(rand.NewPCG(o.seed, 7))}
	opts := nodes.Options{Program: o.broker, Dir: dir, Args: []string{"--log-level", "debug", "--log-format", "text"}}
	var err error
	n := cmp.Or(s.nodes, o.nodes)
	if s.network {
		st.net, err = network.New(n, o.seed)
		if err != nil {
			return st, err
		}
		opts.Nodes, opts.Wrap = st.net.Addresses(), st.net.Wrap
		secret := filepath.Join(dir, "secret") // nodes that listen beyond loopback need one
		if err := os.WriteFile(secret, fmt.Appendf(nil, "the secret of seed %d", o.seed), 0o600); err != nil {
			return st, err
		}
		opts.Args = append(opts.Args, "--cluster-secret-file", secret)
	} else if opts.Nodes, err = o.ports.Free(n); err != nil {
		return st, err
	}
	if s.setup != nil {
		if err := s.setup(st, &opts); err != nil {
			return st, err
		}
	}
	if st.c, err = nodes.New(opts); err != nil {
		return st, err
	}
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := st.c.Start(limited); err != nil {
		return st, err
	}
	st.began = time.Now()
	return st, nil
}

// await repeats an action until it succeeds, for a while.
func await(st *stage, limit time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(st.ctx, limit, fmt.Errorf("not after %v", limit))
	defer cancel()
	return nodes.Await(ctx, func() error { return f(ctx) })
}

// awaitTopic waits until a topic is as it should be.
func awaitTopic(st *stage, limit time.Duration, name string, check func(nodes.Topic) error) error {
	return await(st, limit, func(ctx context.Context) error {
		t, err := st.c.Topic(ctx, name)
		if err != nil {
			return err
		}
		return check(t)
	})
}

// play plays the whole scenario and stops the nodes.
func (st *stage) play() error {
	err := st.act()
	if st.l != nil {
		st.l.stop()
	}
	if err != nil {
		for _, n := range st.c.Nodes {
			if n.Crashed() {
				err = errors.Join(err, fmt.Errorf("node %s panicked", n.ID))
			}
		}
		st.c.Kill()
		return err
	}
	return st.c.Stop()
}

func (st *stage) act() error {
	return steps.Run(func() {
		if st.s.alone != nil {
			st.s.alone(st)
			return
		}
		steps.Must(st.make(topic, map[string]any{"partitions": partitions}, channels...))
		st.l = newLoad(st)
		st.wait(warmUp)
		st.s.run(st)
		steps.Must(errors.Join(st.recovered(), st.finish()))
	})
}

// make creates a topic with three replicas, waits until it is whole, and creates its channels.
func (st *stage) make(name string, config map[string]any, channels ...string) error {
	if err := st.c.CreateTopic(st.ctx, name, config); err != nil {
		return err
	}
	err := st.whole(name)
	for _, channel := range channels {
		err = errors.Join(err, st.c.CreateChannel(st.ctx, name, channel, false))
	}
	return err
}

// note adds a line to the list of actions.
func (st *stage) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	at := time.Since(st.began)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.did = append(st.did, fmt.Sprintf("%7.3fs %s", at.Seconds(), text))
	if st.o.verbose {
		fmt.Fprintf(st.o.out, "  %7.3fs %s\n", at.Seconds(), text)
	}
}

func (st *stage) wait(d time.Duration) { traffic.Pause(st.ctx, d) }

// random returns a time between a second and the longest pause.
func (st *stage) random() time.Duration {
	return time.Second + time.Duration(st.rng.Int64N(int64(st.o.pause-time.Second)+1))
}

// whole waits until all replicas of a topic are in sync.
func (st *stage) whole(name string) error {
	return awaitTopic(st, healTimeout, name, func(t nodes.Topic) error {
		return t.Whole()
	})
}

// leader waits until a partition of a topic has a leader, and returns that node.
func (st *stage) leader(name string, partition int) (leader *nodes.Node, err error) {
	err = awaitTopic(st, moveTimeout, name, func(t nodes.Topic) error {
		if partition < len(t.Partitions) {
			leader = st.c.Node(t.Partitions[partition].Leader)
		}
		if leader == nil {
			return fmt.Errorf("partition %d of %s has no leader", partition, name)
		}
		return nil
	})
	return leader, err
}

// controller waits until the metadata has a leader, and returns that node.
func (st *stage) controller() (leader *nodes.Node, err error) {
	err = await(st, moveTimeout, func(ctx context.Context) error {
		info, err := st.c.Info(ctx)
		if err != nil {
			return err
		}
		if leader = st.c.Node(info.Controller); leader == nil {
			return errors.New("the metadata has no leader")
		}
		return nil
	})
	return leader, err
}

// other returns a node that is none of those.
func (st *stage) other(those ...*nodes.Node) *nodes.Node {
	for _, i := range st.rng.Perm(len(st.c.Nodes)) {
		if n := st.c.Nodes[i]; !slices.Contains(those, n) {
			return n
		}
	}
	panic("BUG: a scenario has more roles than nodes")
}

// others returns the nodes that are none of those.
func others(st *stage, those ...*nodes.Node) []*nodes.Node {
	return slices.DeleteFunc(slices.Clone(st.c.Nodes), func(n *nodes.Node) bool { return slices.Contains(those, n) })
}

// disturb reports to the audit that the cluster is disturbed from now on.
func (st *stage) disturb(format string, args ...any) {
	st.note(format, args...)
	if st.l != nil {
		st.l.Tell(func(a *audit.Audit, now time.Duration) { a.Disturb(now) })
	}
}

// kill kills nodes at once and without warning.
func (st *stage) kill(these ...*nodes.Node) error {
	var names []string
	for _, n := range these {
		names = append(names, n.ID)
	}
	st.disturb("kill -9 %s", strings.Join(names, " "))
	var errs []error
	for _, n := range these {
		errs = append(errs, n.End(syscall.SIGKILL))
	}
	return errors.Join(errs...)
}

// stop stops a node as an operator does.
func stop(st *stage, n *nodes.Node) error {
	st.note("SIGTERM %s", n.ID)
	return n.Stop()
}

// start starts nodes again and waits until they serve.
func (st *stage) start(these ...*nodes.Node) error {
	for _, n := range these {
		st.note("start %s", n.ID)
		if err := n.Start(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(st.ctx, startTimeout)
	defer cancel()
	for _, n := range these {
		if err := n.Ready(ctx); err != nil {
			return err
		}
	}
	st.note("ready")
	return nil
}

// recovered waits until the cluster is whole and every consumer has got a message.
func (st *stage) recovered() error {
	if err := st.whole(topic); err != nil {
		return err
	}
	st.note("all replicas are in sync")
	before := make([]int64, len(st.l.taken))
	for i := range before {
		before[i] = st.l.taken[i].Load()
	}
	err := await(st, moveTimeout, func(ctx context.Context) error {
		for i := range before {
			if st.l.taken[i].Load() == before[i] {
				return fmt.Errorf("consumer %d receives no more messages; it is %s", i, whereabouts(st.ctx, st.l, i))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	st.l.Tell(func(a *audit.Audit, now time.Duration) { a.Calm(now) })
	st.note("all consumers continue")
	st.wait(steadyTime)
	return nil
}

// whereabouts returns what a consumer's node reports about the consumer.
func whereabouts(ctx context.Context, l *load, consumer int) string {
	n := l.where[consumer].Load()
	if n == nil {
		return "nowhere"
	}
	var stats struct {
		Topics []struct {
			Channels []struct{ Clients []json.RawMessage }
		}
	}
	if err := n.Ask(ctx, http.MethodGet, "/stats?format=json&topic="+topic, nil, &stats); err != nil {
		return fmt.Sprintf("at %s: %v", n.ID, err)
	}
	said := "at " + n.ID
	for _, t := range stats.Topics {
		for _, ch := range t.Channels {
			for _, client := range ch.Clients {
				if strings.Contains(string(client), fmt.Sprintf("\"consumer-%d\"", consumer)) {
					said += " " + string(client)
				}
			}
		}
	}
	return said
}

// finish drains the topic, lets the audit decide, and compares the replicas.
func (st *stage) finish() error {
	st.l.drain()
	st.note("drain")
	if err := st.drained(); err != nil {
		return errors.Join(err, st.verdict(false))
	}
	st.wait(settleTime)
	st.l.stop()
	return errors.Join(st.verdict(true), st.identical(topic))
}

// drained waits until all messages are finished, both by the audit and by the broker's statistics.
func (st *stage) drained() error {
	return await(st, drainTimeout, func(ctx context.Context) error {
		if owed := st.l.Stats().Owed; owed > 0 {
			return fmt.Errorf("%d messages are missing", owed)
		}
		t, err := st.c.Topic(ctx, topic)
		if err != nil {
			return err
		}
		for _, ch := range t.Channels {
			if ch.Depth+ch.InFlight+ch.Deferred > 0 {
				return fmt.Errorf("the broker has messages for channel %s: %d, in flight %d, deferred %d",
					ch.Name, ch.Depth, ch.InFlight, ch.Deferred)
			}
		}
		return nil
	})
}

// identical compares the replicas of a topic. It waits for one that is being copied.
func (st *stage) identical(name string) error {
	ctx, cancel := context.WithTimeoutCause(st.ctx, healTimeout, fmt.Errorf("not after %v", healTimeout))
	defer cancel()
	var differ error
	err := nodes.Await(ctx, func() error {
		t, err := st.c.Topic(ctx, name)
		if err != nil {
			return err
		}
		v, err := st.c.Verify(ctx, name)
		if err != nil {
			return err
		}
		var missing []error
		for i, p := range v.Partitions {
			what := fmt.Errorf("partition %d of %s up to %d: the replicas hold %v", p.Partition, name, p.CommittedEnd, p.Digests)
			switch {
			case len(slices.Compact(slices.Sorted(maps.Values(p.Digests)))) > 1:
				differ = errors.Join(differ, what)
			case !p.Identical || len(p.Digests) != len(t.Partitions[i].Replicas):
				missing = append(missing, what)
			}
		}
		if len(v.Partitions) != len(t.Partitions) {
			missing = append(missing, fmt.Errorf("%d of %d partitions were compared", len(v.Partitions), len(t.Partitions)))
		}
		if differ != nil {
			return nil
		}
		return errors.Join(missing...)
	})
	return errors.Join(differ, err)
}

// verdict returns the findings of the audit. Missing messages are a failure only if complete is
// set, that is, if the stage has waited for all of them.
func (st *stage) verdict(complete bool) error {
	var errs []error
	st.l.Tell(func(a *audit.Audit, now time.Duration) {
		if complete {
			a.End(now)
		}
		for _, v := range a.Violations() {
			errs = append(errs, fmt.Errorf("%v", v))
		}
		s := a.Stats()
		if n := s.Violations - len(a.Violations()); n > 0 {
			errs = append(errs, fmt.Errorf("and %d violations more", n))
		}
		if s.Acked < minAcks {
			errs = append(errs, fmt.Errorf("void: %d publishes acknowledged", s.Acked))
		}
		if !st.s.graceful {
			return
		}
		if n := st.l.refused; n > 0 {
			errs = append(errs, fmt.Errorf("%d publishes failed: %s", n, strings.Join(st.l.refusals, "; ")))
		}
		if s.Recovered > 0 {
			errs = append(errs, fmt.Errorf("%d messages were stored and not answered", s.Recovered))
		}
	})
	return errors.Join(errs...)
}

// summary returns what happened, in one line.
func (st *stage) summary() string {
	if st.l == nil {
		return strings.Join(st.say, ", ")
	}
	text := ""
	st.l.Tell(func(a *audit.Audit, _ time.Duration) {
		s := a.Stats()
		text = fmt.Sprintf("acknowledged %d, unknown %d, refused %d; finished %d; longest silence %v",
			s.Acked, s.Unknown, s.Refused, s.Finished, st.l.gap.longest.Round(time.Millisecond))
		for _, cause := range slices.Sorted(maps.Keys(s.Redelivered)) {
			if cause != audit.CauseRequeue {
				text += fmt.Sprintf("; again, %s: %d", cause, s.Redelivered[cause])
			}
		}
		if s.Forgotten > 0 {
			text += fmt.Sprintf(" (oldest %v)", s.Forgotten.Round(time.Millisecond))
		}
	})
	return strings.Join(append([]string{text}, st.say...), "; ")
}

// confess writes what helps to analyse a failure.
func (st *stage) confess(w io.Writer) {
	fmt.Fprintf(w, "  %s\n", st.summary())
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, line := range st.did {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if st.c == nil {
		return
	}
	st.c.Kill()
	for _, n := range st.c.Nodes {
		fmt.Fprintf(w, "  --- %s\n", strings.ReplaceAll(strings.TrimSpace(n.LogEnd()), "\n", "\n  "))
	}
	fmt.Fprintf(w, "  the data and the logs are in %s\n", filepath.Clean(st.dir))
}
