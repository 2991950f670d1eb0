package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

const (
	// longJSON is how many bytes are encoded as JSON, or decoded, without a turn.
	longJSON = 64 << 10
	// defaultPeek is the default number of returned messages.
	defaultPeek = 10
	// peekBytes is the number of message bytes after which an answer is complete.
	peekBytes = 1 << 20
	// peekGrowth is the ratio of the size of an answer to that of its messages while it is built:
	// each body is present as bytes and as text, and JSON escapes a byte with up to six.
	peekGrowth = 16
)

// messagesAPI publishes and reads messages.
type messagesAPI struct {
	channels   channelsAPI
	publishing *web.Publishing
	memory     *limit.Memory
	cluster    *atomic.Pointer[string] // its id; nil: not requested yet
}

func (v messagesAPI) route(t *API) {
	t.handle("POST /v1/topics/{topic}/messages", v.publish)
	t.handleCharged("GET /v1/topics/{topic}/messages", v.peek)
	t.handleCharged("GET /v1/topics/{topic}/channels/{channel}/messages", v.peek)
}

// publish stores messages: those of a JSON body, or a body of any other type as one message.
// Without a content type, a body that begins like such JSON is JSON.
func (v messagesAPI) publish(r *http.Request) (answer, error) {
	name := r.PathValue("topic")
	if !meta.ValidTopicName(name) {
		return answer{}, failure.InvalidTopic
	}
	limits := v.publishing.Limits
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // a bad one is not JSON's
	isJSON := mediaType == "application/json"
	if mediaType == "" || mediaType == formType {
		isJSON = beginsWithMessages(web.Peek(r))
	}
	most := limits.MaxMessage
	if isJSON {
		most = web.JSONGrowth * limits.MaxBody
	}
	b, err := v.publishing.Bodies.Read(r, most)
	if errors.Is(err, web.ErrBodyTooLarge) {
		return answer{}, api.Errorf(failure.TooLarge, "request body exceeds %d bytes", most)
	}
	if err != nil {
		return answer{}, err
	}
	defer b.Release()
	read := v.readRaw
	if isJSON {
		read = v.readMessages
		if err := payJSON(r.Context(), b); err != nil {
			return answer{}, err
		}
	}
	var turns *limit.Turns
	if isJSON {
		turns = v.turnsFor(len(b.Bytes()))
	}
	var req publish.Request
	turns.Do(func() { req, err = read(r, b.Bytes()) })
	if err != nil {
		return answer{}, err
	}
	req.Topic = name
	if err := v.publishing.Ensure(r.Context(), name); err != nil {
		return answer{}, publishError(err)
	}
	receipt, err := v.publishing.Publish(r.Context(), req)
	if err != nil {
		return answer{}, publishError(err)
	}
	return success(v.published(name, &receipt))
}

// published describes the stored messages.
func (v messagesAPI) published(name string, r *topic.Receipt) api.Published {
	out := api.Published{Topic: name, Partition: r.Partition, FirstSeq: uint64(r.First), Count: r.Count, IDs: make([]string, r.Count)}
	numbers := v.numbering(name)
	for i := range out.IDs {
		out.IDs[i] = numbers.ID(r.ID(i)).String()
	}
	if r.IDs != nil {
		out.Parts = partsOf(r)
	}
	return out
}

// partsOf returns the stored messages by partition.
func partsOf(r *topic.Receipt) (parts []api.PublishedPart) {
	for _, id := range r.IDs {
		i := slices.IndexFunc(parts, func(p api.PublishedPart) bool { return p.Partition == id.Partition() })
		if i < 0 {
			i = len(parts)
			parts = append(parts, api.PublishedPart{Partition: id.Partition(), FirstSeq: uint64(id.Offset())})
		}
		parts[i].Count++
	}
	return parts
}

// numbering returns the numbering that converts positions to ids of a topic's messages.
func (v messagesAPI) numbering(name string) seq.Numbering {
	b := v.channels.topics.broker
	cluster := v.cluster.Load()
	if cluster == nil {
		cluster = new(b.Cluster().ClusterID)
		v.cluster.Store(cluster) // it has the same name forever
	}
	t, err := b.Topic(name)
	if err != nil {
		return seq.Numbering{} // it was deleted at this moment
	}
	return seq.NumberingOf(*cluster, uint64(t.Incarnation))
}

