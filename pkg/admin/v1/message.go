package v1

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// messageAPI is about one message, by its id.
type messageAPI struct{ messages messagesAPI }

func (v messageAPI) route(t *API) {
	t.handleCharged("GET /v1/topics/{topic}/messages/{id}", v.get)
	t.handle("POST /v1/topics/{topic}/channels/{channel}/messages/{id}/finish", v.messages.channels.of(v.finish))
}

// placed returns the place of the message whose id the request has.
func (v messageAPI) placed(r *http.Request, t *meta.Topic) (seq.MessageID, error) {
	return v.messages.placed(t, r.PathValue("id"), v.messages.channels.topics.numbering(t))
}

// placed returns the place of a message of a topic whose ids are numbered so.
func (v messagesAPI) placed(t *meta.Topic, text string, ids seq.Numbering) (seq.MessageID, error) {
	id, err := seq.ParseID([]byte(text))
	if err != nil {
		return 0, api.Errorf(failure.Invalid, "%q is not a message id: it has 16 hexadecimal digits", text)
	}
	m, ok := ids.Place(id)
	if !ok || m.Partition() >= len(t.Partitions) {
		return 0, notFound(api.Errorf(failure.NotFound, "message %s does not belong to topic %q, whose ids begin at %s", text, t.Name, ids.First()))
	}
	return m, nil
}

// notFound reports that nothing was changed.
func notFound(e *api.Error) *api.Error {
	e.Fate = "refused"
	return e
}

func missingMessage(id string) error {
	return notFound(api.Errorf(failure.NotFound, "message %s not found: deleted by retention, or not published yet", id))
}

// get returns a message, and its state in every channel.
func (v messageAPI) get(r *http.Request) (answer, error) {
	t, err := v.messages.channels.topics.known(r)
	if err != nil {
		return answer{}, err
	}
	m, err := v.placed(r, t)
	if err != nil {
		return answer{}, err
	}
	share := v.messages.memory.Share(limit.Answers)
	if err := share.Reserve(r.Context(), peekGrowth*(peekBytes+v.messages.publishing.Limits.MaxMessage)); err != nil {
		return answer{}, err
	}
	out, err := v.look(r, t, m)
	if err != nil {
		share.Close()
		return answer{}, err
	}
	return answer{status: http.StatusOK, value: out, turns: v.messages.turnsFor(len(out.Body)), written: share.Close}, nil
}

func (v messageAPI) look(r *http.Request, t *meta.Topic, m seq.MessageID) (*api.MessageDetail, error) {
	b := v.messages.channels.topics.broker
	at := m.Offset()
	req := operate.Peek{Topic: t.Name, Partition: m.Partition(), From: &at, Max: 1, Bytes: peekBytes}
	seen, err := b.Peek(r.Context(), req)
	if err != nil {
		return nil, err
	}
	if len(seen) == 0 || seen[0].Offset != at {
		return nil, missingMessage(r.PathValue("id"))
	}
	out := &api.MessageDetail{Topic: t.Name, Peeked: apiPeeked(seen[0]), Channels: []api.MessageChannel{}}
	for _, name := range v.channelsOf(r, t) {
		req.Channel = name
		seen, err := b.Peek(r.Context(), req)
		switch {
		case errors.Is(err, failure.ChannelNotFound):
		case err != nil:
			return nil, err
		case len(seen) == 0 || seen[0].Offset != at:
			out.Channels = append(out.Channels, api.MessageChannel{Channel: name, State: api.PeekFinished})
		default:
			out.Channels = append(out.Channels, api.MessageChannel{Channel: name, State: seen[0].State, Attempts: seen[0].Attempts})
		}
	}
	return out, nil
}

// maxMessageChannels is the maximum number of channels in which the state of a message is read.
const maxMessageChannels = 100

// channelsOf returns the names of the channels in which to read the state of a message: the one in
// the query, or all.
func (v messageAPI) channelsOf(r *http.Request, t *meta.Topic) []string {
	if only := r.URL.Query().Get("channel"); only != "" {
		return []string{only}
	}
	names := map[string]bool{}
	for name := range t.Channels {
		names[name] = true
	}
	for _, s := range v.messages.channels.topics.broker.ClusterStats(r.Context(), t.Name, "", false) {
		for _, c := range s.Channels {
			names[c.Name] = true
		}
	}
	sorted := slices.Sorted(maps.Keys(names))
	return sorted[:min(len(sorted), maxMessageChannels)]
}

// finish finishes a message in a channel, wherever it is.
func (v messageAPI) finish(r *http.Request, t *meta.Topic, channel string) (answer, error) {
	m, err := v.placed(r, t)
	if err != nil {
		return answer{}, err
	}
	was, err := v.messages.channels.topics.broker.FinishMessage(r.Context(), t.Name, channel, m.Partition(), m.Offset())
	if errors.Is(err, failure.MessageNotFound) {
		return answer{}, missingMessage(r.PathValue("id"))
	}
	if err != nil {
		return answer{}, err
	}
	return success(api.FinishedMessage{
		Topic: t.Name, Channel: channel, ID: r.PathValue("id"), Partition: m.Partition(), Seq: uint64(m.Offset()), Was: was,
	})
}

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
		again.Address = &record.Address{
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
