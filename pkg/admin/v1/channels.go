package v1

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/units"
)

// channelsAPI is the channels of topics.
type channelsAPI struct {
	topics   topicsAPI
	policies Policies
}

func (v channelsAPI) route(t *API) {
	t.handle("GET /v1/topics/{topic}/channels", v.topics.of(v.list))
	t.handle("POST /v1/topics/{topic}/channels", v.topics.of(v.create))
	t.handle("GET /v1/topics/{topic}/channels/{channel}", v.of(v.describe))
	t.handle("GET /v1/topics/{topic}/channels/{channel}/explain", v.of(v.explain))
	t.handle("PATCH /v1/topics/{topic}/channels/{channel}", v.of(withFor(readJSON, v.alter)))
	t.handleTry("DELETE /v1/topics/{topic}/channels/{channel}", v.of(v.delete))
	t.handleTry("DELETE /v1/channels", v.of(v.delete))
	t.handle("POST /v1/topics/{topic}/channels/{channel}/pause", v.pause(true))
	t.handle("POST /v1/topics/{topic}/channels/{channel}/resume", v.pause(false))
	t.handleTry("POST /v1/topics/{topic}/channels/{channel}/empty", v.of(v.empty))
	t.handle("POST /v1/topics/{topic}/channels/{channel}/seek", v.of(withFor(readJSON, v.seek)))
}

// exists reports whether a channel exists: in the metadata, or ephemeral on any node.
func (v channelsAPI) exists(ctx context.Context, t *meta.Topic, channel string) bool {
	if _, ok := t.Channels[channel]; ok {
		return true
	}
	for _, ts := range v.topics.broker.ClusterStats(ctx, t.Name, channel, false) {
		for _, ch := range ts.Channels {
			if ch.Name == channel {
				return true
			}
		}
	}
	return false
}

// known returns the names of a topic and channel that exist.
func (v channelsAPI) known(r *http.Request) (t *meta.Topic, channel string, err error) {
	if t, err = v.topics.known(r); err != nil {
		return nil, "", err
	}
	channel = named(r, "channel")
	if !meta.NSQName(channel) {
		return nil, "", failure.InvalidChannel
	}
	if !v.exists(r.Context(), t, channel) {
		return nil, "", failure.ChannelNotFound
	}
	return t, channel, nil
}

// of is an endpoint that is about the channel that a request names.
func (v channelsAPI) of(do func(r *http.Request, t *meta.Topic, channel string) (answer, error)) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		t, channel, err := v.known(r)
		if err != nil {
			return answer{}, err
		}
		return do(r, t, channel)
	}
}

// withFor is with for an endpoint that is about a channel.
func withFor[T any](read func(*http.Request, any) error, do func(*http.Request, *meta.Topic, string, T) (answer, error)) func(*http.Request, *meta.Topic, string) (answer, error) {
	return func(r *http.Request, t *meta.Topic, channel string) (answer, error) {
		return with(read, func(r *http.Request, req T) (answer, error) { return do(r, t, channel, req) })(r)
	}
}

func (v channelsAPI) list(r *http.Request, t *meta.Topic) (answer, error) {
	info := v.topics.info(r.Context(), t)
	return success(api.ChannelList{Topic: t.Name, Channels: info.Channels, MissingNodes: info.MissingNodes})
}

func (v channelsAPI) create(r *http.Request, t *meta.Topic) (answer, error) {
	var req api.CreateChannel
	if err := readJSON(r, &req); err != nil {
		return answer{}, err
	}
	act := web.ActOf(r.Context())
	act.DryRun, act.Created = req.DryRun, req.Name
	c, err := v.topics.newChannel(r, t, req)
	if err != nil {
		return answer{}, err
	}
	var from operate.SeekTo
	if req.From != nil {
		if from, err = seekTo(*req.From); err != nil {
			return answer{}, err
		}
	}
	if req.DryRun {
		return v.plan(r, c, req.Name)
	}
	existed := v.exists(r.Context(), t, req.Name)
	if err := v.policies.CreateChannel(r.Context(), c); err != nil {
		return answer{}, err
	}
	if req.From != nil && !existed {
		from.Unsaved = true
		if err := v.topics.broker.SeekChannel(r.Context(), t.Name, req.Name, from); err != nil {
			return answer{}, halfDone("the channel is created, but not moved to the position from: seek it", err)
		}
	}
	if t, err = v.topics.known(r); err != nil {
		return answer{}, err
	}
	return v.made(r, t, req.Name, existed)
}

