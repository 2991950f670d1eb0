package nsqd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// publishing publishes messages received over HTTP.
type publishing struct {
	*web.Publishing
	cluster func() string // its id
}

// bodyError returns the response to a body that was not read completely.
func bodyError(err error, tooLarge string) error {
	switch {
	case errors.Is(err, web.ErrBodyTooLarge):
		return nsqform.TooLarge(tooLarge)
	case errors.Is(err, web.ErrBodyBroken):
		return &nsqform.Error{Status: http.StatusInternalServerError, Word: "INTERNAL_ERROR"}
	}
	return err
}

// route adds nsqd's ways to publish.
func (s publishing) route(t *nsqform.Router) {
	t.Add(http.MethodPost, "/pub", s.pub)
	t.Add(http.MethodPost, "/mpub", s.mpub)
	t.Add(http.MethodPost, "/pub_ext", s.pubExt)
	t.Add(http.MethodPost, "/pubtrace", s.pubTrace)
}

// pub publishes the body as one message.
func (s publishing) pub(r *http.Request) (any, error) {
	b, err := s.Bodies.Read(r, s.Limits.MaxMessage)
	if err != nil {
		return nil, bodyError(err, "MSG_TOO_BIG")
	}
	defer b.Release()
	if len(b.Bytes()) == 0 {
		return nil, nsqform.Refuse("MSG_EMPTY")
	}
	p, name, err := nsqform.TopicParam(r, "INVALID_TOPIC")
	if err != nil {
		return nil, err
	}
	if err := s.Ensure(r.Context(), name); err != nil {
		return nil, nsqform.PublishError(err)
	}
	m := topic.Message{Body: b.Bytes()}
	if text, ok := p.Lookup("defer"); ok {
		delay, err := s.parseDefer(text)
		if err != nil {
			return nil, err
		}
		if delay > 0 {
			m.Delay = delay
		}
	}
	messages := []topic.Message{m}
	if err := s.headed(r, name, messages); err != nil {
		return nil, err
	}
	o, err := s.options(p)
	if err != nil {
		return nil, err
	}
	if err := apply(o, &messages[0]); err != nil {
		return nil, err
	}
	return s.publishNSQ(r.Context(), p, publish.Request{Topic: name, Messages: messages})
}

// mpub publishes each line of the body, or the messages of a binary body.
func (s publishing) mpub(r *http.Request) (any, error) {
	if r.ContentLength > int64(s.Limits.MaxBody) {
		return nil, nsqform.TooLarge("BODY_TOO_BIG")
	}
	p, name, err := nsqform.TopicParam(r, "INVALID_TOPIC")
	if err != nil {
		return nil, err
	}
	if err := s.Ensure(r.Context(), name); err != nil {
		return nil, nsqform.PublishError(err)
	}
	b, err := s.Bodies.Read(r, s.Limits.MaxBody)
	if err != nil {
		return nil, bodyError(err, "BODY_TOO_BIG")
	}
	defer b.Release()
	split, count := splitLines, countLines
	if _, given := p.Lookup("binary"); given && p.Flag("binary", true) {
		split, count = splitBinary, countBinary
	}
	most := count(b.Bytes())
	if err := b.PayList(r.Context(), most, unsafe.Sizeof(topic.Message{})); err != nil {
		return nil, err
	}
	limit.BeforeAllocating(most * int(unsafe.Sizeof(topic.Message{})))
	turns := s.Turns.For(most)
	var messages []topic.Message
	turns.Do(func() { messages, err = split(b.Bytes(), s.Limits, turns) })
	if err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		return "OK", nil
	}
	if err := s.headed(r, name, messages); err != nil {
		return nil, err
	}
	req := publish.Request{Topic: name, Messages: messages}
	if req.Route, err = s.describe(p, messages); err != nil {
		return nil, err
	}
	return s.publishNSQ(r.Context(), p, req)
}

// describe applies the options of a request to messages, and returns what chooses their partition.
// With a dedup id, message n has ID/n.
func (s publishing) describe(p nsqform.Params, messages []topic.Message) (route []byte, err error) {
	o, err := s.options(p)
	if err != nil {
		return nil, err
	}
	if o == (web.Options{}) {
		return nil, nil
	}
	if o.Dedup != "" {
		route = []byte(o.Dedup)
	}
	for i := range messages {
		one := o
		one.Dedup = web.Numbered(o.Dedup, i)
		if err := apply(one, &messages[i]); err != nil {
			return nil, err
		}
	}
	return route, nil
}

