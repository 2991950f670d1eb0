package v1

import (
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

func (v operateAPI) copies(r *http.Request) (answer, error) {
	topic, i, err := placeOf(r)
	if err != nil {
		return answer{}, err
	}
	return reply(v.of.Copies(r.Context(), topic, i))
}

func (v operateAPI) repair(r *http.Request) (answer, error) {
	var req api.RepairPartition
	if err := readJSON(r, &req); err != nil {
		return answer{}, err
	}
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
