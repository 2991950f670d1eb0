package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

// DrainNode requests that a node lead nothing. Unless it is forced, it is refused if a partition
// would have no leader, and with stopping if one would fall below its min ISR without the node's
// replicas. It returns once the request is in the metadata: the controller acts on it. A dry run
// only checks whether it is refused.
func (o *Operator) DrainNode(ctx context.Context, id meta.NodeID, req api.DrainNode) error {
	s, err := decidable(o.node)
	if err != nil {
		return err
	}
	if err := controller.CheckDrain(s, controller.ConditionsOf(s), id, req.Stopping); err != nil && (!req.Force || !errors.Is(err, failure.CannotDrain)) {
		return err
	}
	if req.DryRun {
		return nil
	}
	return o.intend(ctx, id, meta.IntentDrain)
}

// decidable returns the metadata for a decision about nodes. Without a leader it is outdated: it shows nodes
// as up that have stopped since. Then decidable fails with failure.NoQuorum.
func decidable(o *Node) (*meta.State, error) {
	return o.Meta.View(), undecidable(o.Meta.Members().Leaderless(), o.silent())
}

// undecidable returns why nothing is decided about nodes if the metadata has had no leader for a time;
// nil if there is one. silent are the members that do not respond.
func undecidable(gone time.Duration, silent []string) error {
	if r, missing := leaderless(gone, silent); missing {
		return fmt.Errorf("%s; %w", r.What, failure.NoQuorum)
	}
	return nil
}

// UndrainNode cancels a drain or a decommission.
func (o *Operator) UndrainNode(ctx context.Context, id meta.NodeID) error {
	return o.intend(ctx, id, meta.IntentNone)
}

// DecommissionNode requests that a node's replicas move away. Unless it is forced, it is refused if
// there are too few other nodes. A dry run only checks whether it is refused.
func (o *Operator) DecommissionNode(ctx context.Context, id meta.NodeID, force, dryRun bool) error {
	s, err := decidable(o.node)
	if err != nil {
		return err
	}
	if err := checkDecommission(s, controller.ConditionsOf(s), id); err != nil && (!force || !errors.Is(err, failure.TooFewNodes)) {
		return err
	}
	if dryRun {
		return nil
	}
	return o.intend(ctx, id, meta.IntentDecommission)
}

func (o *Operator) intend(ctx context.Context, id meta.NodeID, intent meta.NodeIntent) error {
	_, err := o.node.host.Propose(ctx, meta.SetNodeIntent{ID: id, Intent: intent})
	return failure.About("node "+string(id), err)
}

// checkDecommission returns nil if the other nodes can take a node's replicas.
func checkDecommission(s *meta.State, nodes controller.Conditions, id meta.NodeID) error {
	if s.Node(id) == nil {
		return fmt.Errorf("node %s: %w", id, failure.NodeNotFound)
	}
	room := 0
	for n := range s.Nodes() {
		if n.ID != id && nodes[n.ID] == controller.Up {
			room++
		}
	}
	var err error
	meta.EachPartition(s, func(t *meta.Topic, i int, p *meta.Partition) {
		if target := p.Target(); err == nil && slices.Contains(target, id) && len(target) > room {
			err = fmt.Errorf("%s/%d has %d replicas, but without %s only %d nodes can hold them: %w",
				t.Name, i, len(target), id, room, failure.TooFewNodes)
		}
	})
	return err
}

// RemoveNode permanently removes a node that holds nothing. It can be repeated after a partial
// failure. Without loseDeleted it is refused with failure.OnlyCopies if deleted topics could no
// longer be restored. A dry run changes nothing.
func (o *Operator) RemoveNode(ctx context.Context, id meta.NodeID, loseDeleted, dryRun bool) error {
	c := meta.RemoveNode{ID: id, LoseDeleted: loseDeleted}
	s, err := decidable(o.node)
	if err != nil {
		return err
	}
	n := s.Node(id)
	_, member := o.node.members().Find(id)
	if n == nil && !member {
		return fmt.Errorf("node %s: %w", id, failure.NodeNotFound)
	}
	if n != nil {
		if left := controller.Remaining(s, id); left > 0 {
			return fmt.Errorf("%s holds replicas of %d partitions: %w", id, left, failure.NodeInUse)
		}
		if member && len(o.node.members().Voters()) == 1 && o.node.members().Voters()[0] == id {
			return fmt.Errorf("node %s: %w", id, failure.LastVoter)
		}
		if r := s.Snapshot().Apply(s.Index()+1, c); dryRun || r.Err != nil {
			return r.Err
		}
	}
	switch {
	case dryRun:
		return nil
	case o.node.Agreement != nil:
		return o.removeMember(ctx, c)
	}
	_, err = o.node.host.Propose(ctx, c)
	return err
}

// removeMember removes a node. One that has removed itself may not learn the outcome from the new controller.
func (o *Operator) removeMember(ctx context.Context, c meta.RemoveNode) error {
	id := c.ID
	err := o.node.Agreement.RemoveMember(ctx, c)
	if err == nil || fate.Of(err) == fate.Refused {
		return err
	}
	gone := o.node.await(ctx, o.node.Meta.Changed, func() bool {
		_, member := o.node.members().Find(id)
		return !member && o.node.Meta.Node(id) == nil
	})
	if gone {
		return nil
	}
	return err
}

