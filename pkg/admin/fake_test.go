package admin

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// fake is a Broker in memory. Its topics exist; its messages are only counted.
type fake struct {
	undecidable error // why the metadata cannot be changed
	mu          sync.Mutex
	topics      map[string]*meta.Topic
	published   []publish.Request
	calls       []string
	info        api.Cluster
	stats       []stats.Topic
	ready       []health.Reason
	receipt     func(publish.Request) *topic.Receipt // nil answer: Done is not called
	fail        error                                // returned by every change
	fates       []fate.Fate                          // of the recorded acts
	noCreate    bool                                 // topics are not created on first use
	sought      operate.SeekTo
	saved       []*meta.Saved
	journal     meta.State
	peeked      operate.Peek
	long        []byte             // one more message to peek at
	gone        map[[2]string]bool // deleted at another node
}

func newFake(topics ...string) *fake {
	f := &fake{
		topics: map[string]*meta.Topic{},
		info: api.Cluster{ClusterID: "c1", Controller: "n1", Self: "n1", Nodes: []api.Node{{
			ID: "n1", State: "up", Voter: true, TCPAddress: "10.0.0.1:4150", HTTPAddress: "10.0.0.1:4151",
			ClusterAddress: "10.0.0.1:4152", Version: "1.3.0", Incarnation: 7,
		}}},
	}
	for _, name := range topics {
		f.create(name, meta.TopicConfig{}.WithDefaults(1, false))
	}
	return f
}

func (f *fake) create(name string, cfg meta.TopicConfig) *meta.Topic {
	t := &meta.Topic{Name: name, Config: cfg, Channels: map[string]*meta.Channel{}}
	for range cfg.Partitions {
		t.Partitions = append(t.Partitions, meta.Partition{
			Replicas: []meta.NodeID{"n1"}, Leader: "n1", Epoch: 1, ISR: []meta.NodeID{"n1"},
		})
	}
	f.topics[name] = t
	return t
}

// withChannel adds a channel to a topic.
func (f *fake) withChannel(topic, channel string) *fake {
	f.topics[topic].Channels[channel] = &meta.Channel{Name: channel}
	return f
}

// call records a change and returns the error configured for changes.
func (f *fake) call(what string) error {
	f.calls = append(f.calls, what)
	return f.fail
}

func (f *fake) Publish(_ context.Context, p publish.Request) {
	f.mu.Lock()
	kept := p
	kept.Messages = slices.Clone(p.Messages)
	for i := range kept.Messages {
		kept.Messages[i].Body = slices.Clone(kept.Messages[i].Body)
	}
	f.published = append(f.published, kept)
	answer := f.receipt
	f.mu.Unlock()
	if answer == nil {
		p.Done(topic.Receipt{Count: len(p.Messages)})
		return
	}
	if r := answer(p); r != nil {
		p.Done(*r)
	}
}

func (f *fake) Topics() []*meta.Topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*meta.Topic
	for _, name := range slices.Sorted(maps.Keys(f.topics)) {
		list = append(list, f.topics[name])
	}
	return list
}

func (f *fake) DeletedLately(topic, channel string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gone[[2]string{topic, channel}]
}

func (f *fake) NodeStats(_ context.Context, topicFilter, channelFilter string, clients bool) []stats.Topic {
	return f.TopicStats(topicFilter, channelFilter, clients)
}

func (f *fake) Topic(name string) (*meta.Topic, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t, ok := f.topics[name]; ok {
		return t, nil
	}
	return nil, failure.TopicNotFound
}

func (f *fake) CreateTopic(_ context.Context, name string, cfg meta.TopicConfig) (*meta.Topic, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call("create " + name); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults(1, meta.IsEphemeral(name))
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if t, ok := f.topics[name]; ok {
		if t.Config != cfg {
			return nil, failure.TopicExists
		}
		return t, nil
	}
	return f.create(name, cfg), nil
}

// fakePlans plans topics of a fake.
type fakePlans struct{ *fake }

