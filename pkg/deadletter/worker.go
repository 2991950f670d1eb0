package deadletter

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Limits of a Worker.
const (
	// together is how many channels are served concurrently.
	together = 8
	// batchMessages and batchBytes limit what is published of one channel at a time.
	batchMessages = 64
	batchBytes    = 1 << 20
	// retryAfter is how long a channel pauses after its dead letters were refused.
	retryAfter = time.Second
)

// Node is the part of the node that a Worker uses. Its methods are safe for concurrent use.
type Node interface {
	// Prepare makes sure that the topic for dead letters exists, with its Channel. The topic is
	// replicated and synced like the origin's topic.
	Prepare(ctx context.Context, name, origin string) error
	// Deliver publishes a message to a partition of a topic; a negative number means any partition.
	// It calls done once with the outcome. The message is copied before Deliver returns.
	Deliver(ctx context.Context, topic string, partition int, m topic.Message, done func(error))
}

// Source is a channel on one partition.
type Source struct {
	Topic     string
	Partition int
	Channel   *topic.Channel
	Numbering seq.Numbering // of the topic's messages
}

func (s *Source) name() string { return s.Topic + "/" + s.Channel.Name() }

// Worker disposes of the messages of channels that used up their attempts or have expired. Many
// goroutines may call its methods.
type Worker struct {
	life  context.Context // ends when the node stops
	node  Node
	log   *slog.Logger
	spawn func(func()) bool // runs a function in the background; false: the node stops
	slots chan struct{}

	mu       sync.Mutex // guards what follows
	channels map[*topic.Channel]*servedChannel
}

// servedChannel is a channel that is being served or pauses.
type servedChannel struct {
	source Source
	serves bool
	until  time.Time // it pauses until then
	failed error     // why it pauses; nil: nothing has failed
}

// NewWorker returns a worker that runs its work with spawn. Once life has ended, it no longer waits
// for publishes: the node that would answer stops.
func NewWorker(life context.Context, node Node, log *slog.Logger, spawn func(func()) bool) *Worker {
	return &Worker{life: life, node: node, log: log, spawn: spawn, slots: make(chan struct{}, together), channels: map[*topic.Channel]*servedChannel{}}
}

// Poke serves a channel, unless the channel is being served or pauses after a failure. It does not
// block: the caller pokes again if something is left.
func (w *Worker) Poke(s Source) {
	if !w.begin(s, time.Now()) {
		return
	}
	select {
	case w.slots <- struct{}{}:
	default:
		w.unserved(s) // all slots are in use
		return
	}
	if !w.spawn(func() {
		defer func() { <-w.slots }()
		w.end(s, w.serve(s))
	}) {
		<-w.slots
		w.unserved(s)
	}
}

func (w *Worker) begin(s Source, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.channels[s.Channel]
	if at == nil {
		at = &servedChannel{source: s}
		w.channels[s.Channel] = at
	}
	if at.serves || now.Before(at.until) {
		return false
	}
	at.serves = true
	return true
}

// unserved undoes begin for a channel that nothing has served: what failed before has not ended.
func (w *Worker) unserved(s Source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.channels[s.Channel]
	if at.serves = false; at.failed == nil {
		delete(w.channels, s.Channel)
	}
}

// end notes the result. It logs when failures begin and when they end.
func (w *Worker) end(s Source, err error) {
	w.mu.Lock()
	at, now := w.channels[s.Channel], time.Now()
	was := at.failed
	at.serves, at.failed = false, err
	if err == nil {
		delete(w.channels, s.Channel)
	} else {
		at.until = now.Add(retryAfter)
	}
	for c, x := range w.channels { // forgets channels that no longer exist
		if !x.serves && now.Sub(x.until) > time.Minute {
			delete(w.channels, c)
		}
	}
	w.mu.Unlock()
	switch {
	case err != nil && was == nil:
		w.log.Warn("cannot dispose of messages that used up their attempts or have expired; they stay in the channel, retrying",
			"topic", s.Topic, "partition", s.Partition, "channel", s.Channel.Name(), "error", err)
	case err == nil && was != nil:
		w.log.Info("disposal of messages that used up their attempts or have expired has resumed", "topic", s.Topic, "partition", s.Partition, "channel", s.Channel.Name())
	}
}

// Bring brings a dead letter back to the channel that failed. Other channels of the topic skip it.
// to distinguishes the channel from an earlier one with its name. A time to live counts from
// now. done is called once.
func (w *Worker) Bring(ctx context.Context, l *Letter, to uint64, ttl time.Duration, done func(error)) {
	o := &l.Origin
	m := topic.Message{
		Body: l.Seen.Message.Body, TraceID: l.Seen.Message.TraceID, Key: l.Seen.Message.Key, Header: o.Header,
		Address: &record.Address{Channel: to, Partition: o.Partition, Offset: seq.Offset(o.Offset), Timestamp: o.FirstTimestampNS},
	}
	if ttl > 0 {
		passed := max(0, time.Since(time.Unix(0, o.FirstTimestampNS)))
		m.TTL = ttl + min(passed, math.MaxInt64-ttl) // the header that names the first time may be foreign
	}
	w.node.Deliver(ctx, o.Topic, o.Partition, m, done)
}

// Trouble is a channel whose dead letters are refused.
type Trouble struct {
	Name string // topic/channel
	Err  error
}

// Troubles returns the channels whose dead letters are refused, by name.
func (w *Worker) Troubles() []Trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Trouble
	for _, at := range w.channels {
		if at.failed != nil {
			all = append(all, Trouble{at.source.name(), at.failed})
		}
	}
	slices.SortFunc(all, func(a, b Trouble) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b Trouble) bool { return a.Name == b.Name })
}

