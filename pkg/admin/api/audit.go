package api

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// ReasonHeader is the header that gives the reason for a change, for the audit log. The query
// parameter reason has the same effect.
const ReasonHeader = "X-Reason"

// SystemUserHeader is the header with the name of the operating system's user who runs the program that makes a change,
// for the audit log. It proves nothing, and counts only while access control is off. In an entry the name begins with
// meta.SystemUser.
const SystemUserHeader = "X-System-User"

// AuditLog lists operator actions, oldest first.
type AuditLog struct {
	Acts []Act `json:"acts"`
}

// Act is one operator action.
type Act struct {
	Index    uint64    `json:"index"` // grows with each
	At       time.Time `json:"at"`
	Node     string    `json:"node"`  // of the node that was asked
	Actor    string    `json:"actor"` // the address of the client
	Identity string    `json:"identity,omitempty"`
	Agent    string    `json:"agent,omitempty"` // the user agent
	Verb     string    `json:"verb"`            // method and path
	Object   string    `json:"object,omitempty"`
	Request  string    `json:"request,omitempty"`
	Before   string    `json:"before,omitempty"` // the object before the change, in JSON, if it has changed
	After    string    `json:"after,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Status   int       `json:"status"` // of the answer
}

// EventLog lists cluster events, oldest first.
type EventLog struct {
	Events []Event `json:"events"`
}

// Event is one change of the cluster's state, whatever caused it.
type Event struct {
	Index  uint64    `json:"index"` // grows with each
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"`
	Object string    `json:"object,omitempty"`
	What   string    `json:"what"`
}

// JournalOptions selects entries. The zero value selects the last 1,000.
type JournalOptions struct {
	Since  time.Time
	After  uint64 // the index of an entry: only later entries
	Actor  string // a part of the address or identity
	Object string // a topic is that of its channels and partitions, too
	Max    int    // the last ones; 0: 1,000
}

func (o JournalOptions) query() url.Values {
	q := url.Values{}
	if !o.Since.IsZero() {
		q.Set("since", o.Since.UTC().Format(time.RFC3339Nano))
	}
	if o.After > 0 {
		q.Set("after", strconv.FormatUint(o.After, 10))
	}
	if o.Actor != "" {
		q.Set("actor", o.Actor)
	}
	if o.Object != "" {
		q.Set("object", o.Object)
	}
	if o.Max > 0 {
		q.Set("n", strconv.Itoa(o.Max))
	}
	return q
}

// Audit returns operators' changes.
func (i Insights) Audit(ctx context.Context, o JournalOptions) (*AuditLog, error) {
	return find[AuditLog](ctx, i.t, path("audit"), o.query())
}

// Events returns events of the cluster.
func (i Insights) Events(ctx context.Context, o JournalOptions) (*EventLog, error) {
	return find[EventLog](ctx, i.t, path("events"), o.query())
}
