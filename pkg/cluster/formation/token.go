package formation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

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
	exposed := n.exposed(s)
	required := d.JoinTokensRequired() || exposed
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
	case err != nil && exposed:
		log.Warn("node refused: access control is on, the cluster port requires neither a secret nor TLS, and the node has no valid join token", "error", err)
		return fmt.Errorf("%w (%w); or run brokerctl node join-token create %s --out FILE, and set join-token-file of %s to that file", ErrOpenPort, err, who.Node, who.Node)
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
	record(ctx, n, s, who, meta.Act{Verb: meta.ActJoin, Object: string(who.Node), Request: "join token " + use.Join.ID, Status: http.StatusOK})
	return nil
}
