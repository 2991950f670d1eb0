package rolling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// Cluster is the interface to the cluster that a run needs: [api.Client]
// implements it.
type Cluster interface {
	Cluster(ctx context.Context) (*api.Cluster, error)
	Health(ctx context.Context) (*api.Health, error)
	Node(ctx context.Context, id string) (*api.NodeDetail, error)
	DrainNode(ctx context.Context, id string, req api.DrainNode) (*api.NodeDetail, error)
	UndrainNode(ctx context.Context, id string) (*api.NodeDetail, error)
}

// Step is a step of restarting a node.
type Step string

// The steps, in their order.
const (
	StepWait    Step = "wait"    // until it may be restarted
	StepDrain   Step = "drain"   // until it leads nothing
	StepExec    Step = "exec"    // the operator's command
	StepReturn  Step = "return"  // until it has a newer incarnation
	StepSync    Step = "sync"    // until its replicas are in sync
	StepUndrain Step = "undrain" // it may lead again
	StepDone    Step = "done"
)

// Options configure a run.
type Options struct {
	// Verb is the name of the run in the audit log: restart or upgrade.
	Verb string
	// Reason is the operator's reason for the audit log; "": none.
	Reason string
	// Exec restarts a node and returns when the restart has begun or is done.
	Exec func(ctx context.Context, n *api.NodeDetail) error
	// Audit reads the audit log.
	Audit func(ctx context.Context, o api.JournalOptions) (*api.AuditLog, error)
	// Version is the version that a node must run afterwards. "": any.
	Version string
	// Changed demands that a node runs a different version afterwards.
	Changed bool
	// Timeout bounds one step.
	Timeout time.Duration
	// Request bounds one request.
	Request time.Duration
	// Say is called with the progress: with each act, and whenever the
	// obstacles that the run waits for change.
	Say func(node string, step Step, text string)
	// Now and Pause are the clock. Pause waits for a duration, or until the
	// context ends.
	Now   func() time.Time
	Pause func(context.Context, time.Duration)
}

// every is the period at which the run checks whether a step is done.
const every = 500 * time.Millisecond

// Restarted is the outcome for a node.
type Restarted struct {
	Node   string
	Before string // its version
	After  string
	Took   time.Duration
}

// Stopped is the error of a run that stopped before its end.
type Stopped struct {
	Node    string
	Step    Step
	State   string   // in which the node was left
	Pending []string // nodes still to be restarted, beginning with this one unless it was restarted
	Cause   error
}

// Error names the node and step at which the run stopped, and the state of the
// node.
func (s *Stopped) Error() string {
	return fmt.Sprintf("rolling restart stopped at node %s, step %s: %v; %s", s.Node, s.Step, s.Cause, s.State)
}

// Unwrap returns the cause.
func (s *Stopped) Unwrap() error { return s.Cause }

// errTimeout is the cause of a run that stopped at a step that took too long.
var errTimeout = errors.New("the step exceeded --step-timeout")

// Run restarts the nodes of a plan, one at a time. It returns those that were restarted, and a [*Stopped]
// if some were not, also if the context ends.
func Run(ctx context.Context, c Cluster, p Plan, o Options) ([]Restarted, error) {
	r := &run{Options: o, c: c, begun: o.Now(), resume: p.Resume}
	if p.Resume != nil {
		r.begun = p.Resume.Begun // the same run continues
	}
	var done []Restarted
	for i, n := range p.Nodes {
		r.node, r.pending, r.began = n.ID, p.Nodes[i:], o.Now()
		one, err := r.restart(ctx)
		if err != nil {
			return done, err
		}
		done = append(done, one)
	}
	return done, nil
}

// run is at one node.
type run struct {
	Options
	c       Cluster
	node    string
	pending []api.Node // this one and those after it
	began   time.Time  // of the work on this node
	begun   time.Time  // of the run

	resume *Record // last record of the run that is continued; nil: none
	before *api.NodeDetail
}

// recording returns a context in which an act is recorded in the audit log with the record of the run.
func (r *run) recording(ctx context.Context, state string) context.Context {
	record := Record{Verb: r.Verb, Begun: r.begun, Node: r.node, State: state, Incarnation: r.before.Incarnation, Version: r.before.Version}
	for _, n := range r.pending[1:] {
		record.Pending = append(record.Pending, n.ID)
	}
	text := record.String()
	if r.Reason != "" {
		text += "; " + r.Reason
	}
	return api.WithReason(ctx, text)
}

// resumed returns the earlier state of a node that the continued run had already restarted. It returns
// false if the node has not started again, or not with the required version.
func (r *run) resumed(now *api.NodeDetail) (*api.NodeDetail, bool) {
	was := r.resume
	if was == nil || was.Node != r.node || was.State != stateDrained || now.Incarnation == was.Incarnation {
		return nil, false
	}
	before := *now
	before.Incarnation, before.Version = was.Incarnation, was.Version
	return &before, r.rightVersion(&before, now) == nil
}

