package server

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// fakeBroker is a Broker in memory. Topics whose names begin with certain words misbehave: see
// fail.
type fakeBroker struct {
	mu         sync.Mutex // guards all fields below
	topics     map[string]*fakeTopic
	held       []func()      // answers to publishes to "held" topics
	partitions []int         // that publishes requested, in order
	inline     []bool        // whether publishes could be appended by their reader, in order
	hang       chan struct{} // publishes to "hung" topics wait for it
	vain       int           // skipped messages that were read

	onPublish func() // called for each publish; set before the first one; nil: not used

	pause time.Duration // called after each Take that delivers
	until time.Time     // until when messages are deliverable; zero: always
}

type fakeTopic struct {
	bodies []string
	extras []topic.Message // the trace ids and headers of bodies
	delays []time.Duration
	subs   map[string]*fakeChannel
	next   seq.Offset
}

type fakeChannel struct {
	ready    []fakeMessage
	inFlight map[seq.MessageID]fakeMessage
	owner    map[seq.MessageID]*fakeSub
	subs     []*fakeSub
	asked    []consume.Subscribe
	closed   int
}

type fakeMessage struct {
	topic.Message
	id       seq.MessageID
	stamp    int64
	attempts uint16
	body     []byte
}

func newFakeBroker() *fakeBroker { return &fakeBroker{topics: make(map[string]*fakeTopic)} }

func (b *fakeBroker) topicLocked(name string) *fakeTopic {
	t := b.topics[name]
	if t == nil {
		t = &fakeTopic{subs: make(map[string]*fakeChannel)}
		b.topics[name] = t
	}
	return t
}

func (b *fakeBroker) fail(name string) error {
	switch name {
	case "busy":
		return failure.QueueFull
	case "uncertain":
		return fate.Mark(context.DeadlineExceeded, fate.Uncertain)
	case "strict":
		return failure.InvalidTopic
	case "small":
		return failure.MessageTooBig
	case "ordered":
		return failure.PartitionNeeded
	case "closed":
		return failure.TooFewISR
	case "moved":
		return failure.NotLeading
	case "crowded":
		return failure.TooManyConsumers
	}
	return nil
}

// fakePartitions is the number of partitions of every fake topic.
const fakePartitions = 4

func (b *fakeBroker) Publish(ctx context.Context, p publish.Request) {
	if b.onPublish != nil {
		b.onPublish()
	}
	b.mu.Lock()
	b.partitions = append(b.partitions, p.Partition)
	b.inline = append(b.inline, p.Inline != nil)
	if p.Partition >= fakePartitions {
		b.mu.Unlock()
		p.Done(topic.Receipt{Err: failure.PartitionNotFound})
		return
	}
	if err := b.fail(p.Topic); err != nil {
		b.mu.Unlock()
		p.Done(topic.Receipt{Err: err})
		return
	}
	t := b.topicLocked(p.Topic)
	receipt := topic.Receipt{
		Partition: max(p.Partition, 0), First: t.next, Count: len(p.Messages), Position: 0x7c, RawSize: 35 * int64(len(p.Messages)),
	}
	var wake []func()
	for _, m := range p.Messages {
		body := append([]byte(nil), m.Body...)
		t.bodies = append(t.bodies, string(body))
		t.delays = append(t.delays, m.Delay)
		t.extras = append(t.extras, topic.Message{
			TraceID: m.TraceID, Header: append([]byte(nil), m.Header...),
			Key: append([]byte(nil), m.Key...), Dedup: append([]byte(nil), m.Dedup...), TTL: m.TTL,
		})
		for _, ch := range t.subs {
			ch.ready = append(ch.ready, fakeMessage{Message: t.extras[len(t.extras)-1], id: seq.NewMessageID(0, t.next), stamp: 42, body: body})
			for _, s := range ch.subs {
				wake = append(wake, s.wake)
			}
		}
		t.next++
	}
	done := func() { p.Done(receipt) }
	if p.Topic == "held" {
		b.held = append(b.held, done)
		done = func() {}
	}
	b.mu.Unlock()
	if p.Topic == "hung" {
		done = func() { <-b.hang }
	}
	if p.Inline != nil {
		p.Inline(done)
		done = func() {}
	}
	done()
	for _, w := range wake {
		w()
	}
}

// Topic finds every topic except "missing". Topics whose names begin with "ext" are extended, those
// with "sorted" ordered.
func (b *fakeBroker) Topic(name string) (*meta.Topic, error) {
	if name == "missing" {
		return nil, failure.TopicNotFound
	}
	return &meta.Topic{
		Name: name, Incarnation: 1, Partitions: make([]meta.Partition, fakePartitions),
		Config: meta.TopicConfig{Ext: strings.HasPrefix(name, "ext"), Ordered: strings.HasPrefix(name, "sorted")},
	}, nil
}

// stored returns the messages of a topic.
func (b *fakeBroker) stored(name string) []topic.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topicLocked(name)
	all := append([]topic.Message(nil), t.extras...)
	for i := range all {
		all[i].Body = []byte(t.bodies[i])
	}
	return all
}

// deliver publishes a message of the given size.
func (b *fakeBroker) deliver(name string, size int) {
	b.Publish(context.Background(), publish.Request{
		Topic: name, Messages: []topic.Message{{Body: make([]byte, size)}}, Done: func(topic.Receipt) {},
	})
}

