package server

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// keepMessages is the longest list of messages that a connection keeps for its
// next publish.
const keepMessages = 4096

// pub is PUB <topic> [<partition>].
func (s *session) pub(ctx context.Context, cmd *nsq.Command) error {
	if cmd.Len() < 1 {
		return nsq.Errorf(nsq.Invalid, "PUB insufficient number of parameters")
	}
	return s.publishOne(ctx, cmd, cmd.Param(1), 0)
}

// dpub is DPUB <topic> <delay> [<partition>], with the delay in ms.
func (s *session) dpub(ctx context.Context, cmd *nsq.Command) error {
	if cmd.Len() < 2 {
		return nsq.Errorf(nsq.Invalid, "DPUB insufficient number of parameters")
	}
	if s.topicFor(cmd.Param(0)) == nil {
		return badTopic(cmd)
	}
	ms, err := nsq.ParseDecimal(cmd.Param(1))
	if err != nil {
		return nsq.Errorf(nsq.Invalid, "DPUB could not parse timeout %s", cmd.Param(1))
	}
	if most := s.srv.opts.MaxDelay.Milliseconds(); ms > most {
		return nsq.Errorf(nsq.Invalid, "DPUB timeout %d out of range 0-%d", ms, most)
	}
	return s.publishOne(ctx, cmd, cmd.Param(2), time.Duration(ms)*time.Millisecond)
}

func badTopic(cmd *nsq.Command) error {
	return nsq.Errorf(nsq.BadTopic, "%s topic name %q is not valid", cmd.Verb, cmd.Param(0))
}

// publishOne publishes the message that follows PUB or DPUB.
func (s *session) publishOne(ctx context.Context, cmd *nsq.Command, where []byte, delay time.Duration) error {
	t := s.topicFor(cmd.Param(0))
	if t == nil {
		return badTopic(cmd)
	}
	size, err := s.reader.ReadSize()
	switch {
	case err != nil:
		return cutOff(err, nsq.BadMessage, "%s failed to read message body size", cmd.Verb)
	case size <= 0:
		return nsq.Errorf(nsq.BadMessage, "%s invalid message body size %d", cmd.Verb, size)
	case int(size) > s.srv.opts.MaxMessageBytes:
		return nsq.Errorf(nsq.BadMessage, "%s message too big %d > %d", cmd.Verb, size, s.srv.opts.MaxMessageBytes)
	}
	body, err := s.reader.ReadBody(int(size))
	if err != nil {
		return cutOff(err, nsq.BadMessage, "%s failed to read message body", cmd.Verb)
	}
	if err := s.mayPublish(ctx, cmd.Verb, t); err != nil {
		return err
	}
	m := topic.Message{Body: body}
	if delay > 0 {
		m.DeliverAt = time.Now().Add(delay)
	}
	s.messages = append(s.messages[:0], m)
	return s.publish(ctx, cmd.Verb, t, partitionParam(where), len(body))
}

// mpub is MPUB <topic> [<partition>].
func (s *session) mpub(ctx context.Context, cmd *nsq.Command) error {
	if cmd.Len() < 1 {
		return nsq.Errorf(nsq.Invalid, "MPUB insufficient number of parameters")
	}
	t := s.topicFor(cmd.Param(0))
	if t == nil {
		// The doubled code is what clients have always got.
		return nsq.Errorf(nsq.BadTopic, "E_BAD_TOPIC MPUB topic name %q is not valid", cmd.Param(0))
	}
	if err := s.mayPublish(ctx, cmd.Verb, t); err != nil {
		return err
	}
	body, err := s.commandBody("MPUB")
	if err != nil {
		return err
	}
	s.messages = s.messages[:0]
	if err := nsq.SplitMPUB(body, s.srv.opts.MaxMessageBytes, s.addMessage); err != nil {
		return err
	}
	err = s.publish(ctx, cmd.Verb, t, partitionParam(cmd.Param(1)), len(body))
	if cap(s.messages) > keepMessages {
		s.messages = nil
	}
	return err
}

func (s *session) addMessage(body []byte) {
	s.messages = append(s.messages, topic.Message{Body: body})
}

// commandBody reads the body of IDENTIFY, AUTH or MPUB.
func (s *session) commandBody(verb string) ([]byte, error) {
	size, err := s.reader.ReadSize()
	switch {
	case err != nil:
		return nil, cutOff(err, nsq.BadBody, "%s failed to read body size", verb)
	case int(size) > s.srv.opts.MaxBodyBytes:
		return nil, nsq.Errorf(nsq.BadBody, "%s body too big %d > %d", verb, size, s.srv.opts.MaxBodyBytes)
	case size <= 0:
		return nil, nsq.Errorf(nsq.BadBody, "%s invalid body size %d", verb, size)
	}
	body, err := s.reader.ReadBody(int(size))
	if err != nil {
		return nil, cutOff(err, nsq.BadBody, "%s failed to read body", verb)
	}
	return body, nil
}

// cutOff returns the refusal of a body that ended too early, or err where it
// says more than that.
func cutOff(err error, code nsq.Code, format string, args ...any) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nsq.Errorf(code, format, args...)
	}
	return err
}

// partitionParam reads the partition of a publish or subscription. Standard
// clients give none; what is no number is surplus and ignored.
func partitionParam(text []byte) int {
	n, err := nsq.ParseDecimal(text)
	if err != nil || n > maxPartition {
		return broker.AnyPartition
	}
	return int(n)
}

// publish hands s.messages to the broker, behind a place for the answer. It
// does not wait for what becomes of them.
func (s *session) publish(ctx context.Context, verb nsq.Verb, t *producedTopic, partition, size int) error {
	a := s.newAnswer()
	a.verb, a.topic, a.count, a.bytes = verb, t, len(s.messages), size
	a.reroute = partition != broker.AnyPartition
	a.phase.Store(phaseCalling)
	p := broker.Publish{Topic: t.name, Partition: partition, Messages: s.messages, Done: a.done}
	reroute := a.reroute
	if err := s.push(ctx, a); err != nil {
		return err
	}
	s.srv.broker.Publish(ctx, p)
	// From here on the answer may be another connection's, unless it can reroute.
	if reroute && !a.phase.CompareAndSwap(phaseCalling, phaseWaiting) && a.phase.CompareAndSwap(phaseRerouted, phaseWaiting) {
		p.Partition = broker.AnyPartition
		s.srv.broker.Publish(ctx, p)
	}
	clear(s.messages)
	return nil
}