func (r *run) restart(ctx context.Context) (Restarted, error) {
	before, err := r.mayGo(ctx)
	if err != nil {
		return Restarted{}, r.stopped(ctx, StepWait, err, "the node was not touched")
	}
	r.before = before
	if was, ok := r.resumed(before); ok {
		r.Say(r.node, StepReturn, "has started again since it was drained: the command is not run again")
		before, r.before = was, was
	} else {
		if before.State != api.NodeDown {
			if err := r.drain(ctx); err != nil {
				return Restarted{}, err
			}
		}
		r.Say(r.node, StepExec, "run the command")
		if err := r.exec(ctx, before); err != nil {
			return Restarted{}, r.stopped(ctx, StepExec, err, r.drained())
		}
	}
	after, err := r.back(ctx, before)
	if err != nil {
		return Restarted{}, err
	}
	one := Restarted{Node: r.node, Before: before.Version, After: after.Version, Took: r.Now().Sub(r.began)}
	text := fmt.Sprintf("restarted in %s", one.Took.Round(100*time.Millisecond))
	if one.Before != one.After {
		text += fmt.Sprintf(", version %s, was %s", one.After, one.Before)
	}
	r.Say(r.node, StepDone, text)
	return one, nil
}

// mayGo waits until the node may be restarted, and returns it.
func (r *run) mayGo(ctx context.Context) (*api.NodeDetail, error) {
	return until(ctx, r, StepWait, func(ctx context.Context) (*api.NodeDetail, string, error) {
		c, err := r.c.Cluster(ctx)
		if err != nil {
			return nil, "", err
		}
		h, err := r.c.Health(ctx)
		if err != nil {
			return nil, "", err
		}
		n, err := r.c.Node(ctx, r.node)
		return n, strings.Join(Fit(c, h, r.node), "; "), err
	})
}

// drain drains the node. Of two runs that drain different nodes at the same time, each finds the other's
// drain here.
func (r *run) drain(ctx context.Context) error {
	r.Say(r.node, StepDrain, "drain")
	err := r.ask(ctx, func(ctx context.Context) error {
		_, err := r.c.DrainNode(r.recording(ctx, stateDrained), r.node, api.DrainNode{Stopping: true})
		return err
	})
	if err != nil {
		return r.stopped(ctx, StepDrain, err, "it was not restarted, "+r.drained())
	}
	away, err := until(ctx, r, StepDrain, func(ctx context.Context) ([]string, string, error) {
		c, err := r.c.Cluster(ctx)
		if err != nil {
			return nil, "", err
		}
		if away := others(c, r.node); len(away) > 0 {
			return away, "", nil
		}
		n, err := r.c.Node(ctx, r.node)
		if err != nil || n.Leaders == 0 {
			return nil, "", err
		}
		return nil, fmt.Sprintf("leads %d partitions", n.Leaders), nil
	})
	if err == nil && len(away) > 0 {
		err = errors.New(strings.Join(away, "; "))
	}
	if err != nil {
		return r.stopped(ctx, StepDrain, err, r.takeBack(ctx))
	}
	return r.first(ctx)
}

// first stops this run if another one has drained the same node before it: both would run the command,
// and then restart two nodes at once. The audit log has their drains in the order of the metadata, so
// that exactly one of them goes on.
func (r *run) first(ctx context.Context) error {
	rival, err := until(ctx, r, StepDrain, func(ctx context.Context) (*Record, string, error) {
		log, err := r.Audit(ctx, api.JournalOptions{Object: r.node})
		if err != nil {
			return nil, "", err
		}
		rival, recorded := drainedBefore(log.Acts, r.node, r.begun)
		if !recorded {
			return nil, "the audit log does not have the drain yet", nil
		}
		return rival, "", nil
	})
	if err == nil && rival != nil {
		return &Stopped{ // without pending nodes: this run must not be continued while the other one is in progress
			Node: r.node, Step: StepDrain, State: "it was not restarted, and stays drained for the other run; if that has ended: brokerctl node undrain " + r.node,
			Cause: fmt.Errorf("another rolling %s has drained it, begun %s by %s", rival.Verb, rival.Begun.Format(time.DateTime), rival.by()),
		}
	}
	if err != nil {
		return r.stopped(ctx, StepDrain, err, "it was not restarted, "+r.drained())
	}
	return nil
}

// takeBack undrains a node that will not be restarted, also for an interrupted run.
func (r *run) takeBack(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Request)
	defer cancel()
	if _, err := r.c.UndrainNode(r.recording(ctx, stateKept), r.node); err != nil {
		return "it was not restarted, " + r.drained()
	}
	return "it was not restarted, and its drain was cancelled"
}