// formType is the content type that curl -d sends by default.
const formType = "application/x-www-form-urlencoded"

// beginsWithMessages reports whether a body is a JSON object whose first name is messages.
func beginsWithMessages(body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	if brace, err := d.Token(); err != nil || brace != json.Delim('{') {
		return false
	}
	name, err := d.Token()
	return err == nil && name == "messages"
}

// turnsFor returns the turns for encoding or decoding n bytes of JSON; none for small ones.
func (v messagesAPI) turnsFor(bytes int) *limit.Turns {
	if bytes <= longJSON {
		return nil
	}
	return v.publishing.Turns
}

// payJSON reserves memory for the decoded body: its texts, and its messages, of which there are at
// most as many as commas plus one. The list of messages doubles as it grows.
func payJSON(ctx context.Context, b *web.Body) error {
	const each = 3*unsafe.Sizeof(api.Message{}) + unsafe.Sizeof(topic.Message{})
	if err := b.PayList(ctx, len(b.Bytes()), 1); err != nil {
		return err
	}
	return b.PayList(ctx, bytes.Count(b.Bytes(), []byte{','})+1, each)
}

// publishError is apiError for a publish.
func publishError(err error) error {
	e := apiError(err)
	if _, given := errors.AsType[*api.Error](err); !given {
		f := failure.OfPublish(err)
		e.Code, e.Hint = f.Code, f.Hint
	}
	return e
}

// readRaw creates one message from a body. Its options are in the query string.
func (v messagesAPI) readRaw(r *http.Request, body []byte) (publish.Request, error) {
	q := r.URL.Query()
	partition, err := partitionOf(q.Get("partition"))
	if err != nil {
		return publish.Request{}, err
	}
	m := api.Message{Body: body, Key: q.Get("key"), Dedup: q.Get("dedup")}
	if text := q.Get("ttl"); text != "" {
		if err := m.TTL.UnmarshalText([]byte(text)); err != nil {
			return publish.Request{}, api.Errorf(failure.Invalid, "ttl: %w", err)
		}
	}
	if text := q.Get("delay"); text != "" {
		if err := m.Delay.UnmarshalText([]byte(text)); err != nil {
			return publish.Request{}, api.Errorf(failure.Invalid, "delay: %w", err)
		}
	}
	return v.publishOf(r, api.Publish{Messages: []api.Message{m}, Partition: partition})
}

// readMessages creates messages from a JSON body.
func (v messagesAPI) readMessages(r *http.Request, body []byte) (publish.Request, error) {
	var req api.Publish
	if err := decodeJSON(body, &req); err != nil {
		return publish.Request{}, err
	}
	return v.publishOf(r, req)
}

// publishOf validates a publish and converts it for the broker. Only administrators may publish
// dead letters, as backups and exports contain them, because their publisher determines where a
// redrive sends them.
func (v messagesAPI) publishOf(r *http.Request, req api.Publish) (publish.Request, error) {
	out := publish.Request{Partition: host.AnyPartition}
	if len(req.Messages) == 0 {
		return out, api.Errorf(failure.Invalid, "no messages given")
	}
	if req.Partition != nil {
		if *req.Partition < 0 || *req.Partition >= seq.MaxPartitions {
			return out, api.Errorf(failure.Invalid, "partition %d is not between 0 and %d", *req.Partition, seq.MaxPartitions-1)
		}
		out.Partition = *req.Partition
	}
	out.Messages = make([]topic.Message, 0, len(req.Messages))
	total := 0
	for i, m := range req.Messages {
		if m.Key == "" {
			m.Key = req.Key
		}
		tm, err := messageOf(m, v.publishing.Limits)
		if err != nil {
			return out, api.Errorf(api.CodeOf(err), "message %d: %w", i, err)
		}
		if _, err := header.Parse(tm.Header); errors.Is(err, header.ErrWritten) && guard.CallerOf(r.Context()).Allow(access.Demand{Right: access.Admin}) != nil {
			return out, api.Errorf(failure.Forbidden, "message %d: %w, except by an administrator", i, err)
		}
		if total += len(tm.Body); total > v.publishing.Limits.MaxBody {
			return out, api.Errorf(failure.TooLarge, "messages exceed %d bytes in total", v.publishing.Limits.MaxBody)
		}
		out.Messages = append(out.Messages, tm)
	}
	return out, nil
}

