package v1

import (
	"net/http"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// againAPI publishes messages again that are stored.
type againAPI struct{ one messageAPI }

func (v againAPI) route(t *API) {
	t.handleCharged("POST /v1/topics/{topic}/channels/{channel}/messages/{id}/requeue", v.one.messages.channels.of(v.requeue))
	t.handleCharged("POST /v1/topics/{topic}/messages/{id}/copy", v.copy)
}

// requeue publishes a message again for one channel alone, in its partition.
func (v againAPI) requeue(r *http.Request, t *meta.Topic, channel string) (answer, error) {
	c := t.Channels[channel]
	if c == nil {
		return answer{}, notFound(api.Errorf(failure.NotFound, "channel %q of topic %q not found, or ephemeral", channel, t.Name))
	}
	return v.publish(r, t, func(m seq.MessageID, seen *operate.Peeked, again topic.Message) publish.Request {
		again.Address = &topic.Address{
			Channel: uint64(c.Version), Partition: m.Partition(), Offset: m.Offset(), Timestamp: seen.Timestamp.UnixNano(),
		}
		return publish.Request{Topic: t.Name, Partition: m.Partition(), Messages: []topic.Message{again}}
	})
}

// copy publishes a message to another topic, or to all channels of its own.
func (v againAPI) copy(r *http.Request) (answer, error) {
	t, err := v.one.messages.channels.topics.known(r)
	if err != nil {
		return answer{}, err
	}
	to := r.URL.Query().Get("to")
	if err := guard.CallerOf(r.Context()).Allow(access.Demand{Right: access.Publish, Topic: to}); err != nil {
		return answer{}, err
	}
	if _, err := v.one.messages.channels.topics.broker.Topic(to); err != nil {
		return answer{}, notFound(api.Errorf(failure.NotFound, "topic %q not found: name the topic to copy to with to=TOPIC", to))
	}
	return v.publish(r, t, func(_ seq.MessageID, _ *operate.Peeked, again topic.Message) publish.Request {
		return publish.Request{Topic: to, Partition: host.AnyPartition, Messages: []topic.Message{again}}
	})
}

// publish reads the message whose id is in the request, and publishes a message derived from it.
func (v againAPI) publish(r *http.Request, t *meta.Topic, of func(seq.MessageID, *operate.Peeked, topic.Message) publish.Request) (answer, error) {
	m, err := v.one.placed(r, t)
	if err != nil {
		return answer{}, err
	}
	messages := v.one.messages
	share := messages.memory.Share(limit.Answers)
	defer share.Close()
	if err := share.Reserve(r.Context(), peekBytes+messages.publishing.Limits.MaxMessage); err != nil {
		return answer{}, err
	}
	at := m.Offset()
	seen, err := messages.channels.topics.broker.Peek(r.Context(), operate.Peek{Topic: t.Name, Partition: m.Partition(), From: &at, Max: 1, Bytes: peekBytes})
	if err != nil {
		return answer{}, err
	}
	if len(seen) == 0 || seen[0].Offset != at {
		return answer{}, missingMessage(r.PathValue("id"))
	}
	s := &seen[0]
	p := of(m, s, topic.Message{Body: s.Body, Header: s.Header, TraceID: s.TraceID, Key: s.Key})
	receipt, err := messages.publishing.Publish(r.Context(), p)
	if err != nil {
		return answer{}, publishError(err)
	}
	return success(messages.published(p.Topic, &receipt))
}