// newChannel checks a request for a channel of a topic, and returns its command.
func (v topicsAPI) newChannel(r *http.Request, t *meta.Topic, req api.CreateChannel) (c meta.CreateChannel, err error) {
	if !meta.ValidChannelName(req.Name) {
		return c, failure.InvalidChannel
	}
	c = meta.CreateChannel{Topic: t.Name, Channel: req.Name, Filter: req.Filter}
	if c.Order, err = orderOf(req.Order, req.Ordered); err != nil {
		return c, err
	}
	if req.Order != "" { // "": the topic's order
		if err := permitOrder(t, c.Order); err != nil {
			return c, err
		}
	}
	patch, err := patchPolicy(req.Policy)
	if err != nil {
		return c, err
	}
	c.Policy = patch.Apply(policy.Policy{})
	if err := permitLetters(r, t.Name, req.Name, patch, policy.Policy{}, t.Config.Channels, v.policies.ChannelDefaults()); err != nil {
		return c, err
	}
	return c, validFilter(req.Filter)
}

// plan returns the channel that a change would leave.
func (v channelsAPI) plan(r *http.Request, c meta.Command, name string) (answer, error) {
	t, err := v.topics.plans.PlanChannel(r.Context(), c)
	if err != nil {
		return answer{}, err
	}
	return success(v.info(r.Context(), t, name))
}

// made returns a created channel.
func (v channelsAPI) made(r *http.Request, t *meta.Topic, name string, existed bool) (answer, error) {
	c := v.info(r.Context(), t, name)
	if existed {
		return success(c)
	}
	return created(c)
}

func (v channelsAPI) describe(r *http.Request, t *meta.Topic, channel string) (answer, error) {
	return success(v.info(r.Context(), t, channel))
}

func (v channelsAPI) delete(r *http.Request, t *meta.Topic, channel string) (answer, error) {
	if dry, err := v.topics.isDryRunOf(r, channel); dry || err != nil {
		return reply(v.info(r.Context(), t, channel), err)
	}
	if err := v.topics.broker.DeleteChannel(r.Context(), t.Name, channel); err != nil {
		return answer{}, err
	}
	all, err := v.topics.broker.ChannelHistory(t.Name, channel)
	if err != nil {
		all = nil // the topic is gone as well
	}
	saved, unsaved := savedAtDeletion(t, channel, all)
	p := api.SavedPosition{Verb: operate.SavedDelete, Partitions: []api.SavedPartition{}}
	if saved != nil {
		p = savedPosition(saved)
	}
	p.Unsaved = unsaved
	return success(p)
}

func (v channelsAPI) empty(r *http.Request, t *meta.Topic, channel string) (answer, error) {
	if dry, err := v.topics.isDryRunOf(r, channel); dry || err != nil {
		return reply(v.info(r.Context(), t, channel), err)
	}
	return done(v.topics.broker.EmptyChannel(r.Context(), t.Name, channel))
}

func (v channelsAPI) pause(paused bool) func(*http.Request) (answer, error) {
	return v.of(func(r *http.Request, t *meta.Topic, channel string) (answer, error) {
		return done(v.topics.broker.PauseChannel(r.Context(), t.Name, channel, paused))
	})
}

func (v channelsAPI) seek(r *http.Request, t *meta.Topic, channel string, req api.Seek) (answer, error) {
	to, err := seekTo(req)
	if err != nil {
		return answer{}, err
	}
	if err := v.topics.broker.SeekChannel(r.Context(), t.Name, channel, to); err != nil {
		return answer{}, err
	}
	return success(v.info(r.Context(), t, channel))
}

// seekTo reads a place: exactly one of the three ways to name one.
func seekTo(req api.Seek) (operate.SeekTo, error) {
	var to operate.SeekTo
	given := 0
	switch req.To {
	case "":
	case api.SeekStart:
		to.Start = true
		given++
	case api.SeekEnd:
		to.End = true
		given++
	default:
		return to, api.Errorf(failure.Invalid, "to is %q, must be %s or %s", req.To, api.SeekStart, api.SeekEnd)
	}
	if req.Offset != nil {
		if *req.Offset > uint64(seq.MaxOffset) {
			return to, api.Errorf(failure.Invalid, "offset %d exceeds the maximum, %d", *req.Offset, uint64(seq.MaxOffset))
		}
		offset := seq.Offset(*req.Offset)
		to.Offset = &offset
		given++
	}
	if req.Time != nil {
		to.Time = units.ClampTime(*req.Time) // never zero
		given++
	}
	to.Partition = req.Partition
	if given != 1 {
		return to, api.Errorf(failure.Invalid, "give exactly one of to, offset and time, not %d", given)
	}
	if req.Time != nil && req.Time.IsZero() { // of a program that has not set it: it would redeliver everything
		return to, api.Errorf(failure.Invalid, `time must not be zero; for the start of the log, give "to":"start"`)
	}
	return to, nil
}