// messageOf checks one message. Its errors are *api.Error.
func messageOf(m api.Message, l web.Limits) (topic.Message, error) {
	out := topic.Message{Body: m.Body, TraceID: m.TraceID}
	ttl, err := durationOf("ttl", m.TTL, m.TTLMS, meta.MaxTTL)
	if err != nil {
		return out, err
	}
	if len(m.KeyBase64) > 0 {
		m.Key = string(m.KeyBase64)
	}
	if len(m.DedupBase64) > 0 {
		m.Dedup = string(m.DedupBase64)
	}
	if err := (web.Options{Key: m.Key, Dedup: m.Dedup, TTL: ttl}).Apply(&out); err != nil {
		return out, api.Errorf(failure.Invalid, "%w", err)
	}
	if m.TraceIDHex != "" {
		id, err := strconv.ParseUint(m.TraceIDHex, 16, 64)
		switch {
		case err != nil:
			return out, api.Errorf(failure.Invalid, "trace_id_hex is %q, must be up to 16 hexadecimal digits", m.TraceIDHex)
		case m.TraceID != 0 && m.TraceID != id:
			return out, api.Errorf(failure.Invalid, "trace_id %d and trace_id_hex %s differ", m.TraceID, m.TraceIDHex)
		}
		out.TraceID = id
	}
	if m.Text != "" {
		if len(m.Body) > 0 {
			return out, api.Errorf(failure.Invalid, "body and text are mutually exclusive")
		}
		out.Body = []byte(m.Text)
	}
	delay, err := durationOf("delay", m.Delay, m.DelayMS, l.MaxDefer)
	switch {
	case len(out.Body) == 0:
		return out, api.Errorf(failure.Invalid, "message is empty")
	case len(out.Body) > l.MaxMessage:
		return out, api.Errorf(failure.TooLarge, "message has %d bytes, limit is %d", len(out.Body), l.MaxMessage)
	case err != nil:
		return out, api.Errorf(failure.Invalid, "%w, the limit of the node (max-req-timeout)", err)
	case delay > 0:
		out.Delay = delay
	}
	if len(m.HeadersBase64) > 0 {
		m.Headers = m.HeadersBase64
	}
	if len(m.Headers) > 0 && string(m.Headers) != "null" {
		switch _, object := jsonbytes.Members(m.Headers); {
		case !object:
			return out, api.Errorf(failure.Invalid, "headers must be a JSON object")
		case len(m.Headers) > header.Max:
			return out, api.Errorf(failure.TooLarge, "headers have %d bytes, limit is %d", len(m.Headers), header.Max)
		}
		out.Header = m.Headers
	}
	return out, nil
}

// durationOf returns a duration of a message, from 0 to a maximum, that is given as text or in
// milliseconds.
func durationOf(name string, text api.Duration, ms int64, most time.Duration) (time.Duration, error) {
	switch d := time.Duration(text); {
	case ms < 0 || ms > most.Milliseconds():
		return 0, api.Errorf(failure.Invalid, "%s_ms %d is not between 0 and %d", name, ms, most.Milliseconds())
	case ms > 0:
		return time.Duration(ms) * time.Millisecond, nil
	case d < 0 || d > most:
		return 0, api.Errorf(failure.Invalid, "%s %v is not between 0s and %v", name, d, most)
	default:
		return d, nil
	}
}

func partitionOf(text string) (*int, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= seq.MaxPartitions {
		return nil, api.Errorf(failure.Invalid, "partition %q is not a number between 0 and %d", text, seq.MaxPartitions-1)
	}
	return &n, nil
}

