package operate

import (
	"context"
	"net/http"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// recordTimeout bounds how long an act, and its answer, waits for its entry in the audit log.
const recordTimeout = 2 * time.Second

// Recorder records operator actions and returns them.
type Recorder struct{ Node *Node }

// RecordAct adds an act of an operator to the audit log, and logs it. If it cannot be recorded,
// only the log of this node has it. The same applies to an act that was refused because something
// is unavailable: usually that is the metadata, which holds the audit log. f is the fate of an act that
// failed: one that may have changed something is recorded.
func (o *Recorder) RecordAct(ctx context.Context, a meta.Act, f fate.Fate) {
	a.Node = o.Node.Self
	log := o.Node.Log.With("verb", a.Verb, "object", a.Object, "status", a.Status, "actor", a.Actor, "identity", a.Identity, "reason", a.Reason)
	if a.Status == http.StatusServiceUnavailable && f == fate.Refused {
		log.Warn("operator action refused: it cannot be recorded in the audit log, because the node or the metadata is unavailable")
		return // do not delay the answer further
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if _, err := o.Node.host.Propose(ctx, meta.RecordAct{Act: a}); err != nil {
		log.Warn("operator action not recorded in the audit log: metadata cannot be changed", "error", err)
		return
	}
	log.Info("operator action")
}

// Journal returns the history kept in the metadata, as known on this node.
func (o *Recorder) Journal() meta.Journal { return meta.JournalOf(o.Node.Meta.View()) }