// options parses the message options of a request.
func (s publishing) options(p nsqform.Params) (o web.Options, err error) {
	o.Key, _ = p.Lookup("key")
	o.Dedup, _ = p.Lookup("dedup")
	if text, ok := p.Lookup("ttl"); ok {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 0 || ms > meta.MaxTTL.Milliseconds() {
			return o, nsqform.Refuse("INVALID_TTL")
		}
		o.TTL = time.Duration(ms) * time.Millisecond
	}
	return o, nil
}

// apply gives a message its options.
func apply(o web.Options, m *topic.Message) error {
	if bad, ok := errors.AsType[*web.OptionError](o.Apply(m)); ok {
		return nsqform.Refuse("INVALID_" + strings.ToUpper(string(bad.Option)))
	}
	return nil
}

// publishNSQ publishes and answers as nsqd does.
func (s publishing) publishNSQ(ctx context.Context, p nsqform.Params, req publish.Request) (any, error) {
	partition, err := p.Partition()
	if err != nil {
		return nil, err
	}
	req.Partition = partition
	if _, err := s.Publish(ctx, req); err != nil {
		return nil, nsqform.PublishError(err)
	}
	return "OK", nil
}

// parseDefer reads a delay in milliseconds.
func (s publishing) parseDefer(text string) (time.Duration, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > s.Limits.MaxDefer.Milliseconds() {
		return 0, nsqform.Refuse("INVALID_DEFER")
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// countLines returns the number of messages for which splitLines allocates space.
func countLines(body []byte) int { return bytes.Count(body, []byte{'\n'}) + 1 }

// countBinary is that of splitBinary: no more than there are bytes for, as the count is
// only a claim.
func countBinary(body []byte) int {
	if len(body) < countBytes {
		return 0
	}
	return max(min(int(int32(binary.BigEndian.Uint32(body))), (len(body)-countBytes)/(sizeBytes+1)), 0)
}

// splitLines creates a message for every non-empty line, and periodically passes on the caller's
// turn. The messages alias body.
func splitLines(body []byte, l web.Limits, turns *limit.Turns) ([]topic.Message, error) {
	messages := make([]topic.Message, 0, countLines(body))
	for line := range bytes.SplitSeq(body, []byte{'\n'}) {
		switch {
		case len(line) > l.MaxMessage:
			return nil, nsqform.TooLarge("MSG_TOO_BIG")
		case len(line) > 0:
			messages = append(messages, topic.Message{Body: line})
			turns.Listed(len(messages))
		}
	}
	return messages, nil
}

// Sizes within a binary body: a count, then a size before each message of at
// least one byte.
const (
	countBytes = 4
	sizeBytes  = 4
)

// splitBinary splits a body in the format of an MPUB. The messages alias body. Trailing data is
// refused, because it indicates that the client counts differently.
func splitBinary(body []byte, l web.Limits, turns *limit.Turns) ([]topic.Message, error) {
	if len(body) < countBytes {
		return nil, nsqform.TooLarge("BAD_BODY")
	}
	count := int32(binary.BigEndian.Uint32(body))
	if count <= 0 || int(count) > (l.MaxBody-countBytes)/(sizeBytes+1) {
		return nil, nsqform.TooLarge("BAD_BODY")
	}
	rest := body[countBytes:]
	messages := make([]topic.Message, 0, countBinary(body))
	for range count {
		if len(rest) < sizeBytes {
			return nil, nsqform.TooLarge("BAD_MESSAGE")
		}
		size := int64(int32(binary.BigEndian.Uint32(rest)))
		rest = rest[sizeBytes:]
		if size <= 0 || size > int64(l.MaxMessage) || size > int64(len(rest)) {
			return nil, nsqform.TooLarge("BAD_MESSAGE")
		}
		messages = append(messages, topic.Message{Body: rest[:size:size]})
		turns.Listed(len(messages))
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return nil, nsqform.TooLarge("BAD_BODY")
	}
	return messages, nil
}
