package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/units"
)

// topicsAPI is topics and partitions.
type topicsAPI struct {
	broker   Broker
	policies Policies
	plans    Plans
}

func (v topicsAPI) route(t *API) {
	t.handle("GET /v1/topics", v.list)
	t.handle("POST /v1/topics", with(readJSON, v.create))
	t.handle("GET /v1/topics/{topic}", v.describe)
	t.handleTry("PATCH /v1/topics/{topic}", v.of(v.alter))
	t.handle("POST /v1/topics/{topic}/pause", v.pause(true))
	t.handle("POST /v1/topics/{topic}/resume", v.pause(false))
	t.handleTry("POST /v1/topics/{topic}/empty", v.of(v.empty))
	t.handle("POST /v1/topics/{topic}/partitions", v.of(v.addPartitions))
	t.handle("GET /v1/topics/{topic}/partitions", v.of(v.partitions))
	t.handle("GET /v1/topics/{topic}/verify", v.of(v.verify))
	t.handle("GET /v1/partitions", v.listPartitions)
}

// named returns a name in the path of a request or, if the path has none, in its query. A query
// can contain the names that a path cannot: . and ...
func named(r *http.Request, what string) string {
	if name := r.PathValue(what); name != "" {
		return name
	}
	return r.URL.Query().Get(what)
}

// known returns the topic that the request names.
func (v topicsAPI) known(r *http.Request) (*meta.Topic, error) {
	name := named(r, "topic")
	if !meta.NSQName(name) {
		return nil, failure.InvalidTopic
	}
	return v.broker.Topic(name)
}

// naming adds to a not-found error the topic or channel of the request, and the most similar
// existing name of those that the caller may know of.
func (v topicsAPI) naming(r *http.Request, err error) error {
	noTopic, noChannel := errors.Is(err, failure.TopicNotFound), errors.Is(err, failure.ChannelNotFound)
	name, channel := named(r, "topic"), named(r, "channel")
	if !noTopic && !noChannel || name == "" {
		return err
	}
	caller := guard.CallerOf(r.Context())
	switch t, unknown := v.broker.Topic(name); {
	case noTopic && unknown != nil:
		known := listing.Names(v.broker.Topics(), func(t *meta.Topic) string { return t.Name })
		known = slices.DeleteFunc(known, func(other string) bool { return !caller.Sees(other, "") })
		return missing(fmt.Sprintf("topic %q", name), words.Nearest(name, known))
	case noChannel && unknown == nil && channel != "":
		known := listing.Names(v.info(r.Context(), t).Channels, func(c api.ChannelSummary) string { return c.Name })
		if !slices.Contains(known, channel) {
			known = slices.DeleteFunc(known, func(other string) bool { return !caller.Sees(name, other) })
			return missing(fmt.Sprintf("channel %q of topic %q", channel, name), words.Nearest(channel, known))
		}
	}
	return err
}

// missing is a not-found error; near is the name that was perhaps meant.
func missing(what, near string) error {
	e := api.Errorf(failure.NotFound, "%s not found", what)
	if near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return e
}

// numbering is how the ids of a topic's messages are counted.
func (v topicsAPI) numbering(t *meta.Topic) seq.Numbering {
	return seq.NumberingOf(v.broker.Cluster().ClusterID, uint64(t.Incarnation))
}

// of is an endpoint that is about the topic that a request names.
func (v topicsAPI) of(do func(*http.Request, *meta.Topic) (answer, error)) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		t, err := v.known(r)
		if err != nil {
			return answer{}, err
		}
		return do(r, t)
	}
}

func (v topicsAPI) list(r *http.Request) (answer, error) {
	stats := statsByName(v.broker.ClusterStats(r.Context(), "", "", false))
	list := api.TopicList{Topics: []api.Topic{}}
	cluster := v.broker.Cluster().ClusterID
	for _, t := range v.broker.Topics() {
		one := apiTopic(cluster, t, stats[t.Name])
		list.Topics = append(list.Topics, one)
		list.MissingNodes = words.Union(list.MissingNodes, one.MissingNodes)
	}
	return success(list)
}

