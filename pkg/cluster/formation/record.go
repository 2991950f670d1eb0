package formation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// change is a change of the members.
type change struct {
	act     action
	node    meta.NodeID
	address string
	by      identity    // the process that asked: the node itself, or the leader
	via     meta.NodeID // the member that relayed it; "": none
	why     string
}

// changeOf describes a change for a candidate, among the members before it. via has sent the request.
func changeOf(c raftstore.Configuration, act action, who candidate, via meta.NodeID) change {
	out := change{act: act, node: who.Node, address: who.Address, by: who.identity}
	if via != who.Node {
		out.via = via
	}
	m, _ := c.Find(who.Node)
	switch act { //nolint:exhaustive // the others change no member for a candidate
	case actAdd:
		out.why = "no vote until it has answered the metadata leader for " + stableFor.String()
	case actMove:
		out.why = "its address was " + m.Address
	case actRemove:
		out.why = "its vote is removed: it has lost its data, and joins again"
	case actDisplace:
		holder, _ := holderOf(c, who.identity)
		out.node, out.why = holder.ID, fmt.Sprintf("%s has taken over its address %s", who.Node, who.Address)
	}
	return out
}

// verbs are those of the audit log.
var verbs = map[action]string{
	actAdd: meta.ActJoin, actPromote: meta.ActPromote, actMove: meta.ActMove, actDisplace: meta.ActMove, actRemove: meta.ActExpel,
}

// changed logs a change of the members, and adds it to the audit log and the events.
func (n *Node) changed(ctx context.Context, s *raftstore.Store, c change) {
	n.o.Logger.Info("membership changed", "node", c.node, "address", c.address, "action", string(c.act), "asked_by", c.by.Node, "relayed_by", c.via, "reason", c.why)
	text := "address " + complaint.Short(c.address) + ": " + complaint.Short(c.why)
	if c.via != "" {
		text += " (relayed by node " + string(c.via) + ")"
	}
	record(ctx, n, s, c.by, meta.Act{Verb: verbs[c.act], Object: string(c.node), Request: text, Status: http.StatusOK})
}

// record adds to the audit log what a process asked for. If that fails, the change remains: the
// metadata has the members.
func record(ctx context.Context, n *Node, s *raftstore.Store, who identity, a meta.Act) {
	a.At, a.Node, a.Actor, a.Identity, a.Agent = time.Now().UnixNano(), n.self.Node, complaint.Short(who.Address), "node "+complaint.Short(string(who.Node)), "brokerd"
	a.Object = complaint.Short(a.Object)
	if _, err := s.Propose(ctx, meta.RecordAct{Act: a}); err != nil {
		n.o.Logger.Warn("change of the members not recorded in the audit log: metadata cannot be changed", "verb", a.Verb, "node", a.Object, "status", a.Status, "error", err)
	}
}

// Refusals are recorded once in refusalEvery for each node and reason, and at most maxRefusals in that time: a
// refused node may be restarted many times, and any program that reaches the cluster address can claim any id.
const (
	refusalEvery = time.Hour
	maxRefusals  = 20
)

// refusal is why a node was refused.
type refusal struct {
	node   meta.NodeID
	reason string
}

// recordRefusal adds a permanent refusal of a node to the audit log, and to the events. Only the leader calls it.
func recordRefusal(ctx context.Context, n *Node, s *raftstore.Store, who identity, err error) {
	now, why := time.Now(), complaint.Short(err.Error())
	if !final(err) || !n.refused.IsNew(refusal{who.Node, why}, now) {
		return
	}
	status := http.StatusConflict
	if errors.Is(err, ErrJoinToken) || errors.Is(err, ErrOpenPort) {
		status = http.StatusForbidden
	}
	record(ctx, n, s, who, meta.Act{Verb: meta.ActJoin, Object: string(who.Node), Request: why, Status: status})
}
