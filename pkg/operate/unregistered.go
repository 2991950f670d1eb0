package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// askUnreached returns the members without a vote that do not answer the metadata leader, if the asked
// node is the leader.
var askUnreached = question[forward.Nothing, []formation.Unreached]{"unreached", func(o *Node, _ context.Context, _ forward.Nothing) ([]formation.Unreached, error) {
	return o.unreached(), nil
}}

func (o *Node) unreached() []formation.Unreached {
	if o.Unreached == nil {
		return nil
	}
	return o.Unreached()
}

// Unregistered returns the members of the Raft group that are not registered as nodes, by id: a node
// that joins is one for a moment, and one that the metadata leader cannot reach until it is removed.
func (o *Operator) Unregistered(ctx context.Context) []api.UnregisteredNode {
	n := o.node
	out := unregistered(n.Meta.View(), n.members(), n.answers)
	leader, known := n.Meta.Leader()
	if len(out) == 0 || !known {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all, err := askUnreached.ask(ctx, n, leader, forward.Nothing{})
	if err != nil {
		n.Log.Debug("metadata leader did not say which members it does not reach", "leader", leader, "error", err)
	}
	for i := range out {
		for _, u := range all {
			if string(u.Node) == out[i].ID {
				out[i].Reason = reasonOf(u)
			}
		}
	}
	return out
}

// Unregistered returns the members of the Raft group that are not registered as nodes on disk.
func (o *Outlook) Unregistered(context.Context) []api.UnregisteredNode {
	v := o.look()
	return unregistered(o.stored(v), v.members, o.there)
}

func unregistered(s *meta.State, c raftstore.Configuration, answers func(meta.NodeID) bool) []api.UnregisteredNode {
	out := []api.UnregisteredNode{}
	for _, m := range c.Members {
		if s.Node(m.ID) == nil {
			out = append(out, api.UnregisteredNode{ID: string(m.ID), ClusterAddress: m.Address, Voter: m.Voter, Silent: !answers(m.ID)})
		}
	}
	return out
}

// reasonOf says why a member is not reached, and until when it is a member.
func reasonOf(u formation.Unreached) string {
	text := fmt.Sprintf("no answer at %s since %s: %s", u.Address, u.Since.UTC().Format(time.DateTime), u.Why)
	if !u.Until.IsZero() {
		text += "; removed at " + u.Until.UTC().Format(time.DateTime)
	}
	return text
}

// unreachable reports the members that the metadata leader does not reach, unless they are down: that
// is another reason.
func unreachable(s *meta.State, all []formation.Unreached) (health.Reason, bool) {
	var names []string
	for _, u := range all {
		if n := s.Node(u.Node); n == nil || n.State != meta.NodeDown {
			names = append(names, fmt.Sprintf("%s at %s (%s)", u.Node, u.Address, u.Why))
		}
	}
	return health.Reason{Code: "member_unreachable", Count: len(names), What: "members do not answer the metadata leader at their cluster address, and get no vote; " +
		"correct cluster-address or advertise-cluster-address there, or remove them: " + health.Names(names)}, len(names) > 0
}
