package admin

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
)

func TestOrderedTopicRefusesChannelsWithoutAnOrder(t *testing.T) {
	f := orders()
	f.create("steps", meta.TopicConfig{Partitions: 1, Ordered: true}.WithDefaults(1, false))
	f.withChannel("steps", "c")
	c := clientOf(t, f)
	_, create := c.CreateChannel(t.Context(), "steps", api.CreateChannel{Name: "new", Order: "none"})
	_, alter := c.AlterChannel(t.Context(), "steps", "c", api.AlterChannel{Order: new("none")})
	_, flag := c.AlterChannel(t.Context(), "steps", "c", api.AlterChannel{Ordered: new(false)})
	for what, err := range map[string]error{"create": create, "alter": alter, "alter by the flag": flag} {
		if err == nil || !strings.Contains(err.Error(), "topic steps is ordered") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.CreateChannel(t.Context(), "steps", api.CreateChannel{Name: "new", Order: "key"}); err != nil {
		t.Error(err)
	}
}

func TestPoliciesByTheClient(t *testing.T) {
	f := orders()
	c := clientOf(t, f)
	ctx := t.Context()
	ch, err := c.CreateChannel(ctx, "orders", api.CreateChannel{Name: "new", Policy: &api.PolicyPatch{MaxAttempts: new(5), Backoff: new("1s..10m")}})
	if err != nil || ch.Policy.MaxAttempts != 5 || ch.Policy.Backoff != "1s..10m" || !slices.Equal(ch.Policy.Own, []string{"max_attempts", "backoff"}) {
		t.Errorf("made %+v, %v", ch.Policy, err)
	}
	ch, err = c.AlterChannel(ctx, "orders", "new", api.AlterChannel{Ordered: new(true), Policy: &api.PolicyPatch{
		OnExhausted: new("block"), OnExpired: new("dead-letter"), DeadLetterTopic: new("failed"), Rate: new(100), Reset: []string{"backoff"},
	}})
	want := api.Policy{MaxAttempts: 5, OnExhausted: "block", OnExpired: "dead-letter", DeadLetterTopic: "failed", Backoff: "off", Rate: 100, Own: []string{"max_attempts", "on_exhausted", "on_expired", "dead_letter_topic", "rate"}}
	if got, _ := json.Marshal(ch.Policy); err != nil || !ch.Ordered || string(got) != text(t, want) {
		t.Errorf("altered to %s, ordered %v, %v", got, ch.Ordered, err)
	}
	ch, err = c.AlterChannel(ctx, "orders", "new", api.AlterChannel{Policy: &api.PolicyPatch{
		MaxAttempts: new(0), Rate: new(0), Reset: []string{"on_exhausted", "on_expired", "dead_letter_topic"},
	}})
	if err != nil || ch.Policy.MaxAttempts != 0 || ch.Policy.Rate != 0 || !slices.Equal(ch.Policy.Own, []string{"max_attempts", "rate"}) {
		t.Errorf("without limits: %+v, %v", ch.Policy, err)
	}
	for _, p := range []api.PolicyPatch{
		{MaxAttempts: new(-1)},
		{MaxAttempts: new(4001)},
		{Rate: new(-1)},
		{OnExhausted: new("explode")},
		{OnExpired: new("block")},
		{Backoff: new("10m..1s")},
		{Reset: []string{"name"}},
	} {
		if _, err := c.AlterChannel(ctx, "orders", "new", api.AlterChannel{Policy: &p}); api.CodeOf(err) != failure.Invalid {
			t.Errorf("%s: %v", text(t, p), err)
		}
	}
	if _, err := c.AlterChannel(ctx, "orders", "tail#ephemeral", api.AlterChannel{Ordered: new(true)}); api.CodeOf(err) != failure.Precondition {
		t.Errorf("an ephemeral channel: %v", err)
	}
	topic, err := c.AlterTopic(ctx, "orders", api.ConfigPatch{ChannelPolicy: &api.PolicyPatch{MaxAttempts: new(7), Rate: new(0)}})
	if err != nil || text(t, topic.Config.ChannelPolicy) != `{"max_attempts":7,"rate":0}` {
		t.Errorf("for all channels: %s, %v", text(t, topic.Config.ChannelPolicy), err)
	}
	if ch, err = c.Channel(ctx, "orders", "bill"); err != nil || ch.Policy.MaxAttempts != 7 || len(ch.Policy.Own) > 0 {
		t.Errorf("inherited: %+v, %v", ch.Policy, err)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestDeadLettersByTheClient(t *testing.T) {
	f := orders()
	c := clientOf(t, f)
	ctx, letters := t.Context(), api.DeadLettersOf(c)
	list, err := letters.List(ctx, "orders", "bill", "")
	if err != nil || len(list) != 1 || list[0].Waiting != 7 || list[0].DeadLetterTopic != "orders.bill.dlq" || list[0].DeadLetteredTotal != 9 {
		t.Errorf("listed %+v, %v", list, err)
	}
	if got, err := letters.Peek(ctx, "orders", "bill", 3, `key != ""`); err != nil || len(got) != 0 {
		t.Errorf("peeked before there is one: %+v, %v", got, err)
	}
	f.create("orders.bill.dlq", meta.TopicConfig{}.WithDefaults(1, false))
	f.fail = failure.ChannelNotFound
	if got, err := letters.Peek(ctx, "orders", "bill", 3, ""); err != nil || len(got) != 0 {
		t.Errorf("peeked before the first one has created its channel: %+v, %v", got, err)
	}
	f.fail = nil
	if got, err := letters.Peek(ctx, "orders", "bill", 3, `key != ""`); err != nil || len(got) != 0 {
		t.Errorf("what is no dead letter is shown: %+v, %v", got, err)
	}
	if f.peeked.Topic != "orders.bill.dlq" || f.peeked.Channel != "redrive" || f.peeked.Partition != host.AnyPartition ||
		f.peeked.Filter != `key != ""` || *f.peeked.Letters != (operate.LettersOf{Topic: "orders", Channel: "bill"}) {
		t.Errorf("peeked at %+v", f.peeked)
	}
	got, err := letters.Redrive(ctx, "orders", "bill", api.DeadLetterAction{Max: 5})
	if err != nil || *got != (api.DeadLetterResult{Topic: "orders", Channel: "bill", Count: 5, More: true, Skipped: 2}) {
		t.Errorf("redriven %+v, %v", got, err)
	}
	got, err = letters.Purge(ctx, "orders", "bill", api.DeadLetterAction{Max: 6, DryRun: true})
	if err != nil || got.Count != 6 || !got.DryRun {
		t.Errorf("purged %+v, %v", got, err)
	}
	if all := strings.Join(f.calls, ";"); !strings.Contains(all, "Max:5 Purge:false DryRun:false") || !strings.Contains(all, "Max:6 Purge:true DryRun:true") {
		t.Errorf("called %s", all)
	}
	if list, err := letters.List(ctx, "orders", "bill", `key != ""`); err != nil || list[0].Waiting != 10_000 {
		t.Errorf("of those that a filter chooses %+v, %v", list, err)
	}
	for _, filter := range []string{"key =", "body", "size"} {
		_, err1 := letters.List(ctx, "orders", "bill", filter)
		_, err2 := letters.Peek(ctx, "orders", "bill", 1, filter)
		_, err3 := letters.Purge(ctx, "orders", "bill", api.DeadLetterAction{Max: 1, Filter: filter})
		_, err4 := c.CreateChannel(ctx, "orders", api.CreateChannel{Name: "fresh", Filter: filter})
		_, err5 := c.AlterChannel(ctx, "orders", "bill", api.AlterChannel{Filter: &filter})
		_, err6 := c.Peek(ctx, "orders", "bill", api.PeekOptions{Filter: filter})
		for i, err := range []error{err1, err2, err3, err4, err5, err6} {
			if api.CodeOf(err) != failure.Invalid || !strings.Contains(err.Error(), "invalid filter") {
				t.Errorf("%d: filter %s: %v", i, filter, err)
			}
		}
	}
	for _, n := range []int{0, -1, 10_001} {
		if _, err := letters.Redrive(ctx, "orders", "bill", api.DeadLetterAction{Max: n}); api.CodeOf(err) != failure.Invalid {
			t.Errorf("%d: %v", n, err)
		}
	}
	if _, err := letters.Redrive(ctx, "orders", "nobody", api.DeadLetterAction{Max: 1}); api.CodeOf(err) != failure.NotFound {
		t.Errorf("of no channel: %v", err)
	}
}
