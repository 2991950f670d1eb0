package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// PlanBalance returns the plan of a balance without changing anything.
func (o *Operator) PlanBalance() api.Balance {
	s := o.node.Meta.View()
	nodes := controller.ConditionsOf(s)
	load := nodeLoads(s)
	out := api.Balance{Nodes: []api.NodeLoad{}, Leaders: toPreferred(s, nodes), Moves: []api.Move{}}
	for _, m := range controller.PlanBalance(s, nodes, controller.DefaultMoves) {
		out.Moves = append(out.Moves, moveOf(m))
	}
	for n := range s.Nodes() {
		l := load[n.ID]
		out.Nodes = append(out.Nodes, api.NodeLoad{
			ID: string(n.ID), State: api.NodeState(n.State), Zone: n.Zone, Leaders: l.leaders, Preferred: l.preferred, Replicas: l.replicas,
		})
	}
	return out
}

func idsOf(names []string) (ids []meta.NodeID) {
	for _, n := range names {
		ids = append(ids, meta.NodeID(n))
	}
	return ids
}

func moveOf(m controller.Move) api.Move {
	return api.Move{Topic: m.Topic, Partition: m.Partition, From: texts(m.From), To: texts(m.To)}
}

// toPreferred lists the leaderships that could return to the preferred replica now, whatever the
// setting for doing so automatically.
func toPreferred(s *meta.State, nodes controller.Conditions) []api.LeaderMove {
	out := []api.LeaderMove{}
	meta.EachPartition(s, func(t *meta.Topic, i int, p *meta.Partition) {
		first := p.Replicas[0]
		if p.Leader != first && p.Leader != "" && !p.Moving() && nodes[first] == controller.Up && slices.Contains(p.ISR, first) {
			out = append(out, api.LeaderMove{Topic: t.Name, Partition: i, From: string(p.Leader), To: string(first)})
		}
	})
	return out
}

// StartBalance carries out what PlanBalance would list: for leaders, replicas or
// both; the limit bounds the replica moves, 0 means the controller's own limit. The
// result lists the moves started, even when err != nil, or in a dry run those that would be.
func (o *Operator) StartBalance(ctx context.Context, req api.StartBalance) (api.Balance, error) {
	if _, err := decidable(o.node); err != nil {
		return api.Balance{}, err
	}
	plan, limit := o.PlanBalance(), cmp.Or(req.Limit, controller.DefaultMoves)
	if !req.Leaders {
		plan.Leaders = []api.LeaderMove{}
	}
	if !req.Replicas {
		plan.Moves = []api.Move{}
	}
	plan.Moves = plan.Moves[:min(limit, len(plan.Moves))]
	if req.DryRun {
		return plan, nil
	}
	done := api.Balance{Nodes: plan.Nodes, Leaders: []api.LeaderMove{}, Moves: []api.Move{}, Started: true}
	var mu sync.Mutex // guards done, errs
	var errs []error
	fan.Out(plan.Leaders, askTogether, func(m api.LeaderMove) {
		err := o.transfer(ctx, m.Topic, m.Partition, meta.NodeID(m.To), meta.ReasonBalance)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, err)
			return
		}
		done.Leaders = append(done.Leaders, m)
	})
	slices.SortFunc(done.Leaders, func(a, b api.LeaderMove) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	for _, m := range plan.Moves {
		err := o.MovePartition(ctx, m.Topic, m.Partition, idsOf(m.To), false)
		if errors.Is(err, failure.TooManyMoves) {
			break // the rest is done later
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		done.Moves = append(done.Moves, m)
	}
	return done, errors.Join(errs...)
}

var askRaft = question[forward.Nothing, api.RaftMember]{"raft", func(o *Node, _ context.Context, _ forward.Nothing) (api.RaftMember, error) {
	return raftMember(o.Meta.Stats()), nil
}}

// raftMember returns a node's report of its part in the Raft group.
func raftMember(s raftstore.Stats) api.RaftMember {
	return api.RaftMember{
		Answered: true, Leader: s.IsLeader, Term: s.Term, LastIndex: s.LastIndex, CommitIndex: s.CommitIndex, AppliedIndex: s.AppliedIndex,
		SnapshotIndex: s.SnapshotIndex, LastContact: api.Duration(s.LastContact), LastContactMS: api.Milliseconds(s.LastContact), StoreBytes: s.StoreBytes,
	}
}

// raftOf describes the Raft group of the metadata: its leader ("": none known), its members, which
// of them are up, and a member's own report, if there is one.
func raftOf(leader meta.NodeID, c raftstore.Configuration, up func(meta.NodeID) bool, says func(meta.NodeID) (api.RaftMember, bool)) api.Raft {
	out := api.Raft{Leader: string(leader), Voters: len(c.Voters()), Tolerance: formation.Tolerance(c, up), Members: []api.RaftMember{}}
	for _, m := range c.Members {
		one, _ := says(m.ID)
		one.ID, one.Voter, one.Address = string(m.ID), m.Voter, m.Address
		out.Term = max(out.Term, one.Term)
		out.Members = append(out.Members, one)
	}
	return out
}

// Raft describes the metadata's Raft group as reported by each member.
func (o *Operator) Raft(ctx context.Context) api.Raft {
	c, s := o.node.members(), o.node.Meta.View()
	var ids []meta.NodeID
	for _, m := range c.Members {
		if n := s.Node(m.ID); m.ID == o.node.Self || n != nil && n.State != meta.NodeDown {
			ids = append(ids, m.ID)
		}
	}
	answers := askAll(ctx, o.node, askRaft, ids, func(meta.NodeID) forward.Nothing { return forward.Nothing{} })
	says := func(id meta.NodeID) (api.RaftMember, bool) { m, ok := answers[id]; return m, ok }
	leader, _ := o.node.Meta.Leader()
	return raftOf(leader, c, func(id meta.NodeID) bool { _, ok := answers[id]; return ok }, says)
}

// Tolerance returns how many more voters may fail before the metadata cannot change; negative: the
// number of missing voters. Without a leader at least one is missing.
func (o *Operator) Tolerance() int {
	s := o.node.Meta.View()
	n := formation.Tolerance(o.node.members(), func(id meta.NodeID) bool {
		n := s.Node(id)
		return n != nil && n.State != meta.NodeDown
	})
	if o.node.Meta.Members().Leaderless() > electionTime {
		return min(n, -1)
	}
	return n
}

// TransferController transfers metadata leadership to another voter, and returns when this node
// knows the new leader.
func (o *Operator) TransferController(ctx context.Context) error {
	if o.node.Agreement == nil {
		return forward.ErrAlone
	}
	was, _ := o.node.Meta.Leader()
	if err := o.node.Agreement.TransferController(ctx); err != nil {
		return err
	}
	o.node.await(ctx, o.node.Meta.LeaderChanged, func() bool {
		leader, ok := o.node.Meta.Leader()
		return ok && leader != was
	})
	return nil
}
