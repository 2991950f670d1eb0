package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// Balance is how leaders and replicas are spread, and what would spread them
// better.
type Balance struct {
	Nodes   []NodeLoad // by id
	Leaders []LeaderMove
	Moves   []controller.Move
}

// LeaderMove is a change of one partition's leader.
type LeaderMove struct {
	Topic     string
	Partition int
	From, To  meta.NodeID
}

// NodeLoad is what a node has of all partitions.
type NodeLoad struct {
	ID, State, Zone              string
	Leaders, Preferred, Replicas int
}

// PlanBalance says what a balance would do, and changes nothing.
func (o *Operator) PlanBalance() Balance {
	s := o.node.Meta.View()
	nodes := controller.ConditionsOf(s)
	load := nodeLoads(s)
	out := Balance{Leaders: toPreferred(s, nodes), Moves: controller.PlanBalance(s, nodes, controller.DefaultMoves)}
	for n := range s.Nodes() {
		l := load[n.ID]
		out.Nodes = append(out.Nodes, NodeLoad{string(n.ID), string(n.State), n.Zone, l.leaders, l.preferred, l.replicas})
	}
	return out
}

// toPreferred lists the leaderships that could go to the preferred replica now,
// whatever the settings say of doing so by itself.
func toPreferred(s *meta.State, nodes controller.Conditions) []LeaderMove {
	var out []LeaderMove
	meta.EachPartition(s, func(t *meta.Topic, i int, p *meta.Partition) {
		first := p.Replicas[0]
		if p.Leader != first && p.Leader != "" && !p.Moving() && nodes[first] == controller.Up && slices.Contains(p.ISR, first) {
			out = append(out, LeaderMove{t.Name, i, p.Leader, first})
		}
	})
	return out
}

// StartBalance carries out what PlanBalance would list: for leaders, replicas or
// both; limit bounds the replica moves, 0 means the controller's own limit. The
// result lists the moves started, even when err != nil.
func (o *Operator) StartBalance(ctx context.Context, leaders, replicas bool, limit int) (Balance, error) {
	s := o.node.Meta.View()
	nodes := controller.ConditionsOf(s)
	done := Balance{Nodes: o.PlanBalance().Nodes}
	var mu sync.Mutex // guards done, errs
	var errs []error
	if leaders {
		fan.Out(toPreferred(s, nodes), askTogether, func(m LeaderMove) {
			err := o.transfer(ctx, m.Topic, m.Partition, m.To, meta.ReasonBalance)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			done.Leaders = append(done.Leaders, m)
		})
		slices.SortFunc(done.Leaders, func(a, b LeaderMove) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
	}
	if !replicas {
		return done, errors.Join(errs...)
	}
	if limit <= 0 || limit > controller.DefaultMoves {
		limit = controller.DefaultMoves
	}
	for _, m := range controller.PlanBalance(s, nodes, limit) {
		err := o.MovePartition(ctx, m.Topic, m.Partition, m.To)
		if errors.Is(err, controller.ErrTooManyMoves) {
			break // the rest another time
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		done.Moves = append(done.Moves, m)
	}
	return done, errors.Join(errs...)
}

// RaftInfo is the agreement on metadata.
type RaftInfo struct {
	Leader    string
	Term      uint64
	Voters    int
	Tolerance int          // voters that may fail yet; negative: so many are missing
	Members   []RaftMember // by id
}

// RaftMember is one node's part in the agreement. The Stats are nil where it did
// not answer.
type RaftMember struct {
	raftstore.Member
	Stats *RaftStats
}

// RaftStats is what one node says of its part.
type RaftStats struct {
	IsLeader                                                  bool
	Term, LastIndex, CommitIndex, AppliedIndex, SnapshotIndex uint64
	LastContact                                               time.Duration // since it heard of the leader; -1: never
	StoreBytes                                                int64
}

var askRaft = question[forward.Nothing, RaftStats]{"raft", func(o *Node, _ context.Context, _ forward.Nothing) (RaftStats, error) {
	return raftStats(o.Meta.Stats()), nil
}}

func raftStats(s raftstore.Stats) RaftStats {
	return RaftStats{
		IsLeader: s.IsLeader, Term: s.Term, LastIndex: s.LastIndex, CommitIndex: s.CommitIndex, AppliedIndex: s.AppliedIndex,
		SnapshotIndex: s.SnapshotIndex, LastContact: s.LastContact, StoreBytes: s.StoreBytes,
	}
}

// Raft describes the agreement on metadata, and what each member says of it.
func (o *Operator) Raft(ctx context.Context) RaftInfo {
	c := o.node.members()
	s := o.node.Meta.View()
	out := RaftInfo{Voters: len(c.Voters())}
	if leader, ok := o.node.Meta.Leader(); ok {
		out.Leader = string(leader)
	}
	var ids []meta.NodeID
	for _, m := range c.Members {
		if n := s.Node(m.ID); m.ID == o.node.Self || n != nil && n.State != meta.NodeDown {
			ids = append(ids, m.ID)
		}
	}
	answers := askAll(ctx, o.node, askRaft, ids, func(meta.NodeID) forward.Nothing { return forward.Nothing{} })
	out.Tolerance = formation.Tolerance(c, func(id meta.NodeID) bool { _, ok := answers[id]; return ok })
	for _, m := range c.Members {
		member := RaftMember{Member: m}
		if a, ok := answers[m.ID]; ok {
			member.Stats = &a
			out.Term = max(out.Term, a.Term)
		}
		out.Members = append(out.Members, member)
	}
	return out
}

// Tolerance returns how many voters may fail yet before the metadata cannot
// change; negative: so many are missing. Without a leader one is, at least.
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

// TransferController has another voter lead the metadata, and returns when this
// node knows which one does.
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