// serve disposes of a channel's messages until none is left or something fails.
func (w *Worker) serve(s Source) error {
	d := topic.RetriesOf(s.Channel).NewDisposer()
	defer d.Close()
	for {
		batch, err := take(d)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if len(batch) == 0 {
			return nil
		}
		p := topic.RetriesOf(s.Channel).Policy()
		letters := batch[:0]
		for i := range batch {
			if e := batch[i]; outcome(p, &e) == policy.DeadLetter {
				letters = append(letters, e)
			} else {
				err = cmpErr(err, d.Finish(&e, false))
			}
		}
		if len(letters) > 0 {
			err = cmpErr(err, w.send(s, p, d, letters))
		}
		if err != nil {
			return err
		}
	}
}

// outcome returns how the policy disposes of a message.
func outcome(p policy.Policy, e *topic.Exhausted) policy.Outcome {
	if e.Expired() {
		return p.OnExpired
	}
	return p.OnExhausted
}

// take takes some messages and copies their slices.
func take(d *topic.Disposer) (batch []topic.Exhausted, err error) {
	size := 0
	for len(batch) < batchMessages && size < batchBytes {
		n, err := d.Take(time.Now(), 1, func(e *topic.Exhausted) error {
			kept := *e
			kept.Body, kept.Header, kept.Key = bytes.Clone(e.Body), bytes.Clone(e.Header), bytes.Clone(e.Key)
			batch = append(batch, kept)
			size += len(e.Body) + len(e.Header)
			return nil
		})
		if n == 0 && len(batch) == 0 {
			return nil, err
		}
		if n == 0 || err != nil {
			break // the rest is left to the next call, which finds the error again
		}
	}
	return batch, nil
}

// send publishes messages to the dead-letter topic, and finishes each that is acknowledged.
func (w *Worker) send(s Source, p policy.Policy, d *topic.Disposer, batch []topic.Exhausted) error {
	ctx, cancel := context.WithTimeout(w.life, topic.DisposeTimeout/2)
	defer cancel()
	to := meta.DeadLetterTopic(p, s.Topic, s.Channel.Name())
	err := fmt.Errorf("dead letters cannot go to their own topic %s", to)
	if to != s.Topic {
		err = w.node.Prepare(ctx, to, s.Topic)
	}
	if err != nil {
		for i := range batch {
			d.Keep(&batch[i])
		}
		return fmt.Errorf("dead-letter topic %s: %w", to, err)
	}
	answers := make([]chan error, len(batch))
	for i := range batch {
		answers[i] = make(chan error, 1)
		m, err := s.letter(&batch[i])
		if err != nil {
			answers[i] <- err
			continue
		}
		w.node.Deliver(ctx, to, -1, m, func(err error) { answers[i] <- err })
	}
	var first error
	for i := range batch {
		if err := answerOf(ctx, answers[i]); err != nil {
			d.Keep(&batch[i])
			first = cmpErr(first, fmt.Errorf("publish to dead-letter topic %s: %w", to, err))
			continue
		}
		first = cmpErr(first, d.Finish(&batch[i], true))
	}
	return first
}

// answerOf waits for the outcome of a publish. A publish without an answer in time may have been
// stored.
func answerOf(ctx context.Context, answer <-chan error) error {
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fate.Mark(fmt.Errorf("wait for the publish: %w", context.Cause(ctx)), fate.Uncertain)
	}
}

// letter returns the dead letter for a message. It refuses one that has been a dead letter too often.
func (s *Source) letter(e *topic.Exhausted) (topic.Message, error) {
	o := Origin{
		Topic: s.Topic, Partition: s.Partition, Offset: uint64(e.ID.Offset()), ID: s.Numbering.ID(e.ID).String(), Channel: s.Channel.Name(),
		FirstTimestampNS: e.Timestamp, Attempts: e.Attempts, LastConsumer: e.Consumer, Reason: reasonMaxAttempts, Header: e.Header,
	}
	if e.Expired() {
		o.Reason = ReasonExpired
	}
	if before, err := ReadOrigin(e.Header); err == nil {
		o.Earlier = before.Earlier + 1
	}
	if o.Earlier >= mostTimes {
		return topic.Message{}, fate.Mark(fmt.Errorf("message %s has become a dead letter %d times: dead-letter topics form a cycle; choose another dead-letter topic for the channel",
			o.ID, o.Earlier), fate.Refused)
	}
	h, err := o.AppendHeader(nil)
	return topic.Message{Body: e.Body, TraceID: e.TraceID, Header: h, Key: e.Key, Dedup: s.dedupID(e)}, err
}

// dedupID returns the dedup id of a dead letter. It stores the letter once, even if a leader
// publishes it and does not finish the message, and the next leader does both, also if the message was
// appended again meanwhile. A message that comes to the channel again gets another id: one that was
// brought back has another offset, and a move of the channel by an operator changes the count of
// moves. nil: an ephemeral channel, which ends with its leader.
func (s *Source) dedupID(e *topic.Exhausted) []byte {
	if e.Version == 0 {
		return nil
	}
	id := []byte("dlq")
	for _, n := range [...]uint64{e.Version, e.Moves, uint64(s.Partition), uint64(e.Origin)} { //nolint:gosec // a partition is not negative
		id = strconv.AppendUint(append(id, '.'), n, 36) // decimal digits might exceed the limit of an id
	}
	return id
}

// cmpErr returns the first of two errors that is not nil.
func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
