package v1

import (
	"net/http"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/filter"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
)

// patchPolicy parses the changes of a policy in a request.
func patchPolicy(p *api.PolicyPatch) (policy.Patch, error) {
	var out policy.Patch
	if p == nil {
		return out, nil
	}
	invalid := func(err error) (policy.Patch, error) { return out, api.Errorf(failure.Invalid, "%w", err) }
	var err error
	if out.MaxAttempts, err = limitOf("max_attempts", p.MaxAttempts); err != nil {
		return out, err
	}
	if out.Rate, err = limitOf("rate", p.Rate); err != nil {
		return out, err
	}
	out.DeadLetterTopic = p.DeadLetterTopic
	if p.OnExhausted != nil {
		o, err := policy.ParseOutcome(*p.OnExhausted)
		if err != nil {
			return invalid(err)
		}
		out.OnExhausted = &o
	}
	if p.OnExpired != nil {
		o, err := policy.ParseExpiry(*p.OnExpired)
		if err != nil {
			return invalid(err)
		}
		out.OnExpired = &o
	}
	if p.Backoff != nil {
		b, err := policy.ParseBackoff(*p.Backoff)
		if err != nil {
			return invalid(err)
		}
		out.Backoff = &b
	}
	for _, name := range p.Reset {
		switch name {
		case "max_attempts":
			out.MaxAttempts = new(int)
		case "on_exhausted":
			out.OnExhausted = new(policy.Outcome)
		case "on_expired":
			out.OnExpired = new(policy.Outcome)
		case "dead_letter_topic":
			out.DeadLetterTopic = new(string)
		case "backoff":
			out.Backoff = new(policy.Backoff)
		case "rate":
			out.Rate = new(int)
		default:
			return out, api.Errorf(failure.Invalid, "reset names %q, which is not a policy setting", name)
		}
	}
	if err := out.Apply(policy.Policy{}).Validate(); err != nil {
		return invalid(err)
	}
	return out, nil
}

// limitOf parses a number of which 0 means no limit.
func limitOf(name string, n *int) (*int, error) {
	switch {
	case n == nil:
		return nil, nil
	case *n < 0:
		return nil, api.Errorf(failure.Invalid, "%s is %d, must not be negative; 0 is no limit", name, *n)
	case *n == 0:
		return new(policy.Unlimited), nil
	}
	return n, nil
}

// apiPolicy describes the effective policy of a channel.
func apiPolicy(t *meta.Topic, channel string, defaults policy.Policy) api.Policy {
	p := meta.PolicyOf(t, channel, defaults)
	out := api.Policy{
		MaxAttempts: p.MaxAttempts, OnExhausted: string(p.OnExhausted), OnExpired: string(p.OnExpired), Backoff: "off", Rate: p.Rate, Own: []string{},
		DeadLetterTopic: meta.DeadLetterTopic(p, t.Name, channel),
	}
	if p.Backoff.On() {
		out.Backoff = p.Backoff.String()
	}
	if c := t.Channels[channel]; c != nil {
		out.Own = chosen(c.Policy)
	}
	return out
}

// chosen names the settings that a policy contains.
func chosen(p policy.Policy) []string {
	names := []string{}
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"max_attempts", p.MaxAttempts != 0},
		{"on_exhausted", p.OnExhausted != ""},
		{"on_expired", p.OnExpired != ""},
		{"dead_letter_topic", p.DeadLetterTopic != ""},
		{"backoff", p.Backoff != policy.Backoff{}},
		{"rate", p.Rate != 0},
	} {
		if f.is {
			names = append(names, f.name)
		}
	}
	return names
}

// apiChoice describes a topic's settings for its channels; nil if there are none.
func apiChoice(p policy.Policy) *api.PolicyPatch {
	if p == (policy.Policy{}) {
		return nil
	}
	out := &api.PolicyPatch{}
	number := func(n int) *int {
		if n == 0 {
			return nil
		}
		n = max(n, 0)
		return &n
	}
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	out.MaxAttempts, out.Rate = number(p.MaxAttempts), number(p.Rate)
	out.OnExhausted, out.OnExpired = text(string(p.OnExhausted)), text(string(p.OnExpired))
	out.DeadLetterTopic, out.Backoff = text(p.DeadLetterTopic), text(p.Backoff.String())
	return out
}

// alter changes a channel.
func (v channelsAPI) alter(r *http.Request, t *meta.Topic, channel string, req api.AlterChannel) (answer, error) {
	web.ActOf(r.Context()).DryRun = req.DryRun
	order, err := orderIn(req)
	if err == nil && order != nil {
		err = permitOrder(t, *order)
	}
	if err != nil {
		return answer{}, err
	}
	patch, err := patchPolicy(req.Policy)
	if err != nil {
		return answer{}, err
	}
	own := policy.Policy{}
	if c := t.Channels[channel]; c != nil {
		own = c.Policy
	}
	if err := permitLetters(r, t.Name, channel, patch, own, t.Config.Channels, v.policies.ChannelDefaults()); err != nil {
		return answer{}, err
	}
	if req.Filter != nil {
		if err := validFilter(*req.Filter); err != nil {
			return answer{}, err
		}
	}
	if meta.IsEphemeral(channel) {
		e := api.Errorf(failure.Precondition, "ephemeral channel %q has no settings of its own", channel)
		e.Hint = "set them for the channels of the topic: brokerctl topic alter " + t.Name
		return answer{}, e
	}
	c := meta.AlterChannel{Topic: t.Name, Channel: channel, Order: order, Policy: &patch, Filter: req.Filter}
	if req.DryRun {
		return v.plan(r, c, channel)
	}
	if err := v.policies.AlterChannel(r.Context(), c); err != nil {
		return answer{}, err
	}
	if t, err = v.topics.known(r); err != nil {
		return answer{}, err
	}
	return success(v.info(r.Context(), t, channel))
}

// validFilter refuses a filter that does not compile; "" is none.
func validFilter(text string) error {
	if text == "" {
		return nil
	}
	if _, err := filter.Compile(text); err != nil {
		e := api.Errorf(failure.Invalid, "%w", err)
		e.Hint = `a filter is an expression such as header.type == "order" && key != "", over header, key, tag, partition, timestamp, attempts and size`
		return e
	}
	return nil
}
