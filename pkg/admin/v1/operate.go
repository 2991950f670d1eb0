package v1

import (
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// operateAPI performs operators' changes of nodes, leaders and replicas. Every change is answered
// with the state of its object after it.
type operateAPI struct{ of Operator }

func (v operateAPI) route(t *API) {
	t.handle("GET /v1/cluster/balance", v.planBalance)
	t.handle("POST /v1/cluster/balance", with(readJSON, v.startBalance))
	t.handle("GET /v1/cluster/raft", v.raft)
	t.handle("POST /v1/cluster/raft/transfer", v.transferController)
	t.handle("GET /v1/nodes/{node}", v.node)
	t.handle("POST /v1/nodes/{node}/drain", with(readOptionalJSON, v.drain))
	t.handle("POST /v1/nodes/{node}/undrain", v.undrain)
	t.handle("POST /v1/nodes/{node}/decommission", with(readOptionalJSON, v.decommission))
	t.handleTry("DELETE /v1/nodes/{node}", v.remove)
	t.handle("GET /v1/topics/{topic}/partitions/{partition}", v.partition)
	t.handle("POST /v1/topics/{topic}/partitions/{partition}/transfer", with(readOptionalJSON, v.transfer))
	t.handle("POST /v1/topics/{topic}/partitions/{partition}/elect", with(readOptionalJSON, v.elect))
	t.handle("POST /v1/topics/{topic}/partitions/{partition}/move", with(readJSON, v.move))
	t.handle("DELETE /v1/topics/{topic}/partitions/{partition}/move", v.cancelMove)
	t.handle("GET /v1/topics/{topic}/partitions/{partition}/repair", v.copies)
	t.handle("POST /v1/topics/{topic}/partitions/{partition}/repair", with(readJSON, v.repair))
}

// nodeOf reads the node that the path names.
func nodeOf(r *http.Request) meta.NodeID { return meta.NodeID(r.PathValue("node")) }

func (v operateAPI) node(r *http.Request) (answer, error) {
	return reply(v.of.DescribeNode(r.Context(), nodeOf(r)))
}

func (v operateAPI) drain(r *http.Request, req api.DrainNode) (answer, error) {
	web.ActOf(r.Context()).DryRun = req.DryRun
	return then(v.of.DrainNode(r.Context(), nodeOf(r), req), r, v.node)
}

func (v operateAPI) undrain(r *http.Request) (answer, error) {
	return then(v.of.UndrainNode(r.Context(), nodeOf(r)), r, v.node)
}

func (v operateAPI) decommission(r *http.Request, req api.DecommissionNode) (answer, error) {
	web.ActOf(r.Context()).DryRun = req.DryRun
	return then(v.of.DecommissionNode(r.Context(), nodeOf(r), req.Force, req.DryRun), r, v.node)
}

func (v operateAPI) remove(r *http.Request) (answer, error) {
	lose, err := yesNo(r, "lose_deleted")
	if err != nil {
		return answer{}, err
	}
	dryRun, err := isDryRun(r)
	if err != nil {
		return answer{}, err
	}
	return done(v.of.RemoveNode(r.Context(), nodeOf(r), lose, dryRun))
}

// placeOf reads the topic and the partition that the path names.
func placeOf(r *http.Request) (topic string, partition int, err error) {
	topic = r.PathValue("topic")
	if !meta.ValidTopicName(topic) {
		return "", 0, failure.InvalidTopic
	}
	p, err := partitionOf(r.PathValue("partition"))
	if err != nil {
		return "", 0, err
	}
	return topic, *p, nil
}

func (v operateAPI) partition(r *http.Request) (answer, error) {
	topic, i, err := placeOf(r)
	if err != nil {
		return answer{}, err
	}
	return reply(v.of.DescribePartition(r.Context(), topic, i))
}

// onPartition carries out a change of the partition that the path names.
func (v operateAPI) onPartition(r *http.Request, change func(topic string, i int) error) (answer, error) {
	topic, i, err := placeOf(r)
	if err == nil {
		err = change(topic, i)
	}
	if err != nil {
		return answer{}, err
	}
	return v.partition(r)
}

func (v operateAPI) transfer(r *http.Request, req api.TransferLeader) (answer, error) {
	return v.onPartition(r, func(topic string, i int) error {
		return v.of.TransferLeader(r.Context(), topic, i, meta.NodeID(req.To))
	})
}

func (v operateAPI) elect(r *http.Request, req api.ElectLeader) (answer, error) {
	if req.Unclean && req.To == "" {
		return answer{}, api.Errorf(failure.Invalid, "an unclean election requires the node whose replica to keep")
	}
	return v.onPartition(r, func(topic string, i int) error {
		return v.of.ElectLeader(r.Context(), topic, i, meta.NodeID(req.To), req.Unclean)
	})
}

func (v operateAPI) move(r *http.Request, req api.MovePartition) (answer, error) {
	web.ActOf(r.Context()).DryRun = req.DryRun
	target := make([]meta.NodeID, len(req.Replicas))
	for i, id := range req.Replicas {
		target[i] = meta.NodeID(id)
	}
	return v.onPartition(r, func(topic string, i int) error {
		return v.of.MovePartition(r.Context(), topic, i, target, req.DryRun)
	})
}

func (v operateAPI) cancelMove(r *http.Request) (answer, error) {
	return v.onPartition(r, func(topic string, i int) error { return v.of.CancelMove(r.Context(), topic, i) })
}

func (v operateAPI) planBalance(*http.Request) (answer, error) {
	return success(v.of.PlanBalance())
}

func (v operateAPI) startBalance(r *http.Request, req api.StartBalance) (answer, error) {
	if !req.Leaders && !req.Replicas || req.Limit < 0 {
		return answer{}, api.Errorf(failure.Invalid, "set leaders, replicas or both; limit must not be negative")
	}
	web.ActOf(r.Context()).DryRun = req.DryRun
	b, err := v.of.StartBalance(r.Context(), req)
	if err != nil && len(b.Leaders)+len(b.Moves) == 0 {
		return answer{}, err
	}
	return success(b) // changes that failed are in the next plan
}

func (v operateAPI) raft(r *http.Request) (answer, error) {
	return success(v.of.Raft(r.Context()))
}

func (v operateAPI) transferController(r *http.Request) (answer, error) {
	return then(v.of.TransferController(r.Context()), r, v.raft)
}

// readOptionalJSON reads a body that may be left out.
func readOptionalJSON(r *http.Request, into any) error {
	if r.ContentLength == 0 {
		return nil
	}
	return readJSON(r, into)
}

func (v operateAPI) copies(r *http.Request) (answer, error) {
	topic, i, err := placeOf(r)
	if err != nil {
		return answer{}, err
	}
	return reply(v.of.Copies(r.Context(), topic, i))
}

func (v operateAPI) repair(r *http.Request, req api.RepairPartition) (answer, error) {
	if req.Node == "" || req.AcceptLoss == (req.Discard != "") {
		return answer{}, api.Errorf(failure.Invalid, "give a node, and either the set-aside copy to discard or accept_loss")
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
