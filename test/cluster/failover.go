package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

// Parameters for measuring the gap.
const (
	gapTopic    = "gap"
	gapPatience = 500 * time.Millisecond // how long the publisher waits for one answer
	gapPause    = 2 * time.Millisecond   // between two publishes, and two attempts to connect
	gapWatch    = 1500 * time.Millisecond
	gapTimeout  = 20 * time.Second // a longer gap is not measured to its end
	gapRest     = time.Second      // between two rounds
)

// incident is a fault of a node, and the maximum length of the gap.
type incident struct {
	name     string
	role     func(*stage) (*nodes.Node, error)
	begin    func(*stage, *nodes.Node) error
	end      func(*stage, *nodes.Node) error
	p50, p99 time.Duration // of the gap; 0: no aim
	graceful bool          // nothing may fail
}

func gapLeader(st *stage) (*nodes.Node, error) { return st.leader(gapTopic, 0) }

func gapFollower(st *stage) (*nodes.Node, error) {
	n, err := gapLeader(st)
	if err != nil {
		return nil, err
	}
	return st.other(n), nil
}

func restart(st *stage, n *nodes.Node) error { return st.start(n) }

func drainNode(verb string) func(*stage, *nodes.Node) error {
	return func(st *stage, n *nodes.Node) error {
		return st.c.Ask(st.ctx, "POST", "/v1/nodes/"+n.ID+"/"+verb, nil, nil)
	}
}

var incidents = []incident{
	{
		name: "leader-killed", role: gapLeader, p50: time.Second, p99: 2 * time.Second,
		begin: func(_ *stage, n *nodes.Node) error { return n.End(syscall.SIGKILL) }, end: restart,
	},
	{
		name: "leader-paused", role: gapLeader, p50: 1500 * time.Millisecond, p99: 3 * time.Second,
		begin: func(_ *stage, n *nodes.Node) error { return n.Pause() },
		end:   func(_ *stage, n *nodes.Node) error { return n.Resume() },
	},
	{
		name: "follower-killed", role: gapFollower, p99: 2 * time.Second,
		begin: func(_ *stage, n *nodes.Node) error { return n.End(syscall.SIGKILL) }, end: restart,
	},
	{
		name: "leader-stopped", role: gapLeader, p99: 100 * time.Millisecond, graceful: true,
		begin: func(_ *stage, n *nodes.Node) error { return n.Stop() }, end: restart,
	},
	{
		name: "leader-drained", role: gapLeader, p99: 100 * time.Millisecond, graceful: true,
		begin: drainNode("drain"), end: drainNode("undrain"),
	},
}

// publisher publishes one message after the other. It repeats each until it is acknowledged, at the
// next node after a failure.
type publisher struct {
	d       dialer
	conn    *wire.Client
	last    time.Time // the last acknowledgement
	longest time.Duration
	acks    int
	failed  int // error frames
	broken  int // connections that ended without an answer
}

// attempt publishes once.
func (p *publisher) attempt(ctx context.Context) {
	if p.conn == nil {
		conn, err := wire.Dial(p.d.nodes[p.d.next%len(p.d.nodes)].TCP, p.d.o)
		p.d.next++
		if err != nil {
			traffic.Pause(ctx, gapPause)
			return
		}
		p.conn = conn
	}
	p.conn.Pub(gapTopic, 0, []byte("a message of the publisher"))
	kind, data, err := p.conn.Exchange()
	if err != nil {
		p.broken++
		p.conn.Close()
		p.conn = nil
		return
	}
	if traffic.OutcomeOf(kind, data) != audit.Acknowledged {
		p.failed++
		traffic.Pause(ctx, gapPause)
		return
	}
	p.acks++
	now := time.Now()
	if !p.last.IsZero() {
		p.longest = max(p.longest, now.Sub(p.last))
	}
	p.last = now
}

// watch publishes until done is closed and a while longer, and measures the longest gap.
func (p *publisher) watch(ctx context.Context, done <-chan struct{}) error {
	p.longest = 0
	var until time.Time
	began := time.Now()
	for ctx.Err() == nil {
		p.attempt(ctx)
		select {
		case <-done:
			done, until = nil, time.Now().Add(gapWatch)
		default:
		}
		if done == nil && time.Now().After(until) && time.Since(p.last) < gapRest {
			return nil
		}
		if time.Since(began) > gapTimeout {
			return fmt.Errorf("no acknowledgement for %v", time.Since(p.last).Round(time.Millisecond))
		}
		traffic.Pause(ctx, gapPause)
	}
	return ctx.Err()
}

