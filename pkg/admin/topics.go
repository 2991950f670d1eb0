package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/meta"
)

// routeTopics adds what nsqd lets one do with topics and channels. Each acts on
// the whole topic, on whatever nodes its partitions are.
func (s *Server) routeTopics(t *router) {
	post := func(path string, e endpoint) { t.v1(http.MethodPost, path, e) }
	post("/topic/create", s.createTopic("INVALID_TOPIC"))
	post("/topic/delete", s.deleteTopic)
	post("/topic/empty", s.emptyTopic)
	post("/topic/pause", s.pauseTopic(true))
	post("/topic/unpause", s.pauseTopic(false))
	post("/channel/create", s.createChannel)
	post("/channel/delete", s.deleteChannel)
	post("/channel/empty", s.onChannel(func(ctx context.Context, topic, channel string) error {
		return s.broker.EmptyChannel(ctx, topic, channel)
	}))
	post("/channel/pause", s.onChannel(func(ctx context.Context, topic, channel string) error {
		return s.broker.PauseChannel(ctx, topic, channel, true)
	}))
	post("/channel/unpause", s.onChannel(func(ctx context.Context, topic, channel string) error {
		return s.broker.PauseChannel(ctx, topic, channel, false)
	}))
}

// createTopic makes a topic of default configuration. One that exists is left
// as it is, however it is configured.
func (s *Server) createTopic(invalid string) endpoint {
	return func(r *http.Request) (any, error) {
		_, name, err := topicParam(r, invalid)
		if err != nil {
			return nil, err
		}
		return nil, s.makeTopic(r.Context(), name)
	}
}

// makeTopic makes a topic unless there is one. It is what an explicit request
// asks for, so it does so where topics are not made on first use, too.
func (s *Server) makeTopic(ctx context.Context, name string) error {
	if _, err := s.broker.Topic(name); err == nil {
		return nil
	}
	_, err := s.broker.CreateTopic(ctx, name, meta.TopicConfig{})
	if errors.Is(err, broker.ErrTopicExists) {
		return nil // someone else was faster
	}
	return err
}

// existingTopic returns the parameter topic, which may be anything. A name that
// names nothing, valid or not, is found missing by whoever uses it.
func existingTopic(r *http.Request) (string, error) {
	p, err := readParams(r)
	if err != nil {
		return "", err
	}
	return p.needed("topic", "MISSING_ARG_TOPIC")
}

// deleteTopic deletes a topic. One that a lookup endpoint of this node has just
// deleted is not missed.
func (s *Server) deleteTopic(r *http.Request) (any, error) {
	name, err := existingTopic(r)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if info := s.broker.Cluster(); len(info.Nodes) > 1 && s.hidden.has(name, s.tombstoneName(), now) {
		// A tombstone on this node is followed by the deletion "on this node".
		// There is no such thing as a part of a topic of a cluster.
		return nil, refuse("TOMBSTONED_HERE: a cluster's topic is deleted as a whole, not on one node")
	}
	err = s.findTopic(name)
	if err == nil {
		err = s.broker.DeleteTopic(r.Context(), name)
	}
	if isNotFound(err) && s.deleted.has(name, "", now) {
		return nil, nil
	}
	return nil, err
}

// emptyTopic drops what no channel has got.
func (s *Server) emptyTopic(r *http.Request) (any, error) {
	_, name, err := topicParam(r, "INVALID_TOPIC")
	if err != nil {
		return nil, err
	}
	if err := s.findTopic(name); err != nil {
		return nil, err
	}
	return nil, s.broker.EmptyTopic(r.Context(), name)
}

func (s *Server) pauseTopic(paused bool) endpoint {
	return func(r *http.Request) (any, error) {
		name, err := existingTopic(r)
		if err != nil {
			return nil, err
		}
		if err := s.findTopic(name); err != nil {
			return nil, err
		}
		return nil, s.broker.PauseTopic(r.Context(), name, paused)
	}
}

// createChannel makes a channel of an existing topic.
func (s *Server) createChannel(r *http.Request) (any, error) {
	topic, channel, err := channelParams(r)
	if err != nil {
		return nil, err
	}
	if err := s.findTopic(topic); err != nil {
		return nil, err
	}
	return nil, s.broker.CreateChannel(r.Context(), topic, channel, false)
}

// deleteChannel deletes a channel. One that a lookup endpoint of this node has
// just deleted is not missed.
func (s *Server) deleteChannel(r *http.Request) (any, error) {
	topic, channel, err := channelParams(r)
	if err != nil {
		return nil, err
	}
	if err = s.findTopic(topic); err == nil {
		err = s.broker.DeleteChannel(r.Context(), topic, channel)
	}
	if isNotFound(err) && s.deleted.has(topic, channel, time.Now()) {
		return nil, nil
	}
	return nil, err
}

// onChannel is an endpoint that does something to an existing channel.
func (s *Server) onChannel(do func(ctx context.Context, topic, channel string) error) endpoint {
	return func(r *http.Request) (any, error) {
		topic, channel, err := channelParams(r)
		if err != nil {
			return nil, err
		}
		if err := s.findTopic(topic); err != nil {
			return nil, err
		}
		return nil, do(r.Context(), topic, channel)
	}
}

// findTopic returns the error of a topic that there is not. Asking first keeps
// the order of the checks the same whatever the broker looks at first.
func (s *Server) findTopic(name string) error {
	if !meta.ValidTopicName(name) {
		return broker.ErrTopicNotFound
	}
	_, err := s.broker.Topic(name)
	return err
}

func isNotFound(err error) bool {
	return err != nil && nsqFailure(err).status == http.StatusNotFound
}
