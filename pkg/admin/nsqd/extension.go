package nsqd

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// headerPrefix begins the request headers that become keys of the message's header.
const headerPrefix = "X-Nsqext-"

// placed is the JSON of a publish whose publisher wants to know the place.
type placed struct {
	Status      string     `json:"status"`
	ID          seq.WireID `json:"id"`
	TraceID     string     `json:"trace_id"`
	QueueOffset int64      `json:"queue_offset"`
	RawSize     int64      `json:"rawsize"`
}

// wireError is an error with a code of the NSQ protocol.
func wireError(w failure.Wire) error {
	if w == failure.TopicNotExist {
		return nsqform.NotFound(w.String())
	}
	return nsqform.Refuse(w.String())
}

// existing returns a topic for the endpoints that create none.
func (s publishing) existing(r *http.Request) (nsqform.Params, *meta.Topic, error) {
	p, name, err := nsqform.TopicParam(r, "INVALID_TOPIC")
	if err != nil {
		return p, nil, err
	}
	t, err := s.Broker.Topic(name)
	if errors.Is(err, failure.TopicNotFound) {
		err = wireError(failure.TopicNotExist)
	}
	return p, t, err
}

// pubExt publishes the body as one message with a header, the parameter ext.
func (s publishing) pubExt(r *http.Request) (any, error) {
	return s.place(r, func(p nsqform.Params, t *meta.Topic, m *topic.Message) (traced bool, err error) {
		text, given := p.Lookup("ext")
		raw, err := requestHeader(r, []byte(text), given)
		if err != nil {
			return false, err
		}
		said, err := s.checkHeader(raw, t)
		if err != nil {
			return false, err
		}
		said.give(m)
		return said.Traced, nil
	})
}

// pubTrace publishes the body as one message with a trace id.
func (s publishing) pubTrace(r *http.Request) (any, error) {
	return s.place(r, func(p nsqform.Params, _ *meta.Topic, m *topic.Message) (traced bool, err error) {
		text, _ := p.Lookup("trace_id")
		if m.TraceID, err = strconv.ParseUint(text, 10, 64); err != nil {
			return false, wireError(failure.InvalidTraceID)
		}
		return true, nil
	})
}

// place publishes the body as one message to an existing topic, after the caller has set its other
// options, and returns its position if the publisher requested it.
func (s publishing) place(r *http.Request, give func(nsqform.Params, *meta.Topic, *topic.Message) (traced bool, err error)) (any, error) {
	b, err := s.Bodies.Read(r, s.Limits.MaxMessage)
	if err != nil {
		return nil, bodyError(err, "MSG_TOO_BIG")
	}
	defer b.Release()
	if len(b.Bytes()) == 0 {
		return nil, nsqform.Refuse("MSG_EMPTY")
	}
	p, t, err := s.existing(r)
	if err != nil {
		return nil, err
	}
	m := topic.Message{Body: b.Bytes()}
	traced, err := give(p, t, &m)
	if err != nil {
		return nil, err
	}
	partition, err := p.Partition()
	if err != nil {
		return nil, err
	}
	receipt, err := s.Publish(r.Context(), publish.Request{Topic: t.Name, Partition: partition, Messages: []topic.Message{m}})
	if err != nil {
		return nil, nsqform.PublishError(err)
	}
	if !traced {
		return "OK", nil
	}
	ids := seq.NumberingOf(s.cluster(), uint64(t.Incarnation))
	return placed{
		"OK", ids.ID(seq.NewMessageID(receipt.Partition, receipt.First)), strconv.FormatUint(m.TraceID, 10), receipt.Position, receipt.RawSize,
	}, nil
}

// described is a parsed header with the values for the broker.
type described struct {
	header.Reserved
	raw []byte // kept with the message; nil: the topic has no headers
}

// checkHeader checks a header; nil is none.
func (s publishing) checkHeader(raw []byte, t *meta.Topic) (described, error) {
	if raw == nil {
		return described{}, nil
	}
	said, err := header.Parse(raw)
	switch {
	case errors.Is(err, header.ErrTraceID):
		return described{}, wireError(failure.InvalidTraceID)
	case err != nil:
		return described{}, wireError(failure.InvalidJSONHeader)
	case t.Config.Ext:
		return described{said, raw}, nil
	case !said.Options:
		return described{}, wireError(failure.ExtNotSupported)
	}
	return described{said, nil}, nil
}

// give applies a header to a message.
func (d *described) give(m *topic.Message) {
	m.Header, m.TraceID = d.raw, d.TraceID
	if d.Key != nil {
		m.Key = d.Key
	}
	if d.Dedup != nil {
		m.Dedup = d.Dedup
	}
	if d.TTL > 0 {
		m.TTL = d.TTL
	}
}

// headed gives messages the header that the request has for them, if it has one. With a
// dedup id, message n of several has ID/n.
func (s publishing) headed(r *http.Request, name string, messages []topic.Message) error {
	raw, err := requestHeader(r, nil, false)
	if err != nil || raw == nil {
		return err
	}
	t, err := s.Broker.Topic(name)
	if err != nil {
		return err
	}
	said, err := s.checkHeader(raw, t)
	if err != nil {
		return err
	}
	id := said.Dedup
	for i := range messages {
		if id != nil && len(messages) > 1 {
			said.Dedup = []byte(web.Numbered(string(id), i))
		}
		said.give(&messages[i])
	}
	return nil
}

// requestHeader returns the header of a request's messages: an object that is given, and the
// request headers that begin with X-Nsqext-, whose keys are in lower case and go before.
// nil: none.
func requestHeader(r *http.Request, object []byte, given bool) (header []byte, err error) {
	keys := map[string][]byte{}
	for name, values := range r.Header {
		if key, ok := strings.CutPrefix(name, headerPrefix); ok && key != "" {
			keys[strings.ToLower(key)] = jsonbytes.AppendText(nil, []byte(values[0]))
		}
	}
	if len(keys) == 0 {
		if !given {
			return nil, nil
		}
		return object, nil
	}
	if given {
		members, ok := jsonbytes.Members(object)
		if !ok {
			return nil, wireError(failure.InvalidJSONHeader)
		}
		all := map[string][]byte{}
		for key, value := range members {
			all[string(key)] = value
		}
		maps.Copy(all, keys)
		keys = all
	}
	separator := byte('{')
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		header = append(jsonbytes.AppendText(append(header, separator), []byte(key)), ':')
		header = append(header, keys[key]...)
		separator = ','
	}
	return append(header, '}'), nil
}