func (f fakePlans) PlanTopic(_ context.Context, name string, cfg meta.TopicConfig, channels ...meta.CreateChannel) (*meta.Topic, error) {
	if _, there := f.topics[name]; there {
		return nil, failure.TopicExists
	}
	t := &meta.Topic{Name: name, Config: cfg.WithDefaults(1, false), Partitions: []meta.Partition{{Replicas: []meta.NodeID{"n1"}}}, Channels: map[string]*meta.Channel{}}
	for _, c := range channels {
		t.Channels[c.Channel] = &meta.Channel{Name: c.Channel, Order: c.Order, Policy: c.Policy, Filter: c.Filter}
	}
	return t, nil
}

func (f fakePlans) PlanAlter(_ context.Context, name string, change func(*meta.TopicConfig)) (*meta.Topic, error) {
	t := *f.topics[name]
	change(&t.Config)
	return &t, t.Config.Validate()
}

func (f fakePlans) PlanPartitions(_ context.Context, name string, total int) (*meta.Topic, error) {
	t := *f.topics[name]
	t.Partitions = make([]meta.Partition, total)
	return &t, nil
}

func (f fakePlans) PlanRestore(_ context.Context, c meta.RestoreTopic) (*meta.Topic, error) {
	if t := f.topics[c.Name]; t != nil {
		return t, nil
	}
	return nil, failure.NotInTrash
}

func (f fakePlans) PlanChannel(_ context.Context, c meta.Command) (*meta.Topic, error) {
	name, ch := "", meta.Channel{}
	switch c := c.(type) {
	case meta.CreateChannel:
		name, ch = c.Topic, meta.Channel{Name: c.Channel, Order: c.Order, Policy: c.Policy, Filter: c.Filter}
	case meta.AlterChannel:
		name, ch = c.Topic, *f.topics[c.Topic].Channels[c.Channel]
		ch.Policy = c.Policy.Apply(ch.Policy)
	}
	t := *f.topics[name]
	t.Channels = maps.Clone(t.Channels)
	t.Channels[ch.Name] = &ch
	return &t, nil
}

func (f fakePlans) Decidable() error { return f.undecidable }

func (fakePlans) MessageLimit(context.Context) (int, meta.NodeID) { return 10, "n2" }

func (f *fake) MadeOnFirstUse() (meta.TopicConfig, bool) {
	return meta.TopicConfig{}.WithDefaults(1, false), !f.noCreate
}

func (f *fake) EnsureTopic(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noCreate {
		return failure.TopicNotFound
	}
	if err := f.call("ensure " + name); err != nil {
		return err
	}
	f.create(name, meta.TopicConfig{}.WithDefaults(1, false))
	return nil
}

func (f *fake) AlterTopic(_ context.Context, name string, change func(*meta.TopicConfig)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call("alter " + name); err != nil {
		return err
	}
	next := *f.topics[name]
	change(&next.Config)
	f.topics[name] = &next
	return next.Config.Validate()
}

func (f *fake) AddPartitions(_ context.Context, name string, total int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call("partitions " + name); err != nil {
		return err
	}
	cfg := f.topics[name].Config
	cfg.Partitions = total
	f.create(name, cfg)
	return nil
}

func (f *fake) DeleteTopic(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call("delete " + name); err != nil {
		return err
	}
	delete(f.topics, name)
	return nil
}

func (f *fake) EmptyTopic(_ context.Context, name string) error { return f.locked("empty " + name) }

func (f *fake) PauseTopic(_ context.Context, name string, paused bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call("pause " + name); err != nil {
		return err
	}
	next := *f.topics[name]
	next.Paused = paused
	f.topics[name] = &next
	return nil
}

func (f *fake) locked(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.call(what)
}

func (f *fake) CreateChannel(_ context.Context, topic, channel string, ordered bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call("create " + topic + "/" + channel); err != nil {
		return err
	}
	t, ok := f.topics[topic]
	if !ok {
		return failure.TopicNotFound
	}
	if t.Channels[channel] == nil {
		t.Channels[channel] = &meta.Channel{Name: channel, Order: policy.StrictIf(ordered)}
	}
	return nil
}

