package v1

import (
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
)

func (v operateAPI) copies(r *http.Request) (answer, error) {
	topic, i, err := placeOf(r)
	if err != nil {
		return answer{}, err
	}
	nodes, silent, err := v.of.Copies(r.Context(), topic, i)
	if err != nil {
		return answer{}, err
	}
	return success(apiRepair(topic, i, nodes, silent))
}

func (v operateAPI) repair(r *http.Request) (answer, error) {
	var req api.RepairPartition
	if err := readJSON(r, &req); err != nil {
		return answer{}, err
	}
	if req.Node == "" || req.AcceptLoss == (req.Discard != "") {
		return answer{}, api.Errorf(api.CodeInvalid, "give a node, and either the set-aside copy to discard or accept_loss")
	}
	topic, i, err := placeOf(r)
	switch {
	case err != nil:
	case req.AcceptLoss:
		err = v.of.AcceptLoss(r.Context(), topic, i, meta.NodeID(req.Node))
	default:
		err = v.of.DiscardCopy(r.Context(), topic, i, meta.NodeID(req.Node), req.Discard)
	}
	if err != nil {
		return answer{}, err
	}
	return v.copies(r)
}

// apiRepair lists the copies of a partition.
func apiRepair(topic string, i int, nodes []operate.NodeCopies, silent []string) api.Repair {
	out := api.Repair{Topic: topic, Partition: i, Copies: []api.RepairCopy{}, SetAside: []api.SetAsideCopy{}, MissingNodes: silent}
	for _, n := range nodes {
		c := api.RepairCopy{Node: n.Node, Leader: n.Leader, InSync: n.InSync, Damage: []api.DamageRange{}}
		if l := n.Live; l != nil {
			c.Open, c.LogStart, c.CommittedEnd, c.LogEnd = true, uint64(l.LogStart), uint64(l.CommittedEnd), uint64(l.LogEnd)
			c.Damaged, c.Damage, c.Refusing, c.Lost = l.Damaged, apiDamage(l.Damage), l.Refusing, l.Lost
		}
		if n.Replica {
			out.Copies = append(out.Copies, c)
		}
		for _, s := range n.SetAside {
			out.SetAside = append(out.SetAside, api.SetAsideCopy{
				Node: n.Node, Name: s.Name, Path: s.Path, LogStart: uint64(s.LogStart), CommittedEnd: uint64(s.CommittedEnd), LogEnd: uint64(s.LogEnd),
				Damage: apiDamage(s.Damage), Unreadable: s.Unreadable, Why: s.Why, Waits: s.Waits,
			})
		}
	}
	return out
}

func apiDamage(all []commitlog.Damage) []api.DamageRange {
	out := make([]api.DamageRange, len(all))
	for i, d := range all {
		out[i] = api.DamageRange{File: d.Path, Position: d.Position, From: uint64(d.From), Next: uint64(d.Next)}
	}
	return out
}