// peek returns messages of a topic, or their states in one of its channels.
func (v messagesAPI) peek(r *http.Request) (answer, error) {
	req := operate.Peek{Partition: host.AnyPartition, Max: defaultPeek}
	if r.PathValue("channel") != "" {
		t, channel, err := v.channels.known(r)
		if err != nil {
			return answer{}, err
		}
		req.Topic, req.Channel = t.Name, channel
	} else {
		t, err := v.channels.topics.known(r)
		if err != nil {
			return answer{}, err
		}
		req.Topic = t.Name
	}
	if err := v.readPeek(r, &req); err != nil {
		return answer{}, err
	}
	req.Bytes = peekBytes
	share := v.memory.Share(limit.Answers)
	if err := share.Reserve(r.Context(), peekGrowth*(peekBytes+v.publishing.Limits.MaxMessage)); err != nil {
		return answer{}, err
	}
	messages, err := v.channels.topics.broker.Peek(r.Context(), req)
	if err != nil {
		share.Close()
		return answer{}, peekError(err)
	}
	size := 0
	for _, m := range messages {
		size += len(m.Body) + len(m.Header)
	}
	list := api.PeekedList{Messages: make([]api.Peeked, 0, len(messages))}
	turns := v.turnsFor(size)
	turns.Do(func() {
		for _, m := range messages {
			list.Messages = append(list.Messages, apiPeeked(m))
		}
	})
	return answer{status: http.StatusOK, value: list, turns: turns, written: share.Close}, nil
}

// peekError is an error of a peek, with the damaged range that it would begin in.
func peekError(err error) error {
	d, lost := errors.AsType[*commitlog.CorruptionError](err)
	if !lost {
		return err
	}
	e := apiError(err)
	e.Lost = &api.DamageRange{File: d.Path, Position: d.Position, From: uint64(d.From), Next: uint64(d.Next)}
	return e
}

// peekStates are the states of the messages that a peek of a channel shows.
var peekStates = []api.PeekState{api.PeekReady, api.PeekInFlight, api.PeekDeferred, api.PeekExhausted}

// readPeek reads the parameters n, partition, from, filter and state.
func (v messagesAPI) readPeek(r *http.Request, req *operate.Peek) error {
	q := r.URL.Query()
	req.Filter, req.State = q.Get("filter"), api.PeekState(q.Get("state"))
	switch {
	case req.State != "" && req.Channel == "":
		return api.Errorf(failure.Invalid, "messages of a topic have no state: name a channel")
	case req.State != "" && !slices.Contains(peekStates, req.State):
		return api.Errorf(failure.Invalid, "state %q, want ready, in_flight, deferred or exhausted", req.State)
	}
	partition, err := partitionOf(q.Get("partition"))
	if err = errors.Join(err, validFilter(req.Filter)); err != nil {
		return err
	}
	if partition != nil {
		req.Partition = *partition
	}
	if req.Max, err = numberIn(q, req.Max, 1); err != nil {
		return err
	}
	req.Max = min(req.Max, web.MaxPeek)
	if text := q.Get("from"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n > uint64(seq.MaxOffset) {
			return api.Errorf(failure.Invalid, "from is %q, must be an offset", text)
		}
		req.From = new(seq.Offset(n))
	}
	return nil
}

// apiPeeked describes a message.
func apiPeeked(m operate.Peeked) api.Peeked {
	out := api.Peeked{
		Partition: m.Partition,
		Seq:       uint64(m.Offset),
		ID:        m.ID.String(),
		Timestamp: m.Timestamp,
		Attempts:  m.Attempts,
		State:     m.State,
		TraceID:   m.TraceID,
		Headers:   json.RawMessage("{}"),
		Key:       string(m.Key),
		Dedup:     string(m.Dedup),
		TTLMS:     m.TTL.Milliseconds(),
		Body:      m.Body,
	}
	if m.CopyOf != nil {
		out.CopyOf = m.CopyOf.String()
	}
	if m.TraceID != 0 {
		out.TraceIDHex = fmt.Sprintf("%016x", m.TraceID)
	}
	if out.Body == nil {
		out.Body = []byte{}
	}
	if !m.DeliverAt.IsZero() {
		out.DeliverAt = new(m.DeliverAt)
	}
	switch {
	case len(m.Header) == 0:
	case jsonbytes.Check(m.Header) != nil, !json.Valid(m.Header):
		out.HeadersBase64 = m.Header
	default:
		out.Headers = m.Header
	}
	if !utf8.Valid(m.Key) {
		out.KeyBase64 = m.Key
	}
	if !utf8.Valid(m.Dedup) {
		out.DedupBase64 = m.Dedup
	}
	if utf8.Valid(m.Body) {
		out.Text = new(string(m.Body))
	}
	return out
}
