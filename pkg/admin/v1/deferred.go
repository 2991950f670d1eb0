package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/deferral"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/units"
)

// Deferrals are the deferred messages of channels: an operate.Deferrals.
type Deferrals interface {
	List(ctx context.Context, l deferral.Query) (deferral.Found, error)
	Reschedule(ctx context.Context, r deferral.Change) ([]deferral.Changed, error)
}

// deferredAPI is the deferred messages of channels.
type deferredAPI struct {
	one       messageAPI
	deferrals Deferrals
}

func (v deferredAPI) route(t *API) {
	of := v.one.messages.channels.of
	t.handle("GET /v1/topics/{topic}/channels/{channel}/deferred", of(v.list))
	t.handle("POST /v1/topics/{topic}/channels/{channel}/deferred/cancel", of(v.reschedule(deferral.Cancel, "cancelled")))
	t.handle("POST /v1/topics/{topic}/channels/{channel}/deferred/advance", of(v.reschedule(deferral.Advance, "advanced")))
}

// list returns a page of deferred messages.
func (v deferredAPI) list(r *http.Request, t *meta.Topic, name string) (answer, error) {
	q := r.URL.Query()
	req := deferral.Query{Topic: t.Name, Channel: name, Max: 100}
	var err error
	if req.Max, err = numberIn(q, req.Max, 0); err != nil {
		return answer{}, err
	}
	req.Max = min(req.Max, deferral.MaxPage)
	if req.Since, err = timeIn(q, "since"); err != nil {
		return answer{}, err
	}
	if req.Until, err = timeIn(q, "until"); err != nil {
		return answer{}, err
	}
	if text := q.Get("next"); text != "" {
		if req.After, err = deferredPlace(text); err != nil {
			return answer{}, err
		}
	}
	list, err := v.deferrals.List(r.Context(), req)
	if err != nil {
		return answer{}, err
	}
	ids := v.one.messages.channels.topics.numbering(t)
	out := api.DeferredList{Topic: t.Name, Channel: name, Total: list.Total, Messages: []api.DeferredMessage{}}
	for _, m := range list.Messages {
		out.Messages = append(out.Messages, api.DeferredMessage{
			ID: ids.ID(seq.NewMessageID(m.Partition, m.Offset)).String(), Partition: m.Partition, Seq: uint64(m.Offset),
			Due: m.Due.UTC(), Attempts: m.Attempts, Bytes: m.Bytes, Why: string(m.Why),
		})
	}
	if n := len(list.Messages); n > 0 && n == req.Max {
		last := list.Messages[n-1]
		out.Next = fmt.Sprintf("%d.%d.%d", last.Due.UnixNano(), last.Partition, last.Offset)
	}
	return success(out)
}

// deferredPlace parses the position at which a page continues.
func deferredPlace(text string) (*deferral.Place, error) {
	parts := strings.Split(text, ".")
	bad := api.Errorf(failure.Invalid, "next %q was not returned for this request", text)
	if len(parts) != 3 {
		return nil, bad
	}
	due, err := strconv.ParseInt(parts[0], 10, 64)
	partition, err2 := strconv.ParseUint(parts[1], 10, 16)
	offset, err3 := strconv.ParseUint(parts[2], 10, 64)
	if errors.Join(err, err2, err3) != nil || offset > uint64(seq.MaxOffset) {
		return nil, bad
	}
	return &deferral.Place{Due: time.Unix(0, due), Partition: int(partition), Offset: seq.Offset(offset)}, nil
}

// reschedule cancels or advances deferred messages.
func (v deferredAPI) reschedule(verb deferral.Verb, action string) func(*http.Request, *meta.Topic, string) (answer, error) {
	return withFor(readJSON, func(r *http.Request, t *meta.Topic, name string, req api.Reschedule) (answer, error) {
		web.ActOf(r.Context()).DryRun = req.DryRun
		change := deferral.Change{Topic: t.Name, Channel: name, Verb: verb, DryRun: req.DryRun}
		windowed := req.Since != nil || req.Until != nil
		switch {
		case len(req.IDs) > deferral.MaxNamed:
			return answer{}, api.Errorf(failure.Invalid, "ids has %d entries, exceeds the maximum, %d", len(req.IDs), deferral.MaxNamed)
		case len(req.IDs) > 0 == (windowed || req.All) || windowed && req.All:
			return answer{}, api.Errorf(failure.Invalid, "name either ids, or since and until, or all: true")
		case len(req.IDs) > 0:
			change.Named = map[int][]seq.Offset{}
		}
		if req.Since != nil {
			change.Since = units.ClampTime(*req.Since)
		}
		if req.Until != nil {
			change.Until = units.ClampTime(*req.Until)
		}
		ids := v.one.messages.channels.topics.numbering(t)
		for _, text := range req.IDs {
			m, err := v.one.messages.placed(t, text, ids)
			if err != nil {
				return answer{}, err
			}
			change.Named[m.Partition()] = append(change.Named[m.Partition()], m.Offset())
		}
		done, err := v.deferrals.Reschedule(r.Context(), change)
		if err != nil {
			return answer{}, err
		}
		out := api.Rescheduled{
			Topic: t.Name, Channel: name, Action: action, NotDeferred: []string{}, Partitions: []api.RescheduledPart{}, DryRun: req.DryRun,
		}
		for _, p := range done {
			out.Count += p.Count
			for _, o := range p.Missed {
				out.NotDeferred = append(out.NotDeferred, ids.ID(seq.NewMessageID(p.Partition, o)).String())
			}
			if p.Count > 0 {
				out.Partitions = append(out.Partitions, api.RescheduledPart{Partition: p.Partition, Count: p.Count})
			}
		}
		return success(out)
	})
}