// release completes the held publishes in reverse order.
func (b *fakeBroker) release() {
	b.mu.Lock()
	held := b.held
	b.held = nil
	b.mu.Unlock()
	for _, h := range slices.Backward(held) {
		h()
	}
}

func (b *fakeBroker) heldCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held)
}

func (b *fakeBroker) bodies(name string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.topicLocked(name).bodies...)
}

func (b *fakeBroker) Subscribe(_ context.Context, r consume.Subscribe) (Subscription, error) {
	if err := b.fail(r.Topic); err != nil {
		return nil, err
	}
	if r.Partition >= fakePartitions {
		return nil, failure.PartitionNotFound
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topicLocked(r.Topic)
	ch := t.subs[r.Channel]
	if ch == nil {
		ch = &fakeChannel{inFlight: make(map[seq.MessageID]fakeMessage), owner: make(map[seq.MessageID]*fakeSub)}
		for i, body := range t.bodies {
			ch.ready = append(ch.ready, fakeMessage{Message: t.extras[i], id: seq.NewMessageID(0, seq.Offset(i)), stamp: 42, body: []byte(body)})
		}
		t.subs[r.Channel] = ch
	}
	s := &fakeSub{b: b, ch: ch, wake: r.Wake, client: r.Client}
	ch.subs = append(ch.subs, s)
	ch.asked = append(ch.asked, r)
	return s, nil
}

func (b *fakeBroker) channel(topic, channel string) *fakeChannel {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.topics[topic].subs[channel]
}

type fakeSub struct {
	b       *fakeBroker
	ch      *fakeChannel
	wake    func()
	client  consume.Client
	ready   int
	holding int
	stopped bool
	refused int // calls of Take since the stop
	touched atomic.Int64
	delay   atomic.Int64
	taken   time.Time // when Take last returned messages
	err     error
	// the following fields are set before use
	hand  bool
	waits bool
	late  bool // taken messages are not deliverable
	takes int
	most  int // the maximum that one Take delivers; 0: no limit
}

func (s *fakeSub) Take(_ time.Time, most int, emit func(*topic.Delivery) error) (n int, err error) {
	defer func() {
		if n > 0 && s.b.pause > 0 {
			<-time.After(s.b.pause) // of the bubble
		}
		if n > 0 {
			s.taken = time.Now()
		}
	}()
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if s.takes++; s.most > 0 {
		most = min(most, s.most)
	}
	if s.stopped {
		s.refused++
	}
	for n < most && !s.stopped && s.holding < s.ready && len(s.ch.ready) > 0 {
		m := s.ch.ready[0]
		d := topic.Delivery{
			ID: m.id, Timestamp: m.stamp, Attempts: m.attempts + 1, Body: m.body,
			TraceID: m.TraceID, Header: m.Header, Position: 0x102, RawSize: 0x23,
		}
		if err := emit(&d); err != nil {
			s.b.vain++
			return n, err
		}
		m.attempts++
		s.ch.ready = s.ch.ready[1:]
		s.ch.inFlight[m.id], s.ch.owner[m.id] = m, s
		s.holding++
		n++
	}
	return n, nil
}

const fakeCluster = "fake"

// fakeIDs are the ids of the messages of every topic of a fakeBroker.
var fakeIDs = seq.NumberingOf(fakeCluster, 1)

func (s *fakeSub) AtHand() bool { return s.hand }
func (s *fakeSub) Waits() bool  { return s.waits }

func (s *fakeSub) Numbering() seq.Numbering { return fakeIDs }

// Deliverable requires a time after Take: the process may have been paused in between.
func (s *fakeSub) Deliverable(now time.Time) bool {
	return !s.late && !now.Before(s.taken) && (s.b.until.IsZero() || !now.After(s.b.until))
}

func (s *fakeSub) SetReady(n int) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.ready = n
}

var errNotOwner = fate.Refuse("client does not own message")

func (s *fakeSub) takeBackLocked(id seq.MessageID) (fakeMessage, error) {
	m, ok := s.ch.inFlight[id]
	if !ok {
		return m, errNotInFlight
	}
	if s.ch == s.b.topicLocked("lost").subs["c"] || s.ch == s.b.topicLocked("lost").subs["d"] {
		return m, failure.NotLeased
	}
	if s.ch.owner[id] != s {
		return m, errNotOwner
	}
	delete(s.ch.inFlight, id)
	delete(s.ch.owner, id)
	s.holding--
	return m, nil
}

func (s *fakeSub) Finish(id seq.MessageID) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	_, err := s.takeBackLocked(id)
	return err
}

func (s *fakeSub) Requeue(id seq.MessageID, delay time.Duration) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	m, err := s.takeBackLocked(id)
	if err != nil {
		return err
	}
	s.delay.Store(int64(delay))
	s.ch.ready = append(s.ch.ready, m)
	return nil
}

func (s *fakeSub) Touch(id seq.MessageID) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if _, ok := s.ch.inFlight[id]; !ok {
		return errNotInFlight
	}
	s.touched.Add(1)
	return nil
}

func (s *fakeSub) StopDelivery() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.stopped = true
}

func (s *fakeSub) Close() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	for id, owner := range s.ch.owner {
		if owner == s {
			s.ch.ready = append(s.ch.ready, s.ch.inFlight[id])
			delete(s.ch.inFlight, id)
			delete(s.ch.owner, id)
		}
	}
	s.ch.closed++
}

func (s *fakeSub) breakWith(err error) {
	s.b.mu.Lock()
	s.err = err
	s.b.mu.Unlock()
	s.wake()
}