// create creates a topic. If a topic with the same configuration exists, it returns that.
func (v topicsAPI) create(r *http.Request, req api.CreateTopic) (answer, error) {
	act := web.ActOf(r.Context())
	act.DryRun, act.Created = req.DryRun, req.Name
	if !meta.ValidTopicName(req.Name) {
		return answer{}, failure.InvalidTopic
	}
	if len(req.Channels) > 0 && !req.DryRun {
		return answer{}, api.Errorf(failure.Invalid, "channels are checked with dry_run, and created by POST /v1/topics/%s/channels: nothing was changed", req.Name)
	}
	if err := guard.CallerOf(r.Context()).Allow(access.Demand{Right: access.Manage, Topic: req.Name}); err != nil {
		return answer{}, err
	}
	letters, err := patchPolicy(req.Config.ChannelPolicy)
	if err != nil {
		return answer{}, err
	}
	if err := permitLetters(r, req.Name, "*", letters, policy.Policy{}, v.policies.ChannelDefaults()); err != nil {
		return answer{}, err
	}
	var cfg meta.TopicConfig
	if err := v.checkMessageSize(r.Context(), req.Config); err != nil {
		return answer{}, err
	}
	if err := patchConfig(&cfg, req.Config); err != nil {
		return answer{}, err
	}
	if req.DryRun {
		return v.plan(r, req, cfg)
	}
	_, missing := v.broker.Topic(req.Name)
	t, err := v.broker.CreateTopic(r.Context(), req.Name, cfg)
	if err != nil {
		return answer{}, err
	}
	if missing != nil {
		return created(v.info(r.Context(), t))
	}
	return success(v.info(r.Context(), t))
}

// plan returns the topic that a request would create, with the channels that are to be created in it.
func (v topicsAPI) plan(r *http.Request, req api.CreateTopic, cfg meta.TopicConfig) (answer, error) {
	t, err := v.plans.PlanTopic(r.Context(), req.Name, cfg)
	if err != nil {
		return answer{}, err
	}
	channels := make([]meta.CreateChannel, len(req.Channels))
	for i := range req.Channels {
		if channels[i], err = v.newChannel(r, t, req.Channels[i]); err != nil {
			e := apiError(err)
			e.Message = fmt.Sprintf("channel %.64s: %s", req.Channels[i].Name, e.Message)
			return answer{}, e
		}
	}
	if t, err = v.plans.PlanTopic(r.Context(), req.Name, cfg, channels...); err != nil {
		return answer{}, err
	}
	out := v.planned(t)
	if out.MessageLimit, _ = v.plans.MessageLimit(r.Context()); t.Config.MaxMessage > 0 {
		out.MessageLimit = min(out.MessageLimit, t.Config.MaxMessage)
	}
	return success(out)
}

// planned describes a topic as a change would leave it, without counts.
func (v topicsAPI) planned(t *meta.Topic) api.Topic {
	return apiTopic(v.broker.Cluster().ClusterID, t, nil)
}

func (v topicsAPI) describe(r *http.Request) (answer, error) {
	t, err := v.known(r)
	if err != nil {
		return answer{}, err
	}
	return success(v.info(r.Context(), t))
}

// info describes a topic with its counts of now.
func (v topicsAPI) info(ctx context.Context, t *meta.Topic) api.Topic {
	return apiTopic(v.broker.Cluster().ClusterID, t, statsByName(v.broker.ClusterStats(ctx, t.Name, "", false))[t.Name])
}

func (v topicsAPI) alter(r *http.Request, t *meta.Topic) (answer, error) {
	var patch api.ConfigPatch
	dry, err := isDryRun(r)
	if err != nil {
		return answer{}, err
	}
	if err := readJSON(r, &patch); err != nil {
		return answer{}, err
	}
	if err := checkAlter(t.Config, patch); err != nil {
		return answer{}, err
	}
	if err := v.checkMessageSize(r.Context(), patch); err != nil {
		return answer{}, err
	}
	letters, err := patchPolicy(patch.ChannelPolicy)
	if err != nil {
		return answer{}, err
	}
	if err := permitLetters(r, t.Name, "*", letters, t.Config.Channels, v.policies.ChannelDefaults()); err != nil {
		return answer{}, err
	}
	change := func(c *meta.TopicConfig) { _ = patchConfig(c, patch) } // checked above
	if dry {
		t, err := v.plans.PlanAlter(r.Context(), t.Name, change)
		if err != nil {
			return answer{}, err
		}
		return success(v.planned(t))
	}
	if err := v.broker.AlterTopic(r.Context(), t.Name, change); err != nil {
		return answer{}, err
	}
	if patch.Replicas != nil {
		if _, err := v.broker.FitReplicas(r.Context(), t.Name); err != nil {
			return answer{}, halfDone("the settings are changed, but not all replicas: repeat the request for the rest", err)
		}
	}
	return v.describe(r)
}

