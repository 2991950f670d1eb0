package server

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/server/auth"
	"github.com/brokerd/brokerd/pkg/topic"
)

// keepMessages is the length up to which a connection keeps its list of messages for the next
// publish, without being charged for it.
const keepMessages = limit.FewMessages

// publisher executes the publishing commands of one connection. The connection's reader uses it.
type publisher struct {
	link     *link
	reader   *nsq.Reader
	rights   *rights
	messages []topic.Message // of the publish in progress
	memory   *bodyMemory
	listed   int            // bytes of memory that are charged for messages
	last     *producedTopic // the topic of the last publish
	// subscribed means that the connection is subscribed as well: its reader has to read the
	// consumer's answers while a publish is in progress.
	subscribed bool
	inline     func(func()) // sets appends, bound
	appends    func()       // appends the last published messages; nil: another goroutine does
}

func newPublisher(l *link, reader *nsq.Reader, r *rights, memory *bodyMemory) *publisher {
	p := &publisher{link: l, reader: reader, rights: r, memory: memory}
	p.inline = func(appendHere func()) { p.appends = appendHere }
	return p
}

// producedTopic is a topic that a connection has published to.
type producedTopic struct {
	name      string
	published atomic.Uint64
	allowed   *auth.Grant       // the grant that permitted it; used by the reader
	permitted *access.Directory // the directory that permitted it; used by the reader
}

// maxProduced limits the topics for which a connection counts publishes.
const maxProduced = 1000

// topicFor returns the connection's entry for a topic, or nil if the name is invalid.
func (p *publisher) topicFor(name []byte) *producedTopic {
	if p.last != nil && p.last.name == string(name) {
		return p.last
	}
	t := p.link.produced[string(name)]
	if t == nil {
		if !meta.ValidTopicName(string(name)) {
			return nil
		}
		t = &producedTopic{name: string(name)}
		if len(p.link.produced) < maxProduced {
			p.link.mu.Lock()
			if p.link.produced == nil {
				p.link.produced = make(map[string]*producedTopic)
			}
			p.link.produced[t.name] = t
			p.link.mu.Unlock()
		}
	}
	p.last = t
	return t
}

// pub is PUB <topic> [<partition>].
func (p *publisher) pub(ctx context.Context, cmd *nsq.Command) error {
	if cmd.Len() < 1 {
		return nsq.Errorf(failure.BadCommand, "PUB insufficient number of parameters")
	}
	return p.publishOne(ctx, cmd, cmd.Param(1), 0)
}

// dpub is DPUB <topic> <delay> [<partition>], with the delay in ms.
func (p *publisher) dpub(ctx context.Context, cmd *nsq.Command) error {
	if cmd.Len() < 2 {
		return nsq.Errorf(failure.BadCommand, "DPUB insufficient number of parameters")
	}
	if p.topicFor(cmd.Param(0)) == nil {
		return badTopic(cmd)
	}
	ms, err := nsq.ParseDecimal(cmd.Param(1))
	if err != nil {
		return nsq.Errorf(failure.BadCommand, "DPUB could not parse timeout %s", cmd.Param(1))
	}
	if most := p.link.srv.opts.MaxDelay.Milliseconds(); ms > most {
		return nsq.Errorf(failure.BadCommand, "DPUB timeout %d out of range 0-%d", ms, most)
	}
	return p.publishOne(ctx, cmd, cmd.Param(2), time.Duration(ms)*time.Millisecond)
}

func badTopic(cmd *nsq.Command) error {
	return nsq.Errorf(failure.BadTopic, "%s topic name %q is not valid", cmd.Verb, cmd.Param(0))
}

// publishOne publishes the message that follows PUB or DPUB.
func (p *publisher) publishOne(ctx context.Context, cmd *nsq.Command, where []byte, delay time.Duration) error {
	t := p.topicFor(cmd.Param(0))
	if t == nil {
		return badTopic(cmd)
	}
	size, err := p.reader.ReadSize()
	switch {
	case err != nil:
		return cutOff(err, failure.BadMessage, "%s failed to read message body size", cmd.Verb)
	case size <= 0:
		return nsq.Errorf(failure.BadMessage, "%s invalid message body size %d", cmd.Verb, size)
	case int(size) > p.link.srv.opts.MaxMessageBytes:
		return nsq.Errorf(failure.BadMessage, "%s message too big %d > %d", cmd.Verb, size, p.link.srv.opts.MaxMessageBytes)
	}
	body, err := p.link.conn.readBody(p.reader, int(size))
	if errors.Is(err, failure.NoMemory) {
		return publishError(cmd.Verb, t.name, err, standard)
	}
	if err != nil {
		return cutOff(err, failure.BadMessage, "%s failed to read message body", cmd.Verb)
	}
	if err := p.rights.publish(ctx, cmd.Verb, t); err != nil {
		return err
	}
	m := topic.Message{Body: body}
	if delay > 0 {
		m.Delay = delay
	}
	p.messages = append(p.messages[:0], m)
	return p.publish(ctx, outgoing{verb: cmd.Verb, topic: t, partition: partitionParam(where), bytes: len(body)})
}

