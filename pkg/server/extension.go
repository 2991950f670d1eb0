package server

import (
	"context"
	"errors"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// tracedTo is the answer to a publisher that requests the positions of its messages.
type tracedTo struct {
	ids     seq.Numbering // of the topic
	traceID uint64
	receipt topic.Receipt // set before the answer is ready
}

// appendOK appends the answer to a publish that was stored.
func (t *tracedTo) appendOK(dst []byte) []byte {
	if t == nil {
		return nsq.AppendFrame(dst, nsq.FrameResponse, nsq.OK)
	}
	stored := nsq.Traced{
		ID:      t.ids.ID(seq.NewMessageID(t.receipt.Partition, t.receipt.First)),
		TraceID: t.traceID, Position: t.receipt.Position, RawSize: t.receipt.RawSize,
	}
	return stored.AppendFrame(dst)
}

// extension executes the publishing commands of the extensions: PUB_TRACE, MPUB_TRACE, PUB_EXT and
// MPUB_EXT. They create no topics. A refusal that leaves the connection open is sent after the
// whole command has been read.
type extension struct{ publisher *publisher }

// publish is VERB <topic> [<partition>].
func (e extension) publish(ctx context.Context, cmd *nsq.Command) error {
	p := e.publisher
	if cmd.Len() < 1 {
		return nsq.Errorf(failure.BadCommand, "insufficient number of parameters")
	}
	partition, err := partitionNamed(cmd.Param(1))
	if err != nil {
		return err
	}
	many := cmd.Verb == nsq.MPubTrace || cmd.Verb == nsq.MPubExt
	size, err := e.size(many)
	if err != nil {
		return err
	}
	t := p.topicFor(cmd.Param(0))
	if t == nil {
		return &nsq.Error{Code: failure.TopicNotExist}
	}
	if err := p.rights.publish(ctx, cmd.Verb, t); err != nil {
		return err
	}
	about, err := p.link.srv.namedTopic(t.name, partition)
	if err != nil {
		return err
	}
	defer p.shrink()
	out := outgoing{verb: cmd.Verb, topic: t, partition: partition, bytes: size}
	if many {
		err = e.readMany()
	} else {
		err = e.readOne(size)
	}
	if errors.Is(err, failure.NoMemory) {
		return publishError(cmd.Verb, t.name, err, extended)
	}
	if err == nil {
		err = e.split(&out, about)
	}
	if err != nil {
		return err
	}
	return p.publish(ctx, out)
}

// size reads the size of the command's body.
func (e extension) size(many bool) (int, error) {
	p := e.publisher
	opts := &p.link.srv.opts
	size, err := p.reader.ReadSize()
	switch {
	case err != nil:
		return 0, cutOff(err, failure.BadBody, "failed to read body size")
	case size <= 0:
		return 0, nsq.Errorf(failure.BadBody, "invalid body size %d", size)
	case many && int(size) > opts.MaxBodyBytes:
		return 0, nsq.Errorf(failure.BadBody, "body too big %d > %d", size, opts.MaxBodyBytes)
	case !many && int(size) > opts.MaxMessageBytes:
		return 0, nsq.Errorf(failure.BadMessage, "message too big %d > %d", size, opts.MaxMessageBytes)
	}
	return int(size), nil
}

// readOne reads the body of one message.
func (e extension) readOne(size int) error {
	p := e.publisher
	body, err := p.link.conn.readBody(p.reader, size)
	if err != nil {
		return cutOff(err, failure.BadMessage, "failed to read message body")
	}
	p.messages = append(p.messages[:0], topic.Message{Body: body})
	return nil
}

// readMany reads the bodies of a batch.
func (e extension) readMany() error {
	p := e.publisher
	opts := &p.link.srv.opts
	batch, err := p.link.conn.readMPUB(p.reader, nsq.MPUBLimits{Message: opts.MaxMessageBytes, Body: opts.MaxBodyBytes})
	if err != nil {
		return err
	}
	return p.list(batch)
}

// split separates the bodies of the command's messages into their parts.
func (e extension) split(out *outgoing, about *meta.Topic) error {
	p := e.publisher
	if p.listed > 0 {
		turns := p.link.srv.opts.Turns
		turns.Acquire()
		defer turns.Give()
	}
	traced := out.verb == nsq.PubTrace || out.verb == nsq.MPubTrace
	for i := range p.messages {
		m := &p.messages[i]
		var err error
		if traced {
			m.TraceID, m.Body, err = nsq.SplitTraced(m.Body)
		} else {
			err = e.checkHeader(m, out, about)
		}
		if err != nil {
			return err
		}
	}
	if traced {
		out.traced = &tracedTo{ids: e.numbering(about)}
	}
	if out.verb == nsq.PubTrace { // a batch has no trace id of its own
		out.traced.traceID = p.messages[0].TraceID
	}
	return nil
}

// checkHeader reads the header in front of a message.
func (e extension) checkHeader(m *topic.Message, out *outgoing, about *meta.Topic) error {
	raw, body, err := nsq.SplitExtended(m.Body)
	if err != nil {
		return err
	}
	m.Body = body
	if len(raw) == 0 && out.verb == nsq.MPubExt {
		return nil
	}
	said, err := header.Parse(raw)
	switch {
	case errors.Is(err, header.ErrTraceID):
		return nsq.Errorf(failure.InvalidTraceID, "%v", err)
	case err != nil:
		return nsq.Errorf(failure.InvalidJSONHeader, "fail to parse json header: %v", err)
	case about.Config.Ext:
		m.Header = raw
	case !said.Options && (!e.publisher.link.srv.opts.AllowExtCompatible || !said.Only):
		return nsq.Errorf(failure.ExtNotSupported, "ext content not supported in topic %s", out.topic.name)
	}
	m.Key, m.Dedup, m.TTL = said.Key, said.Dedup, said.TTL
	if m.TraceID = said.TraceID; said.Traced && out.verb == nsq.PubExt {
		out.traced = &tracedTo{ids: e.numbering(about), traceID: said.TraceID}
	}
	return nil
}

// numbering returns how the messages of a topic are numbered.
func (e extension) numbering(about *meta.Topic) seq.Numbering {
	return seq.NumberingOf(e.publisher.link.srv.opts.Cluster, uint64(about.Incarnation))
}

// partitionNamed reads the partition of a command of the extensions: a number, -1, or nothing.
func partitionNamed(text []byte) (int, error) {
	if len(text) == 0 || string(text) == "-1" {
		return host.AnyPartition, nil
	}
	if _, err := nsq.ParseDecimal(text); errors.Is(err, nsq.ErrNotDecimal) {
		return 0, nsq.Errorf(failure.BadPartition, "topic partition is not valid: %s", text)
	}
	return partitionParam(text), nil
}

// namedTopic returns the topic of a command of the extensions. If the topic or the partition does
// not exist, the error is the *nsq.Error that clients of the extensions expect.
func (s *Server) namedTopic(name string, partition int) (*meta.Topic, error) {
	t, err := s.broker.Topic(name)
	if err != nil || partition >= len(t.Partitions) {
		return nil, &nsq.Error{Code: failure.TopicNotExist}
	}
	return t, nil
}