// halfDone returns the error of a change of which the first part was made. The error of the second one may
// say that nothing was changed.
func halfDone(done string, err error) error {
	e := api.Errorf(failure.Uncertain, "%s: %v", done, err)
	e.Fate = fate.Uncertain.String()
	return e
}

// checkMessageSize refuses a maximum message size above that of a node: its clients could not
// publish such messages.
func (v topicsAPI) checkMessageSize(ctx context.Context, p api.ConfigPatch) error {
	if p.MaxMessageBytes == nil || *p.MaxMessageBytes <= 0 {
		return nil
	}
	most, node := v.plans.MessageLimit(ctx)
	if *p.MaxMessageBytes <= most {
		return nil
	}
	e := api.Errorf(failure.Invalid, "max_message_bytes is %d, more than the %d bytes that node %s takes from its clients (max-msg-size %v)",
		*p.MaxMessageBytes, most, node, units.Size(most))
	e.Hint = "raise max-msg-size on all nodes first, and max-body-size if it is smaller, or choose a smaller size"
	return e
}

// checkAlter refuses changes that altering does not support.
func checkAlter(c meta.TopicConfig, p api.ConfigPatch) error {
	fixed := func(what, instead string) error {
		e := api.Errorf(failure.Precondition, "%s of a topic cannot be altered", what)
		e.Hint = instead
		e.Fate = "refused"
		return e
	}
	switch {
	case p.Partitions != nil && *p.Partitions != c.Partitions:
		return fixed("the number of partitions", "add partitions instead")
	case p.Ordered != nil && *p.Ordered != c.Ordered:
		return fixed("ordering", "create another topic")
	case p.Ext != nil && *p.Ext != c.Ext:
		return fixed("the message format", "create another topic")
	}
	return patchConfig(&c, p)
}

// isDryRun reads the parameter dry_run of a request without a body.
func isDryRun(r *http.Request) (bool, error) {
	dry, err := yesNo(r, "dry_run")
	web.ActOf(r.Context()).DryRun = dry
	return dry, err
}

// isDryRunOf is isDryRun for a change of the metadata, unless the object is ephemeral: it is refused like the change if the
// metadata has no leader.
func (v topicsAPI) isDryRunOf(r *http.Request, object string) (bool, error) {
	dry, err := isDryRun(r)
	if dry && err == nil && !meta.IsEphemeral(object) {
		err = v.plans.Decidable()
	}
	return dry, err
}

func (v topicsAPI) delete(r *http.Request, t *meta.Topic) (answer, error) {
	if dry, err := v.isDryRunOf(r, ""); dry || err != nil {
		return reply(v.info(r.Context(), t), err)
	}
	return done(v.broker.DeleteTopic(r.Context(), t.Name))
}

func (v topicsAPI) empty(r *http.Request, t *meta.Topic) (answer, error) {
	if dry, err := isDryRun(r); dry || err != nil {
		return reply(v.info(r.Context(), t), err)
	}
	return done(v.broker.EmptyTopic(r.Context(), t.Name))
}

func (v topicsAPI) pause(paused bool) func(*http.Request) (answer, error) {
	return v.of(func(r *http.Request, t *meta.Topic) (answer, error) {
		return done(v.broker.PauseTopic(r.Context(), t.Name, paused))
	})
}

func (v topicsAPI) addPartitions(r *http.Request, t *meta.Topic) (answer, error) {
	var req api.AddPartitions
	if err := readJSON(r, &req); err != nil {
		return answer{}, err
	}
	web.ActOf(r.Context()).DryRun = req.DryRun
	if req.Partitions < len(t.Partitions) {
		e := api.Errorf(failure.Precondition, "topic already has %d partitions; the number cannot be lowered", len(t.Partitions))
		e.Fate = "refused"
		return answer{}, e
	}
	switch {
	case req.Partitions == len(t.Partitions):
	case req.DryRun:
		t, err := v.plans.PlanPartitions(r.Context(), t.Name, req.Partitions)
		if err != nil {
			return answer{}, err
		}
		return success(v.planned(t))
	default:
		if err := v.broker.AddPartitions(r.Context(), t.Name, req.Partitions); err != nil {
			return answer{}, err
		}
	}
	return v.describe(r)
}

func (v topicsAPI) partitions(r *http.Request, t *meta.Topic) (answer, error) {
	info := v.info(r.Context(), t)
	list := api.PartitionList{Partitions: info.Partitions, MissingNodes: info.MissingNodes}
	for i := range list.Partitions {
		list.Partitions[i].Topic = t.Name
	}
	return success(list)
}

