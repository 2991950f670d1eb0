package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/deferral"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

// fakeDeferrals is a fake with the methods for deferred messages.
type fakeDeferrals struct{ f *fake }

var fakeDue = time.Date(2026, 11, 25, 9, 0, 0, 5, time.UTC)

func (d fakeDeferrals) List(_ context.Context, l deferral.Query) (deferral.Found, error) {
	if l.Until.Before(fakeDue) && !l.Until.IsZero() {
		return deferral.Found{}, nil
	}
	all := []deferral.Located{
		{Partition: 1, Message: deferral.Message{Offset: 7, Due: fakeDue, Attempts: 2, Why: deferral.Requeued, Bytes: 3}},
		{Partition: 0, Message: deferral.Message{Offset: 9, Due: fakeDue.Add(time.Second), Why: deferral.Published, Bytes: -1}},
	}
	if l.After != nil {
		if *l.After != (deferral.Place{Due: time.Unix(0, fakeDue.UnixNano()), Partition: 1, Offset: 7}) {
			return deferral.Found{}, errors.New("another place")
		}
		all = all[1:]
	}
	return deferral.Found{Messages: all[:min(len(all), l.Max)], Total: 2}, nil
}

func (d fakeDeferrals) Reschedule(_ context.Context, r deferral.Change) ([]deferral.Changed, error) {
	if !r.DryRun {
		if err := d.f.onChannel(string(r.Verb), r.Topic, r.Channel); err != nil {
			return nil, err
		}
	}
	if r.Named == nil {
		return []deferral.Changed{{Partition: 0, Done: deferral.Done{Count: 5}}}, nil
	}
	var out []deferral.Changed
	for p, named := range r.Named {
		missed := slices.DeleteFunc(slices.Clone(named), func(o seq.Offset) bool { return o == 7 })
		out = append(out, deferral.Changed{Partition: p, Done: deferral.Done{Count: len(named) - len(missed), Missed: missed}})
	}
	return out, nil
}

func TestDeferredMessagesOverV1(t *testing.T) {
	f := orders()
	c := clientOf(t, f)
	d, ctx := api.DeferredOf(c), t.Context()

	first, err := d.List(ctx, "orders", "bill", api.DeferredQuery{Max: 1})
	if err != nil || first.Total != 2 || len(first.Messages) != 1 || first.Next == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	if m := first.Messages[0]; m.Partition != 1 || m.Seq != 7 || !m.Due.Equal(fakeDue) || m.Attempts != 2 || m.Why != "requeued" || m.Bytes != 3 || len(m.ID) != 16 {
		t.Errorf("%+v", m)
	}
	second, err := d.List(ctx, "orders", "bill", api.DeferredQuery{Max: 5, Next: first.Next})
	if err != nil || len(second.Messages) != 1 || second.Messages[0].Seq != 9 || second.Next != "" {
		t.Errorf("%+v, %v", second, err)
	}
	if none, err := d.List(ctx, "orders", "bill", api.DeferredQuery{Max: 5, Until: fakeDue.Add(-time.Hour)}); err != nil || len(none.Messages) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	all, err := d.Cancel(ctx, "orders", "bill", api.Reschedule{All: true, DryRun: true})
	if err != nil || all.Count != 5 || !all.DryRun || all.Action != "cancelled" {
		t.Errorf("%+v, %v", all, err)
	}
	one, err := d.Advance(ctx, "orders", "bill", api.Reschedule{IDs: []string{first.Messages[0].ID, second.Messages[0].ID}})
	if err != nil || one.Count != 1 || !slices.Equal(one.NotDeferred, []string{second.Messages[0].ID}) || one.Action != "advanced" {
		t.Errorf("%+v, %v", one, err)
	}
	for _, bad := range []api.Reschedule{
		{}, {All: true, Until: &fakeDue}, {IDs: []string{"x"}}, {IDs: []string{first.Messages[0].ID}, All: true}, {IDs: make([]string, 1001)},
	} {
		if _, err := d.Cancel(ctx, "orders", "bill", bad); api.CodeOf(err) != failure.Invalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, next := range []string{"1.2", "a.b.c", "1.2.99999999999999999999", "1.99999999.3"} {
		if _, err := d.List(ctx, "orders", "bill", api.DeferredQuery{Max: 5, Next: next}); api.CodeOf(err) != failure.Invalid {
			t.Errorf("next %q: %v", next, err)
		}
	}
	if _, err := d.List(ctx, "orders", "none", api.DeferredQuery{Max: 5}); api.CodeOf(err) != failure.NotFound {
		t.Error(err)
	}
	acts := f.Journal().Acts()
	if len(acts) == 0 || !strings.HasSuffix(acts[len(acts)-1].Verb, "/deferred/cancel") || acts[len(acts)-1].Object != "orders/bill" || acts[len(acts)-1].Status != http.StatusBadRequest {
		t.Errorf("audit log: %+v", acts)
	}
}