// await waits briefly until f is true, and reports whether it is. changed returns a channel that is
// closed when f should be checked again.
func (o *Node) await(ctx context.Context, changed func() <-chan struct{}, f func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for {
		next := changed()
		if f() {
			return true
		}
		again := time.NewTimer(askPause)
		select {
		case <-next:
		case <-again.C: // the checked state may also change without a signal
		case <-ctx.Done():
			again.Stop()
			return false
		}
		again.Stop()
	}
}

// removable reports whether a node may be removed.
func removable(s *meta.State, n *meta.Node) bool {
	return controller.Remaining(s, n.ID) == 0 && (n.Intent == meta.IntentDecommission || n.State == meta.NodeDown)
}

var askTroubles = question[forward.Nothing, []controller.Trouble]{"troubles", func(o *Node, _ context.Context, _ forward.Nothing) ([]controller.Trouble, error) {
	if o.Agreement == nil {
		return nil, nil
	}
	d, ok := o.Agreement.Controller()
	if !ok {
		return nil, failure.NotController
	}
	return d.Troubles, nil
}}

// troubles returns what the controller cannot do, for the partitions that f chooses. Without a
// controller there are none.
func (o *Node) troubles(ctx context.Context, f func(controller.Trouble) bool) []controller.Trouble {
	all, err := askTroubles.answer(o, ctx, forward.Nothing{})
	if errors.Is(err, failure.NotController) {
		leader, ok := o.Meta.Leader()
		if !ok || leader == o.Self {
			return nil
		}
		one, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		all, err = askTroubles.ask(one, o, leader, forward.Nothing{})
	}
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(all), func(t controller.Trouble) bool { return !f(t) })
}

// DescribeNode describes a node.
func (o *Operator) DescribeNode(ctx context.Context, id meta.NodeID) (api.NodeDetail, error) {
	s := o.node.Meta.View()
	n := s.Node(id)
	if n == nil {
		return api.NodeDetail{}, fmt.Errorf("node %s: %w", id, failure.NodeNotFound)
	}
	m, _ := o.node.members().Find(id)
	_, led := o.node.Meta.Leader()
	out := api.NodeDetail{
		Node: nodeInfo(n, m.Voter, nodeLoads(s)[id], o.node.answers(id), led), Removable: removable(s, n), Partitions: []api.NodePartition{}, Troubles: []api.Trouble{}, IfStopped: []api.Trouble{},
	}
	out.DeletedTopics, out.OnlyCopies = meta.TrashOf(s).Of(id)
	var moving []partitionAt
	meta.EachPartition(s, func(t *meta.Topic, i int, p *meta.Partition) {
		if !slices.Contains(p.Replicas, id) {
			return
		}
		out.Partitions = append(out.Partitions, api.NodePartition{
			Topic: t.Name, Partition: i, Leader: p.Leader == id, InSync: slices.Contains(p.ISR, id),
			Adding: slices.Contains(p.Adding, id), Removing: slices.Contains(p.Removing, id),
		})
		if p.Moving() {
			moving = append(moving, partitionAt{t.Name, i})
		}
	})
	if n.Intent != meta.IntentNone {
		out.Left.Leaders = out.Leaders
	}
	if n.State != meta.NodeDown {
		out.IfStopped = ifStopped(s, id)
	}
	if n.Intent == meta.IntentDecommission {
		out.Left.Replicas = out.Replicas
	}
	if len(moving) > 0 {
		o.node.progress(ctx, s, moving, &out.Left)
	}
	if n.Intent != meta.IntentNone {
		out.Troubles = apiTroubles(o.node.troubles(ctx, func(t controller.Trouble) bool {
			return slices.Contains(t.Nodes, id) || slices.ContainsFunc(out.Partitions, func(p api.NodePartition) bool {
				return p.Topic == t.Topic && p.Partition == t.Partition
			})
		}))
	}
	return out, nil
}

// ifStopped returns the partitions that would have no leader, or refuse messages, if a node stopped now.
func ifStopped(s *meta.State, id meta.NodeID) []api.Trouble {
	if refused, ok := errors.AsType[*controller.DrainError](controller.CheckDrain(s, controller.ConditionsOf(s), id, true)); ok {
		return apiTroubles(refused.Troubles)
	}
	return []api.Trouble{}
}

// troubleWords describe each kind of trouble.
var troubleWords = map[string]string{
	"offline": "no in-sync replica is alive",
	"drain":   "no other in-sync replica is available to lead",
	"no_room": "no eligible node for the replica",
	"move":    "node of an added replica is down",
	"min_isr": "the in-sync replicas would fall below min_isr",
}

func apiTroubles(all []controller.Trouble) []api.Trouble {
	out := make([]api.Trouble, 0, len(all))
	for _, t := range all {
		what := troubleWords[string(t.Kind)]
		if what == "" {
			what = strconv.Quote(string(t.Kind))
		}
		out = append(out, api.Trouble{Kind: string(t.Kind), Topic: t.Topic, Partition: t.Partition, Nodes: texts(t.Nodes), What: what})
	}
	return out
}
