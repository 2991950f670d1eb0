package v1

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// defaultJournal is the default number of returned entries.
const defaultJournal = 1000

// auditAPI returns operators' changes and cluster events.
type auditAPI struct{ broker Audit }

func (v auditAPI) route(t *API) {
	t.handle("GET /v1/audit", v.audit)
	t.handle("GET /v1/events", v.events)
}

// span is which entries a request wants.
type span struct {
	since time.Time
	after uint64 // an index
	most  int
}

func spanOf(r *http.Request) (span, error) {
	q, s := r.URL.Query(), span{}
	var err error
	if s.since, err = timeIn(q, "since"); err != nil {
		return s, err
	}
	if text := q.Get("after"); text != "" {
		if s.after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return s, api.Errorf(failure.Invalid, "after %q is not an index", text)
		}
	}
	s.most, err = numberIn(q, defaultJournal, 1)
	return s, err
}

// last returns the last entries of a list, at most the given number.
func last[T any](all []T, most int) []T { return all[max(0, len(all)-most):] }

// ActOf returns an act as clients see it.
func ActOf(a *meta.Act) api.Act {
	return api.Act{
		Index: a.Index, At: time.Unix(0, a.At).UTC(), Node: string(a.Node), Actor: a.Actor, Identity: a.Identity, Agent: a.Agent, Verb: a.Verb, Object: a.Object,
		Request: a.Request, Before: a.Before, After: a.After, Reason: a.Reason, Status: a.Status,
	}
}

func (v auditAPI) audit(r *http.Request) (answer, error) {
	s, err := spanOf(r)
	if err != nil {
		return answer{}, err
	}
	q := r.URL.Query()
	out := api.AuditLog{Acts: []api.Act{}}
	for _, a := range v.broker.Journal().Acts() {
		at := time.Unix(0, a.At).UTC()
		who := strings.Contains(a.Actor, q.Get("actor")) || strings.Contains(a.Identity, q.Get("actor"))
		if a.Index <= s.after || at.Before(s.since) || !who || !about(a.Object, q.Get("object")) {
			continue
		}
		out.Acts = append(out.Acts, ActOf(a))
	}
	out.Acts = last(out.Acts, s.most)
	return success(out)
}

// about reports whether an object is the requested one, or belongs to it; "" matches all.
func about(object, wanted string) bool {
	return wanted == "" || object == wanted || strings.HasPrefix(object, wanted+"/")
}

func (v auditAPI) events(r *http.Request) (answer, error) {
	s, err := spanOf(r)
	if err != nil {
		return answer{}, err
	}
	out := api.EventLog{Events: []api.Event{}}
	for _, e := range v.broker.Journal().Events(s.after) {
		at := time.Unix(0, e.At).UTC()
		if !at.Before(s.since) && about(e.Object, r.URL.Query().Get("object")) {
			out.Events = append(out.Events, api.Event{Index: e.Index, At: at, Kind: e.Kind, Object: e.Object, What: e.What})
		}
	}
	out.Events = last(out.Events, s.most)
	return success(out)
}