// info describes a channel with its current counts. Without a leader there are none.
func (v channelsAPI) info(ctx context.Context, t *meta.Topic, name string) api.Channel {
	c, _ := v.infoWithRates(ctx, t, name)
	return c
}

// infoWithRates also returns the rates of the messages that come and are finished.
func (v channelsAPI) infoWithRates(ctx context.Context, t *meta.Topic, name string) (api.Channel, flow.Rates) {
	c, stored := stats.Channel{Name: name, Ephemeral: meta.IsEphemeral(name)}, t.Channels[name]
	if stored != nil {
		c.Paused, c.Order = stored.Paused, stored.Order
	}
	var missing []string
	for _, ts := range v.topics.broker.ClusterStats(ctx, t.Name, name, true) {
		missing = ts.MissingNodes
		if i := slices.IndexFunc(ts.Channels, func(c stats.Channel) bool { return c.Name == name }); i >= 0 {
			c = ts.Channels[i]
			break
		}
	}
	out := apiChannel(t.Name, c)
	out.MissingNodes, out.Policy = missing, apiPolicy(t, name, v.policies.ChannelDefaults())
	if stored != nil {
		out.Filter = stored.Filter
	}
	return out, c.Rates
}

func apiChannel(topic string, c stats.Channel) api.Channel {
	out := api.Channel{
		Topic: topic, Name: c.Name, Paused: c.Paused, Ordered: c.Order == policy.Strict, Order: c.Order.String(), Ephemeral: c.Ephemeral,
		OldestAge: api.Duration(c.OldestAge), OldestAgeMS: api.Milliseconds(c.OldestAge),
		ChannelCounts: c.ChannelCounts, LastConsumer: c.LastConsumer, Consumers: []api.Consumer{}, Partitions: []api.ChannelPartition{},
	}
	if !c.LeftAt.IsZero() {
		out.LeftAt = &c.LeftAt
	}
	for i := range c.Clients {
		out.Consumers = append(out.Consumers, c.Clients[i].Consumer)
	}
	slices.SortFunc(out.Consumers, func(a, b api.Consumer) int { return strings.Compare(a.Address, b.Address) })
	out.Partitions = append(out.Partitions, c.Partitions...)
	slices.SortFunc(out.Partitions, func(a, b api.ChannelPartition) int { return a.Partition - b.Partition })
	return out
}

// orderOf reads the order that a request names, or the flag for the strict one.
func orderOf(text string, ordered bool) (policy.Order, error) {
	order, err := policy.ParseOrder(text)
	switch {
	case err != nil:
		return order, api.Errorf(failure.Invalid, "order is %q, must be none, strict or key: nothing was changed", text)
	case ordered && text == "":
		return policy.Strict, nil
	case ordered && order != policy.Strict:
		return order, api.Errorf(failure.Invalid, "ordered and order %s contradict each other: nothing was changed; give order alone", text)
	}
	return order, nil
}

// permitOrder refuses order none for channels of an ordered topic.
func permitOrder(t *meta.Topic, order policy.Order) error {
	if t.Config.Ordered && !order.Some() {
		return api.Errorf(failure.Precondition, "topic %s is ordered, and order none is refused: nothing was changed; order must be strict or key", t.Name)
	}
	return nil
}

// orderIn reads the order that a change names; nil: none.
func orderIn(req api.AlterChannel) (*policy.Order, error) {
	if req.Order == nil && req.Ordered == nil {
		return nil, nil
	}
	text, ordered := "", false
	if req.Order != nil {
		text = *req.Order
	}
	if req.Ordered != nil {
		ordered = *req.Ordered
	}
	order, err := orderOf(text, ordered)
	if err == nil && req.Ordered != nil && !ordered && order == policy.Strict {
		err = api.Errorf(failure.Invalid, "ordered false and order strict contradict each other: nothing was changed; give order alone")
	}
	return &order, err
}

// savedAtDeletion returns the position, of those saved of a channel, to which a restore would restore it after its
// deletion, nil if there is none, and the partitions in which none is saved; t is the topic before the deletion.
func savedAtDeletion(t *meta.Topic, channel string, saved []*meta.Saved) (*meta.Saved, []int) {
	c := t.Channels[channel]
	if c == nil || meta.IsEphemeral(channel) || meta.IsEphemeral(t.Name) {
		return nil, nil // positions of ephemeral channels are not saved
	}
	i := slices.IndexFunc(saved, func(v *meta.Saved) bool { return v.Verb == operate.SavedDelete && v.Version == c.Version })
	if i < 0 {
		return nil, (&meta.Saved{}).UnsavedIn(t)
	}
	return saved[i], saved[i].UnsavedIn(t)
}
