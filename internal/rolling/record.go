package rolling

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// maxRecord is the maximum length of a record: the audit log keeps that many bytes of a reason.
const maxRecord = 400

// Journal is the number of entries of the audit log that are searched for the last
// run.
const Journal = 10_000

// The states of a node in a record.
const (
	stateDrained   = "drained"
	stateRestarted = "restarted"
	stateKept      = "not restarted"
)

// Record is the state of a run, stored as the reason of its last act in the audit log. A run therefore
// stores nothing besides the record of its acts.
type Record struct {
	Verb        string    // restart or upgrade
	Begun       time.Time // distinguishes runs
	Node        string
	State       string   // of the node: drained, restarted or not restarted
	Incarnation uint64   // of the node when it was drained
	Version     string   // likewise
	Pending     []string // nodes after it; nil if Unlisted is not 0
	Unlisted    int      // number of pending nodes, if they are too many to be listed
	Act         api.Act  // from which the record was read
}

// String returns the record as the reason of an act.
func (r *Record) String() string {
	text := fmt.Sprintf("rolling %s begun %s: %s %s", r.Verb, r.Begun.UTC().Format(time.RFC3339Nano), r.Node, r.State)
	if r.State == stateDrained {
		text += fmt.Sprintf(", incarnation %d, version %s", r.Incarnation, r.Version)
	}
	pending := strings.Join(r.Pending, " ")
	switch {
	case len(r.Pending) == 0:
		pending = "none"
	case len(text)+len(pending) > maxRecord:
		pending = fmt.Sprintf("(%d)", len(r.Pending))
	}
	return text + "; pending " + pending
}

var recorded = regexp.MustCompile(`^rolling (restart|upgrade) begun (\S+): (\S+) (drained|restarted|not restarted)` +
	`(?:, incarnation (\d+), version ([^;]*))?; pending (none|\(\d+\)|[^;]+)(?:;.*)?$`)

// parseRecord reads the record of an act, if it has one.
func parseRecord(a *api.Act) (*Record, bool) {
	m := recorded.FindStringSubmatch(a.Reason)
	if m == nil || a.Status >= http.StatusMultipleChoices || a.Object != m[3] {
		return nil, false
	}
	begun, err := time.Parse(time.RFC3339, m[2]) //nolint:forbidigo // written by text
	if err != nil {
		return nil, false
	}
	r := &Record{Verb: m[1], Begun: begun, Node: m[3], State: m[4], Version: m[6], Act: *a}
	if m[5] != "" {
		if r.Incarnation, err = strconv.ParseUint(m[5], 10, 64); err != nil {
			return nil, false
		}
	}
	switch pending := m[7]; {
	case pending == "none":
	case strings.HasPrefix(pending, "("):
		if r.Unlisted, err = strconv.Atoi(strings.Trim(pending, "()")); err != nil {
			return nil, false
		}
	default:
		r.Pending = strings.Fields(pending)
	}
	return r, true
}

// by returns who began the run.
func (r *Record) by() string { return cmp.Or(r.Act.Identity, r.Act.Actor) }

// drainedBefore returns the record of another run that drained a node before the run that was begun at
// own, and whose drain has not been cancelled; nil if there is none. It returns false if acts, the oldest
// first, do not have the drain of own.
func drainedBefore(acts []api.Act, node string, own time.Time) (first *Record, recorded bool) {
	for i := range acts {
		a := &acts[i]
		if a.Object == node && strings.HasSuffix(a.Verb, "/undrain") && a.Status < http.StatusMultipleChoices {
			first = nil
			continue
		}
		r, ok := parseRecord(a)
		switch {
		case !ok || r.Node != node || r.State != stateDrained:
		case r.Begun.Equal(own):
			return first, true
		case first == nil:
			first = r
		}
	}
	return nil, false
}

// Unfinished is a run that has not ended: it was interrupted, or is in progress.
type Unfinished struct {
	Record
	Nodes   []string // still to be restarted, in order
	Drained bool     // the node of the record is still drained
}

// UnfinishedIn returns the last run in the audit log, unless it has ended. acts are the entries, the
// oldest first.
func UnfinishedIn(acts []api.Act, c *api.Cluster) (*Unfinished, bool) {
	var last *Record
	done := map[string]bool{} // restarted by the last run
	for i := len(acts) - 1; i >= 0; i-- {
		r, ok := parseRecord(&acts[i])
		switch {
		case !ok:
			continue
		case last == nil:
			last = r
		case r.Verb != last.Verb || !r.Begun.Equal(last.Begun):
			continue
		}
		if r.State == stateRestarted {
			done[r.Node] = true
		}
	}
	if last == nil {
		return nil, false
	}
	u := &Unfinished{Record: *last, Nodes: last.Pending}
	if last.Unlisted > 0 {
		all, _ := chosen(c, nil) // no node is named, so none can be missing
		for _, n := range all {
			if !done[n.ID] && n.ID != last.Node {
				u.Nodes = append(u.Nodes, n.ID)
			}
		}
	}
	if last.State != stateRestarted {
		u.Nodes = slices.Concat([]string{last.Node}, u.Nodes)
	}
	u.Nodes = slices.DeleteFunc(slices.Clone(u.Nodes), func(id string) bool {
		return !slices.ContainsFunc(c.Nodes, func(n api.Node) bool { return n.ID == id }) // it was removed meanwhile
	})
	u.Drained = last.State == stateDrained && slices.ContainsFunc(c.Nodes, func(n api.Node) bool {
		return n.ID == last.Node && n.Intent == api.IntentDrain
	})
	return u, len(u.Nodes) > 0
}

// String describes the state of the run.
func (u *Unfinished) String() string {
	var what string
	switch {
	case u.Drained:
		what = fmt.Sprintf("node %s is still drained by a rolling %s, which was interrupted or is in progress", u.Node, u.Verb)
	case u.State == stateRestarted:
		what = fmt.Sprintf("a rolling %s ended after node %s, before its end", u.Verb, u.Node)
	case u.State == stateKept:
		what = fmt.Sprintf("a rolling %s ended at node %s, before its end", u.Verb, u.Node)
	default:
		what = fmt.Sprintf("a rolling %s ended at node %s, which is not drained any more, before its end", u.Verb, u.Node)
	}
	return fmt.Sprintf("%s (begun %s by %s, last act %s); pending: %s", what,
		u.Begun.Format(time.DateTime), u.by(), u.Act.At.UTC().Format(time.DateTime), strings.Join(u.Nodes, ","))
}
