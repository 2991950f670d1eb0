package admin

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"strconv"
	"time"
	"unsafe"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/topic"
)

// publishing takes messages over HTTP.
type publishing struct {
	catalog
	bodies *bodies
	limits Limits
	turns  *limit.Turns
}

// route adds nsqd's ways to publish.
func (s *publishing) route(t *router) {
	t.v1(http.MethodPost, "/pub", s.pub)
	t.v1(http.MethodPost, "/mpub", s.mpub)
}

// pub publishes the body as one message.
func (s *publishing) pub(r *http.Request) (any, error) {
	b, err := s.bodies.read(r, s.limits.MaxMessage)
	switch {
	case errors.Is(err, errBodyTooLarge):
		return nil, tooLarge("MSG_TOO_BIG")
	case err != nil:
		return nil, err
	}
	defer b.release()
	if len(b.bytes()) == 0 {
		return nil, refuse("MSG_EMPTY")
	}
	p, name, err := topicParam(r, "INVALID_TOPIC")
	if err != nil {
		return nil, err
	}
	if err := s.ensure(r.Context(), name); err != nil {
		return nil, err
	}
	m := topic.Message{Body: b.bytes()}
	if text, ok := p.lookup("defer"); ok {
		delay, err := s.parseDefer(text)
		if err != nil {
			return nil, err
		}
		if delay > 0 {
			m.Delay = delay
		}
	}
	return s.publishNSQ(r.Context(), p, name, []topic.Message{m})
}

// mpub publishes each line of the body, or what a binary body counts up.
func (s *publishing) mpub(r *http.Request) (any, error) {
	if r.ContentLength > int64(s.limits.MaxBody) {
		return nil, tooLarge("BODY_TOO_BIG")
	}
	p, name, err := topicParam(r, "INVALID_TOPIC")
	if err != nil {
		return nil, err
	}
	if err := s.ensure(r.Context(), name); err != nil {
		return nil, err
	}
	b, err := s.bodies.read(r, s.limits.MaxBody)
	switch {
	case errors.Is(err, errBodyTooLarge):
		return nil, tooLarge("BODY_TOO_BIG")
	case err != nil:
		return nil, err
	}
	defer b.release()
	split, count := splitLines, countLines
	if _, given := p.lookup("binary"); given && p.flag("binary", true) {
		split, count = splitBinary, countBinary
	}
	most := count(b.bytes())
	if err := b.payList(r.Context(), most, unsafe.Sizeof(topic.Message{})); err != nil {
		return nil, err
	}
	limit.BeforeAllocating(most * int(unsafe.Sizeof(topic.Message{})))
	turns := s.turns.For(most)
	turns.Take()
	messages, err := split(b.bytes(), s.limits, turns)
	turns.Give()
	if err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		return "OK", nil
	}
	return s.publishNSQ(r.Context(), p, name, messages)
}

// publishNSQ publishes and answers as nsqd does.
func (s *publishing) publishNSQ(ctx context.Context, p params, name string, messages []topic.Message) (any, error) {
	partition, err := p.partition()
	if err != nil {
		return nil, err
	}
	req := broker.Publish{Topic: name, Partition: partition, Messages: messages}
	if key, ok := p.lookup("key"); ok && key != "" {
		req.Key = []byte(key)
	}
	if _, err := s.publish(ctx, req); err != nil {
		f := explainPublish(err)
		return nil, &nsqError{f.code.Status(), f.word}
	}
	return "OK", nil
}

// publish hands messages to the broker and waits for its receipt, or for the
// end of the request, or for the limit of waiting. The messages may be reused
// when it returns.
func (s *publishing) publish(ctx context.Context, req broker.Publish) (broker.Receipt, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limits.PublishTimeout, errUncertain)
	defer cancel()
	done := make(chan broker.Receipt, 1)
	req.Done = func(receipt broker.Receipt) { done <- receipt }
	end := s.turns.For(len(req.Messages)).Lend(limit.PublishTurn)
	s.broker.Publish(ctx, req)
	end()
	select {
	case receipt := <-done:
		return receipt, receipt.Err
	case <-ctx.Done():
		return broker.Receipt{}, context.Cause(ctx)
	}
}

// parseDefer reads a delay in milliseconds.
func (s *publishing) parseDefer(text string) (time.Duration, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > s.limits.MaxDefer.Milliseconds() {
		return 0, refuse("INVALID_DEFER")
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// countLines returns how many messages splitLines makes room for.
func countLines(body []byte) int { return bytes.Count(body, []byte{'\n'}) + 1 }

// countBinary is that of splitBinary: no more than there are bytes for, as the count is
// only a claim.
func countBinary(body []byte) int {
	if len(body) < countBytes {
		return 0
	}
	return max(min(int(int32(binary.BigEndian.Uint32(body))), (len(body)-countBytes)/(sizeBytes+1)), 0)
}

// splitLines makes a message of every line that is not empty, and passes the caller's turn
// on now and then. The messages alias body.
func splitLines(body []byte, l Limits, turns *limit.Turns) ([]topic.Message, error) {
	messages := make([]topic.Message, 0, countLines(body))
	for line := range bytes.SplitSeq(body, []byte{'\n'}) {
		switch {
		case len(line) > l.MaxMessage:
			return nil, tooLarge("MSG_TOO_BIG")
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

// splitBinary takes apart the body that an MPUB has on the wire. The messages
// alias body. What follows the last message is refused: it is a sign that the
// client counts in another way.
func splitBinary(body []byte, l Limits, turns *limit.Turns) ([]topic.Message, error) {
	if len(body) < countBytes {
		return nil, tooLarge("BAD_BODY")
	}
	count := int32(binary.BigEndian.Uint32(body))
	if count <= 0 || int(count) > (l.MaxBody-countBytes)/(sizeBytes+1) {
		return nil, tooLarge("BAD_BODY")
	}
	rest := body[countBytes:]
	messages := make([]topic.Message, 0, countBinary(body))
	for range count {
		if len(rest) < sizeBytes {
			return nil, tooLarge("BAD_MESSAGE")
		}
		size := int64(int32(binary.BigEndian.Uint32(rest)))
		rest = rest[sizeBytes:]
		if size <= 0 || size > int64(l.MaxMessage) || size > int64(len(rest)) {
			return nil, tooLarge("BAD_MESSAGE")
		}
		messages = append(messages, topic.Message{Body: rest[:size:size]})
		turns.Listed(len(messages))
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return nil, tooLarge("BAD_BODY")
	}
	return messages, nil
}