func (r *run) exec(ctx context.Context, n *api.NodeDetail) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, errTimeout)
	defer cancel()
	return r.Exec(ctx, n)
}

// back waits until the node has started again, is in sync, and may lead.
func (r *run) back(ctx context.Context, before *api.NodeDetail) (*api.NodeDetail, error) {
	after, err := until(ctx, r, StepReturn, func(ctx context.Context) (*api.NodeDetail, string, error) {
		n, err := r.c.Node(ctx, r.node)
		switch {
		case err != nil:
			return nil, "", err
		case n.Incarnation == before.Incarnation:
			return nil, "has not come up again", nil
		case n.State == api.NodeDown || n.Silent:
			return nil, "does not answer", nil
		}
		return n, "", nil
	})
	if err != nil {
		return nil, r.stopped(ctx, StepReturn, err, r.drained()+"; its log says why it does not start")
	}
	if err := r.rightVersion(before, after); err != nil {
		return nil, r.stopped(ctx, StepReturn, err, "it serves, "+r.drained())
	}
	if err := r.inSync(ctx); err != nil {
		return nil, r.stopped(ctx, StepSync, err, "it runs, "+r.drained())
	}
	r.Say(r.node, StepUndrain, "undrain")
	err = r.ask(ctx, func(ctx context.Context) error {
		_, err := r.c.UndrainNode(r.recording(ctx, stateRestarted), r.node)
		return err
	})
	if err == nil {
		_, err = r.mayGo(ctx) // the cluster is healthy again before the next node
	}
	if err != nil {
		r.pending = r.pending[1:]
		return nil, r.stopped(ctx, StepUndrain, err, "it was restarted; brokerctl node describe "+r.node+" says whether it is drained")
	}
	return after, nil
}

func (r *run) rightVersion(before, after *api.NodeDetail) error {
	switch {
	case r.Version != "" && after.Version != r.Version:
		return fmt.Errorf("it runs version %s, not %s", after.Version, r.Version)
	case r.Version == "" && r.Changed && after.Version == before.Version:
		return fmt.Errorf("it runs version %s, as before: the command did not upgrade it", after.Version)
	}
	return nil
}

func (r *run) inSync(ctx context.Context) error {
	_, err := until(ctx, r, StepSync, func(ctx context.Context) (struct{}, string, error) {
		n, err := r.c.Node(ctx, r.node)
		if err != nil {
			return struct{}{}, "", err
		}
		if count := behind(n); count > 0 {
			return struct{}{}, fmt.Sprintf("%d of %d replicas are not in sync", count, len(n.Partitions)), nil
		}
		return struct{}{}, "", nil
	})
	return err
}

func (r *run) drained() string {
	return "it may still be drained: brokerctl node undrain " + r.node + " has it lead again"
}

func (r *run) stopped(ctx context.Context, step Step, cause error, state string) error {
	if ctx.Err() != nil {
		cause = context.Cause(ctx)
	}
	s := &Stopped{Node: r.node, Step: step, State: state, Cause: cause}
	for _, n := range r.pending {
		s.Pending = append(s.Pending, n.ID)
	}
	return s
}

// until polls until there is nothing left to wait for, and prints what it waits for whenever that
// changes. If the cluster does not answer, it retries, because the asked node may be the one that
// is down.
func until[T any](ctx context.Context, r *run, step Step, ask func(context.Context) (v T, waits string, err error)) (T, error) {
	said, ends := "", r.Now().Add(r.Timeout)
	for {
		var v T
		waits := ""
		err := r.once(ctx, func(ctx context.Context) (err error) {
			v, waits, err = ask(ctx)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return v, context.Cause(ctx)
		case err != nil && !unanswered(err):
			return v, err
		case err != nil:
			waits = err.Error()
		case waits == "":
			return v, nil
		}
		if waits != said {
			r.Say(r.node, step, "wait: "+waits)
			said = waits
		}
		if !r.Now().Before(ends) {
			return v, fmt.Errorf("%w: %s", errTimeout, waits)
		}
		r.Pause(ctx, every)
	}
}

// ask makes a change, and retries while no node answers. The change may be made
// twice.
func (r *run) ask(ctx context.Context, f func(context.Context) error) error {
	_, err := until(ctx, r, StepWait, func(ctx context.Context) (struct{}, string, error) { return struct{}{}, "", f(ctx) })
	return err
}

func (r *run) once(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.Request)
	defer cancel()
	return f(ctx)
}

// unanswered reports whether an error will pass once the cluster has recovered from the loss
// of a node.
func unanswered(err error) bool {
	return api.CodeOf(err).Retryable() || errors.Is(err, context.DeadlineExceeded)
}