// result is the measurement of one kind of incident.
type result struct {
	incident
	gaps           []time.Duration
	failed, broken int
}

// failover measures all incidents and prints a table.
func failover(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "brokerd-failover")
	if err != nil {
		return err
	}
	st, err := newStage(ctx, o, scenario{name: "failover"}, dir)
	if err == nil {
		err = st.make(gapTopic, map[string]any{"partitions": 1, "replicas": 3})
	}
	var results []result
	for _, in := range incidents {
		if err != nil {
			break
		}
		if o.scenarios != "" && !slices.Contains(strings.Split(o.scenarios, ","), in.name) {
			continue
		}
		var r result
		r, err = st.suffer(in)
		results = append(results, r)
	}
	if err != nil {
		st.confess(os.Stdout)
		tabulate(os.Stdout, results)
		return err
	}
	if err := st.c.Stop(); err != nil {
		return err
	}
	missed := tabulate(os.Stdout, results)
	switch {
	case missed:
		return fmt.Errorf("an aim was missed; the logs are in %s", dir)
	case o.keep:
		fmt.Println("the logs are in", dir)
		return nil
	}
	return os.RemoveAll(dir)
}

// suffer causes an incident repeatedly.
func (st *stage) suffer(in incident) (result, error) {
	r := result{incident: in}
	for round := range st.o.failover {
		if err := st.whole(gapTopic); err != nil {
			return r, fmt.Errorf("before %s, round %d: %w", in.name, round+1, err)
		}
		st.wait(gapRest)
		n, err := in.role(st)
		if err != nil {
			return r, err
		}
		st.note("%s: %s", in.name, n.ID)
		// The publisher is connected to the leader: that is the worst case.
		leader, err := gapLeader(st)
		if err != nil {
			return r, err
		}
		p := publisher{d: dialer{
			nodes: st.c.Nodes, next: slices.Index(st.c.Nodes, leader),
			o: wire.Options{ID: "publisher", UserAgent: userAgent, Timeout: gapPatience},
		}}
		for end := time.Now().Add(gapRest / 2); time.Now().Before(end); {
			p.attempt(st.ctx)
		}
		if p.acks == 0 || p.failed+p.broken > 0 {
			return r, fmt.Errorf("before %s: %d acknowledged, %d failed, %d broken", in.name, p.acks, p.failed, p.broken)
		}
		done, began := make(chan struct{}), make(chan error, 1)
		go func() {
			began <- in.begin(st, n)
			close(done)
		}()
		err = errors.Join(p.watch(st.ctx, done), <-began)
		if p.conn != nil {
			p.conn.Close()
		}
		if err = errors.Join(err, in.end(st, n)); err != nil {
			return r, fmt.Errorf("%s, round %d: %w", in.name, round+1, err)
		}
		r.gaps = append(r.gaps, p.longest)
		r.failed += p.failed
		r.broken += p.broken
		st.note("gap %v, failed %d, broken %d", p.longest.Round(time.Millisecond), p.failed, p.broken)
	}
	return r, nil
}

// percentile returns the smallest value that at least p percent of the values do not exceed.
func percentile(values []time.Duration, of int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)*of+99)/100-1]
}

// tabulate prints the measurements, and returns whether an aim was missed.
func tabulate(w io.Writer, results []result) bool {
	missed := false
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "incident\trounds\tgap p50\tp99\tlongest\tfailed\tbroken connections\taim\t\t")
	for _, r := range results {
		p50, p99 := percentile(r.gaps, 50), percentile(r.gaps, 99)
		verdict := "kept"
		if r.p50 > 0 && p50 > r.p50 || r.p99 > 0 && p99 > r.p99 || r.graceful && r.failed > 0 {
			verdict, missed = "MISSED", true
		}
		aim := fmt.Sprintf("p99 %v", r.p99)
		if r.p50 > 0 {
			aim = fmt.Sprintf("p50 %v, %s", r.p50, aim)
		}
		if r.graceful {
			aim += ", none failed"
		}
		fmt.Fprintf(t, "%s\t%d\t%v\t%v\t%v\t%d\t%d\t%s\t%s\t\n", r.name, len(r.gaps), p50.Round(time.Millisecond),
			p99.Round(time.Millisecond), percentile(r.gaps, 100).Round(time.Millisecond), r.failed, r.broken, aim, verdict)
	}
	_ = t.Flush() // there is nowhere to report the error
	return missed
}