func (v topicsAPI) listPartitions(r *http.Request) (answer, error) {
	stats := statsByName(v.broker.ClusterStats(r.Context(), "", "", false))
	list := api.PartitionList{Partitions: []api.Partition{}}
	for _, t := range v.broker.Topics() {
		for _, p := range apiPartitions(t, stats[t.Name]) {
			p.Topic = t.Name
			list.Partitions = append(list.Partitions, p)
			list.MissingNodes = words.Union(list.MissingNodes, p.MissingNodes)
		}
	}
	return success(list)
}

// verify compares the logs of the replicas.
func (v topicsAPI) verify(r *http.Request, t *meta.Topic) (answer, error) {
	digests, err := v.broker.Digest(r.Context(), t.Name)
	if err != nil {
		return answer{}, err
	}
	return success(api.Verification{Topic: t.Name, Partitions: digests})
}

func statsByName(figures []stats.Topic) map[string]*stats.Topic {
	m := make(map[string]*stats.Topic, len(figures))
	for i := range figures {
		m[figures[i].Name] = &figures[i]
	}
	return m
}

// apiTopic describes a topic of a cluster. stats may be nil: no partition has a leader.
func apiTopic(cluster string, t *meta.Topic, stats *stats.Topic) api.Topic {
	out := api.Topic{
		Name:        t.Name,
		Incarnation: uint64(t.Incarnation),
		Config:      apiConfig(t.Config),
		FirstID:     seq.NumberingOf(cluster, uint64(t.Incarnation)).First().String(),
		Paused:      t.Paused,
		Ephemeral:   meta.IsEphemeral(t.Name),
		Partitions:  apiPartitions(t, stats),
		Channels:    apiChannels(t, stats),
	}
	if stats != nil {
		out.Depth = stats.Depth
		out.MessagesTotal = stats.Messages
		out.BytesTotal = stats.Bytes
		out.Bytes = stats.LogBytes
		out.MissingNodes = stats.MissingNodes
		out.DuplicatesTotal, out.RefusedTotal, out.DroppedTotal = stats.Dedup.Duplicates, stats.Refused, stats.Dropped
		if !stats.FullSince.IsZero() {
			out.FullSince, out.RefusedSize = new(stats.FullSince.UTC()), stats.RefusedSize
		}
	}
	return out
}

// apiPartitions describes every partition, from the metadata, with the ends of its log if a leader
// reported them.
func apiPartitions(t *meta.Topic, stats *stats.Topic) []api.Partition {
	out := make([]api.Partition, 0, len(t.Partitions))
	for i, p := range t.Partitions {
		out = append(out, operate.PartitionOf("", i, &p))
	}
	if stats == nil {
		return out
	}
	for i := range out {
		if slices.Contains(stats.MissingNodes, out[i].Leader) {
			out[i].MissingNodes = []string{out[i].Leader}
		}
	}
	for _, p := range stats.Partitions {
		if p.Partition >= 0 && p.Partition < len(out) {
			o := &out[p.Partition]
			o.LogStart = uint64(p.LogStart)
			o.CommittedEnd = uint64(p.CommittedEnd)
			o.LogEnd = uint64(p.LogEnd)
			o.Bytes = p.Bytes
			o.MissingNodes = nil // it leads another partition that it has not reported
		}
	}
	return out
}

// apiChannels lists a topic's channels: those of the metadata, and the ephemeral
// ones that this node has.
func apiChannels(t *meta.Topic, stats *stats.Topic) []api.ChannelSummary {
	byName := map[string]api.ChannelSummary{}
	for name, c := range t.Channels {
		byName[name] = api.ChannelSummary{Name: name, Paused: c.Paused, Ordered: c.Order == policy.Strict, Order: c.Order.String(), Ephemeral: meta.IsEphemeral(name)}
	}
	if stats != nil {
		for _, c := range stats.Channels {
			byName[c.Name] = api.ChannelSummary{
				Name:      c.Name,
				Depth:     c.Depth,
				InFlight:  c.InFlight,
				Deferred:  c.Deferred,
				Consumers: c.Consumers,
				Paused:    c.Paused,
				Ordered:   c.Order == policy.Strict,
				Order:     c.Order.String(),
				Ephemeral: c.Ephemeral,
				OldestAge: api.Duration(c.OldestAge), OldestAgeMS: api.Milliseconds(c.OldestAge),
			}
		}
	}
	out := make([]api.ChannelSummary, 0, len(byName))
	for _, c := range byName {
		if stats != nil {
			c.MissingNodes = stats.MissingNodes
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b api.ChannelSummary) int { return strings.Compare(a.Name, b.Name) })
	return out
}