// mpub is MPUB <topic> [<partition>].
func (p *publisher) mpub(ctx context.Context, cmd *nsq.Command) error {
	if cmd.Len() < 1 {
		return nsq.Errorf(failure.BadCommand, "MPUB insufficient number of parameters")
	}
	t := p.topicFor(cmd.Param(0))
	if t == nil {
		// nsqd repeats the code in the text, and clients get the same here.
		return nsq.Errorf(failure.BadTopic, "%s MPUB topic name %q is not valid", failure.BadTopic, cmd.Param(0))
	}
	if err := p.rights.publish(ctx, cmd.Verb, t); err != nil {
		return err
	}
	opts := &p.link.srv.opts
	if _, err := readBodySize(p.reader, "MPUB", opts.MaxBodyBytes); err != nil {
		return err
	}
	batch, err := p.link.conn.readMPUB(p.reader, nsq.MPUBLimits{Message: opts.MaxMessageBytes, Body: opts.MaxBodyBytes})
	if err == nil {
		err = p.list(batch)
	}
	defer p.shrink()
	if errors.Is(err, failure.NoMemory) {
		return publishError(cmd.Verb, t.name, err, standard)
	}
	if err != nil {
		return err
	}
	return p.publish(ctx, outgoing{verb: cmd.Verb, topic: t, partition: partitionParam(cmd.Param(1)), bytes: batch.Len()})
}

// messageBytes is the size of an entry in the list of messages.
const messageBytes = int(unsafe.Sizeof(topic.Message{}))

// list builds the list of a batch's messages, if there is memory for it. It allocates the list in
// its final size: growing a list copies all of it, and meanwhile neither another goroutine nor the
// garbage collector gets the processor.
func (p *publisher) list(batch nsq.MPUB) error {
	p.messages = p.messages[:0]
	n := batch.Count()
	if n <= keepMessages {
		batch.Each(func(message []byte) { p.messages = append(p.messages, topic.Message{Body: message}) })
		return nil
	}
	if err := p.memory.Take(n * messageBytes); err != nil {
		return err
	}
	p.listed = n * messageBytes
	limit.BeforeAllocating(p.listed)
	turns := p.link.srv.opts.Turns
	turns.Acquire()
	defer turns.Give()
	p.messages = make([]topic.Message, 0, n)
	batch.Each(func(message []byte) {
		p.messages = append(p.messages, topic.Message{Body: message})
		turns.Listed(len(p.messages))
	})
	return nil
}

// shrink drops a long list of messages after a publish.
func (p *publisher) shrink() {
	if p.listed > 0 {
		p.memory.Give(p.listed)
		p.messages, p.listed = nil, 0
	}
}

// readBodySize reads the size of the body of IDENTIFY, AUTH or MPUB, of at most max bytes.
func readBodySize(r *nsq.Reader, verb string, max int) (int, error) {
	size, err := r.ReadSize()
	switch {
	case err != nil:
		return 0, cutOff(err, failure.BadBody, "%s failed to read body size", verb)
	case int(size) > max:
		return 0, nsq.Errorf(failure.BadBody, "%s body too big %d > %d", verb, size, max)
	case size <= 0:
		return 0, nsq.Errorf(failure.BadBody, "%s invalid body size %d", verb, size)
	}
	return int(size), nil
}

// readCommandBody reads the body of IDENTIFY or AUTH, of at most max bytes.
func readCommandBody(conn *meteredConn, r *nsq.Reader, verb string, max int) ([]byte, error) {
	size, err := readBodySize(r, verb, max)
	if err != nil {
		return nil, err
	}
	body, err := conn.readBody(r, size)
	if err != nil {
		return nil, cutOff(err, failure.BadBody, "%s failed to read body", verb)
	}
	return body, nil
}

// cutOff returns a refusal for a body that ended too early, or err if err is another error.
func cutOff(err error, code failure.Wire, format string, args ...any) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nsq.Errorf(code, format, args...)
	}
	return err
}

// partitionParam reads the partition of a publish or subscription. Standard clients send none. Text
// that is no number is ignored. For a number that no partition can have it returns one that no
// topic has.
func partitionParam(text []byte) int {
	n, err := nsq.ParseDecimal(text)
	if errors.Is(err, nsq.ErrNotDecimal) {
		return host.AnyPartition
	}
	if err != nil || n > maxPartition {
		return maxPartition + 1
	}
	return int(n)
}

// outgoing is a publish of the publisher's messages that is being passed to the
// broker.
type outgoing struct {
	verb      nsq.Verb
	topic     *producedTopic
	partition int
	bytes     int       // of the bodies
	traced    *tracedTo // nil: the answer is OK
}

// publish reserves the place of the answer and passes p.messages to the broker. It does not wait
// for the outcome.
func (p *publisher) publish(ctx context.Context, o outgoing) error {
	a := p.link.newAnswer()
	a.verb, a.topic, a.count, a.bytes, a.named, a.traced = o.verb, o.topic, len(p.messages), o.bytes, o.partition != host.AnyPartition, o.traced
	a.more = p.reader.Buffered() > 0
	a.phase.Store(phaseWaiting)
	ask := publish.Request{Topic: o.topic.name, Partition: o.partition, Messages: p.messages, Done: a.done}
	if err := p.link.push(ctx, a); err != nil {
		return err
	}
	if p.waits() {
		ask.Inline = p.inline
	}
	if p.listed > 0 {
		defer p.link.srv.opts.Turns.AcquireFor(limit.PublishTurn)()
	}
	p.link.srv.broker.Publish(ctx, ask) // from here on the answer may be used by another connection
	clear(p.messages)
	if appendHere := p.appends; appendHere != nil {
		p.appends = nil
		appendHere()
	}
	return nil
}

// waits reports whether the client seems to wait for the answer to the current publish, and no
// other connection waits for the reader's turn. The reader may then append the messages itself.
func (p *publisher) waits() bool {
	c := p.link.conn
	return !p.subscribed && p.reader.Buffered() == 0 && len(c.ahead) == 0 && !c.taken && c.executed == nil && p.listed == 0 && p.link.queue.single()
}
