package nsqd

import (
	"context"
	"net/http"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/admin/web"
)

// nodeTopics are nsqd's endpoints for topics and channels. Each acts on the whole topic, on all
// nodes that have its partitions.
type nodeTopics struct {
	nsqform.Catalog
	broker  Broker
	lookups Lookups           // recent deletions and tombstones
	own     *nsqform.Recently // recent deletions through these endpoints
	bodies  *web.Bodies
}

// gone reports whether a missing object was deleted recently, and not through these endpoints:
// nsqadmin deletes an object at one node after another.
func (s *nodeTopics) gone(topic, channel string, now time.Time) bool {
	return s.lookups.HasDeleted(topic, channel, now) || s.broker.DeletedLately(topic, channel) && !s.own.Has(topic, channel, now)
}

func (s *nodeTopics) route(t *nsqform.Router) {
	post := func(path string, e nsqform.Endpoint) { t.Add(http.MethodPost, path, e) }
	post("/topic/create", s.CreateTopic("INVALID_TOPIC"))
	post("/topic/delete", s.deleteTopic)
	post("/topic/empty", s.emptyTopic)
	post("/topic/pause", s.pauseTopic(true))
	post("/topic/unpause", s.pauseTopic(false))
	post("/channel/create", s.onChannel(nsqform.NewChannelParams, func(ctx context.Context, topic, channel string) error {
		return s.broker.CreateChannel(ctx, topic, channel, false)
	}))
	post("/channel/delete", s.deleteChannel)
	post("/channel/empty", s.onChannel(nsqform.ChannelParams, s.broker.EmptyChannel))
	post("/channel/pause", s.onChannel(nsqform.ChannelParams, func(ctx context.Context, topic, channel string) error {
		return s.broker.PauseChannel(ctx, topic, channel, true)
	}))
	post("/channel/setoffset", s.setOffset)
	post("/channel/unpause", s.onChannel(nsqform.ChannelParams, func(ctx context.Context, topic, channel string) error {
		return s.broker.PauseChannel(ctx, topic, channel, false)
	}))
}

// deleteTopic deletes a topic. One that was just deleted in another way, or at
// another node, is not missed.
func (s *nodeTopics) deleteTopic(r *http.Request) (any, error) {
	name, err := nsqform.ExistingTopic(r)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if info := s.broker.Cluster(); len(info.Nodes) > 1 && s.lookups.TombstonedHere(name, now) {
		// A tombstone on this node is followed by the deletion "on this node".
		// There is none as a part of a topic of a cluster.
		return nil, nsqform.Refuse("TOMBSTONED_HERE: topics are deleted cluster-wide, not on one node")
	}
	if err = s.Whole(r, name); err != nil {
		if nsqform.IsMissing(err) && s.gone(name, "", now) {
			return nil, nil
		}
		return nil, err
	}
	err = s.broker.DeleteTopic(r.Context(), name)
	if err == nil {
		s.own.Add(name, "", now)
	}
	return nil, nsqform.UnlessMissing(err) // it existed: another request was faster
}

// emptyTopic drops the messages that no channel has received.
func (s *nodeTopics) emptyTopic(r *http.Request) (any, error) {
	_, name, err := nsqform.TopicParam(r, "INVALID_TOPIC")
	if err != nil {
		return nil, err
	}
	if err := s.Whole(r, name); err != nil {
		return nil, err
	}
	return nil, s.broker.EmptyTopic(r.Context(), name)
}

func (s *nodeTopics) pauseTopic(paused bool) nsqform.Endpoint {
	return func(r *http.Request) (any, error) {
		name, err := nsqform.ExistingTopic(r)
		if err != nil {
			return nil, err
		}
		if err := s.Whole(r, name); err != nil {
			return nil, err
		}
		return nil, s.broker.PauseTopic(r.Context(), name, paused)
	}
}

// deleteChannel deletes a channel. One that was just deleted in another way, or at
// another node, is not missed.
func (s *nodeTopics) deleteChannel(r *http.Request) (any, error) {
	topic, channel, err := nsqform.ChannelParams(r)
	if err != nil {
		return nil, err
	}
	now, had := time.Now(), s.Has(topic, channel)
	if err = s.Whole(r, topic); err == nil {
		err = s.broker.DeleteChannel(r.Context(), topic, channel)
	}
	switch {
	case err == nil:
		s.own.Add(topic, channel, now)
	case nsqform.IsMissing(err) && (had || s.gone(topic, channel, now)):
		return nil, nil
	}
	return nil, err
}

// onChannel is an endpoint that does something to the channel that names returns, of an existing topic.
func (s *nodeTopics) onChannel(names func(*http.Request) (topic, channel string, err error), do func(ctx context.Context, topic, channel string) error) nsqform.Endpoint {
	return func(r *http.Request) (any, error) {
		topic, channel, err := names(r)
		if err != nil {
			return nil, err
		}
		if err := s.Whole(r, topic); err != nil {
			return nil, err
		}
		return nil, do(r.Context(), topic, channel)
	}
}
