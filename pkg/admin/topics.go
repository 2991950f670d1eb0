package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/brokerd/brokerd/pkg/broker"
)

// nodeTopics is what nsqd lets one do with topics and channels. Each acts on the
// whole topic, on whatever nodes its partitions are.
type nodeTopics struct {
	catalog
	lookups *lookups  // knows what was deleted or tombstoned of late
	own     *recently // what these endpoints have deleted
}

// gone says whether what there is not was deleted of late, and not by these
// endpoints: an admin page deletes at one node after the other what they have in
// common.
func (s *nodeTopics) gone(topic, channel string, now time.Time) bool {
	return s.lookups.deleted.has(topic, channel, now) || s.broker.DeletedLately(topic, channel) && !s.own.has(topic, channel, now)
}

func (s *nodeTopics) route(t *router) {
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
// as it is, however it is configured. A bad name is answered with the word
// invalid.
func (c catalog) createTopic(invalid string) endpoint {
	return func(r *http.Request) (any, error) {
		_, name, err := topicParam(r, invalid)
		if err != nil {
			return nil, err
		}
		return nil, c.make(r.Context(), name)
	}
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

// deleteTopic deletes a topic. One that was just deleted in another way, or at
// another node, is not missed.
func (s *nodeTopics) deleteTopic(r *http.Request) (any, error) {
	name, err := existingTopic(r)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if info := s.broker.Cluster(); len(info.Nodes) > 1 && s.lookups.tombstonedHere(name, now) {
		// A tombstone on this node is followed by the deletion "on this node".
		// There is no such thing as a part of a topic of a cluster.
		return nil, refuse("TOMBSTONED_HERE: topics are deleted cluster-wide, not on one node")
	}
	if err = s.whole(r, name); err != nil {
		if isMissing(err) && s.gone(name, "", now) {
			return nil, nil
		}
		return nil, err
	}
	err = s.broker.DeleteTopic(r.Context(), name)
	if err == nil {
		s.own.add(name, "", now)
	}
	return nil, unlessMissing(err) // it was there: another was faster
}

// emptyTopic drops what no channel has got.
func (s *nodeTopics) emptyTopic(r *http.Request) (any, error) {
	_, name, err := topicParam(r, "INVALID_TOPIC")
	if err != nil {
		return nil, err
	}
	if err := s.whole(r, name); err != nil {
		return nil, err
	}
	return nil, s.broker.EmptyTopic(r.Context(), name)
}

func (s *nodeTopics) pauseTopic(paused bool) endpoint {
	return func(r *http.Request) (any, error) {
		name, err := existingTopic(r)
		if err != nil {
			return nil, err
		}
		if err := s.whole(r, name); err != nil {
			return nil, err
		}
		return nil, s.broker.PauseTopic(r.Context(), name, paused)
	}
}

// createChannel makes a channel of an existing topic.
func (s *nodeTopics) createChannel(r *http.Request) (any, error) {
	topic, channel, err := newChannelParams(r)
	if err != nil {
		return nil, err
	}
	if err := s.whole(r, topic); err != nil {
		return nil, err
	}
	return nil, s.broker.CreateChannel(r.Context(), topic, channel, false)
}

// deleteChannel deletes a channel. One that was just deleted in another way, or at
// another node, is not missed.
func (s *nodeTopics) deleteChannel(r *http.Request) (any, error) {
	topic, channel, err := channelParams(r)
	if err != nil {
		return nil, err
	}
	now, had := time.Now(), s.has(topic, channel)
	if err = s.whole(r, topic); err == nil {
		err = s.broker.DeleteChannel(r.Context(), topic, channel)
	}
	switch {
	case err == nil:
		s.own.add(topic, channel, now)
	case isMissing(err) && (had || s.gone(topic, channel, now)):
		return nil, nil
	}
	return nil, err
}

// onChannel is an endpoint that does something to an existing channel.
func (s *nodeTopics) onChannel(do func(ctx context.Context, topic, channel string) error) endpoint {
	return func(r *http.Request) (any, error) {
		topic, channel, err := channelParams(r)
		if err != nil {
			return nil, err
		}
		if err := s.whole(r, topic); err != nil {
			return nil, err
		}
		return nil, do(r.Context(), topic, channel)
	}
}

// isMissing says whether an error is that a topic or channel is not there.
func isMissing(err error) bool {
	return isNotFound(err) && !errors.Is(err, broker.ErrPartitionNotFound)
}

// unlessMissing returns an error that isMissing does not know.
func unlessMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}

func isNotFound(err error) bool {
	return err != nil && nsqFailure(err).status == http.StatusNotFound
}
