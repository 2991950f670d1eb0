package formation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// prove returns the proof of a node's join token for a cluster; nil: it has no token.
func prove(o *Options, cluster string, self identity) (*access.JoinProof, error) {
	if o.JoinToken == nil {
		return nil, nil //nolint:nilnil // documented
	}
	text, err := o.JoinToken()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJoinToken, err)
	}
	if text == "" {
		return nil, nil //nolint:nilnil // documented
	}
	p, err := joiner(cluster, self).Prove(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJoinToken, err)
	}
	return &p, nil
}

func joiner(cluster string, who identity) access.Joiner {
	return access.Joiner{Cluster: cluster, Node: string(who.Node), Address: who.Address, Process: who.Session}
}

// redeem admits a node without state by its join token, and records that. It returns an error if
// the cluster requires a join token and this is no valid one for the node. Only the leader calls it.
// A token that is not required is recorded if it is valid, and otherwise has no effect.
func redeem(ctx context.Context, n *Node, s *raftstore.Store, who identity, proof *access.JoinProof) error {
	// A new leader may not have applied yet what its predecessor has committed.
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	d := raftstore.AccessOf(s)
	required := d.JoinTokensRequired()
	if !required && proof == nil {
		return nil
	}
	log := n.o.Logger.With("node", who.Node, "address", who.Address, "required", required)
	use, err := d.Redeem(proof, joiner(n.cluster(), who), time.Now().UnixNano())
	if err == nil && use != nil {
		_, err = s.Propose(ctx, meta.ChangeAccess{Change: *use})
		if err != nil && !errors.Is(err, access.ErrJoinTokenUsed) && !errors.Is(err, failure.TokenNotFound) {
			return err // the metadata cannot be changed now
		}
	}
	switch {
	case err != nil && required:
		log.Warn("node refused: it has no valid join token", "error", err)
		return fmt.Errorf("%w: %w; on a member of the cluster, run brokerctl node join-token create %s --out FILE, and set join-token-file of %s to that file", ErrJoinToken, err, who.Node, who.Node)
	case err != nil:
		log.Warn("join token has no effect; the cluster does not require one", "error", err)
		return nil
	case use == nil:
		return nil
	}
	log.Info("node admitted by its join token", "token", use.Join.ID)
	recordJoin(ctx, n, s, who, meta.Act{At: use.Join.Used, Request: "join token " + use.Join.ID, Status: http.StatusOK})
	return nil
}

// recordJoin adds an attempt to join to the audit log. If that fails, an admitted node joins all the
// same: the metadata says of its token who used it.
func recordJoin(ctx context.Context, n *Node, s *raftstore.Store, who identity, a meta.Act) {
	a.Node, a.Actor, a.Identity, a.Agent = n.self.Node, complaint.Short(who.Address), "node "+complaint.Short(string(who.Node)), "brokerd"
	a.Verb, a.Object = meta.ActJoin, complaint.Short(string(who.Node))
	if _, err := s.Propose(ctx, meta.RecordAct{Act: a}); err != nil {
		n.o.Logger.Warn("join not recorded in the audit log: metadata cannot be changed", "node", who.Node, "status", a.Status, "error", err)
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
	if errors.Is(err, ErrJoinToken) {
		status = http.StatusForbidden
	}
	recordJoin(ctx, n, s, who, meta.Act{At: now.UnixNano(), Request: why, Status: status})
}