// onChannel records a call for a channel, which must exist.
func (f *fake) onChannel(what, topic, channel string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(what + " " + topic + "/" + channel); err != nil {
		return err
	}
	t, ok := f.topics[topic]
	if !ok {
		return failure.TopicNotFound
	}
	c, ok := t.Channels[channel]
	if !ok {
		return failure.ChannelNotFound
	}
	switch what {
	case "delete":
		delete(t.Channels, channel)
	case "pause", "resume":
		next := *c
		next.Paused = what == "pause"
		t.Channels[channel] = &next
	}
	return nil
}

func (f *fake) DeleteChannel(_ context.Context, topic, channel string) error {
	return f.onChannel("delete", topic, channel)
}

func (f *fake) EmptyChannel(_ context.Context, topic, channel string) error {
	return f.onChannel("empty", topic, channel)
}

func (f *fake) PauseChannel(_ context.Context, topic, channel string, paused bool) error {
	what := "resume"
	if paused {
		what = "pause"
	}
	return f.onChannel(what, topic, channel)
}

func (f *fake) SeekChannel(_ context.Context, topic, channel string, to operate.SeekTo) error {
	f.sought = to
	return f.onChannel("seek", topic, channel)
}

func (f *fake) TopicStats(topicFilter, channelFilter string, clients bool) []stats.Topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []stats.Topic
	for _, t := range f.stats {
		if topicFilter != "" && t.Name != topicFilter {
			continue
		}
		t.Channels = slices.DeleteFunc(slices.Clone(t.Channels), func(c stats.Channel) bool {
			return channelFilter != "" && c.Name != channelFilter
		})
		for i := range t.Channels {
			if !clients {
				t.Channels[i].Clients = nil
			}
		}
		list = append(list, t)
	}
	return list
}

func (f *fake) Peek(_ context.Context, p operate.Peek) ([]operate.Peeked, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.peeked = p
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	messages := []operate.Peeked{
		{Partition: 0, Offset: 5, ID: 5, Timestamp: at, Attempts: 2, State: api.PeekInFlight, Header: []byte(`{"k":"v"}`), Body: []byte("text")},
		{Partition: 1, Offset: 9, ID: 1<<50 + 9, Timestamp: at, DeliverAt: at.Add(time.Minute), State: api.PeekDeferred, Body: []byte{0xff}},
	}
	if f.long != nil {
		messages = append(messages, operate.Peeked{Partition: 1, Offset: 10, Body: f.long})
	}
	return messages, f.fail
}

func (f *fake) Digest(_ context.Context, topic string) ([]api.PartitionDigest, error) {
	return []api.PartitionDigest{
		{Partition: 0, CommittedEnd: 120, Digests: map[string]string{"n1": "ab"}, Identical: true},
		{Partition: 1, CommittedEnd: 7, Digests: map[string]string{"n1": "ab", "n2": "cd"}},
		{Partition: 2, CommittedEnd: 0, Digests: map[string]string{}},
	}, f.fail
}

func (f *fake) Cluster() api.Cluster { return f.info }

func (f *fake) ClusterStats(_ context.Context, topicFilter, channelFilter string, clients bool) []stats.Topic {
	return f.TopicStats(topicFilter, channelFilter, clients)
}

func (f *fake) Unregistered(context.Context) []api.UnregisteredNode {
	return []api.UnregisteredNode{{ID: "n9", ClusterAddress: "n9:4152", Silent: true, Reason: "no answer at n9:4152"}}
}

func (f *fake) ClusterHealth(context.Context) health.Report {
	return health.Report{Healthy: len(f.ready) == 0, Degraded: len(f.ready) == 0, Reasons: f.ready}
}

func (f *fake) Ready() []health.Reason { return f.ready }

// discard is a fake that does not keep published messages.
type discard struct{ *fake }

func (discard) Publish(_ context.Context, p publish.Request) {
	p.Done(topic.Receipt{Count: len(p.Messages)})
}
