package consume

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

const (
	// sourceTake is the maximum number of messages in one answer.
	sourceTake = 256
	// joinTimeout bounds how long another node's subscription may take to begin.
	joinTimeout = 30 * time.Second
	// maxFetches bounds the open Fetch calls of one subscription.
	maxFetches = 16
)

// errTooManyFetches refuses a Fetch that a correct node would not send.
var errTooManyFetches = fate.Refuse("too many requests for messages of one relay in progress")

// errAnswerFull makes Take stop, so that the answer is sent first.
var errAnswerFull = errors.New("response full")

// relaySources are the subscriptions of other nodes' clients to partitions that this node leads.
type relaySources struct {
	c *Consumers

	mu  sync.Mutex // guards all
	all map[sourceKey]*relaySource
}

type sourceKey struct {
	from    meta.NodeID
	session uint64
	handle  uint64
}

// relaySource is an ordinary subscription on this node for a client at another node. It is the
// Client of that subscription.
type relaySource struct {
	about  stats.Client
	wakeup chan struct{} // signals that there may be something to do; holds one

	mu      sync.Mutex    // guards what follows
	sub     *Subscription // nil until it has joined
	credit  int
	open    []fetching     // Fetch calls, in order
	idle    time.Time      // since when no Fetch is open
	poor    time.Time      // since when the credit is 0
	told    bool           // the starved state was reported since the last change of credit
	toldAt  time.Time      // when it was last reported
	barren  bool           // the report had no effect
	resting bool           // it is not reported before a timer has fired
	ended   error          // why it ends
	gone    *forward.Leave // the client has left, as reported by its node

	waiting    []waitingAnswers // for the outcome of a transfer of the leadership
	unfinished []byte           // refusals, sent with the answer to the client's next request
}

// waitingAnswers are answers of the client that this leader does not accept now, and may accept later or leave to
// the next leader.
type waitingAnswers struct {
	all     []forward.Answer
	refused []byte // the refusals of others that came with them
	reply   func([][]byte, error)
}

// fetching is a Fetch that waits for its answer.
type fetching struct {
	max   int // bytes
	reply func([][]byte, error)
}

// handle handles a call of the client's node.
func (s *relaySources) handle(from meta.NodeID, session uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	key := sourceKey{from: from, session: session}
	switch kind {
	case forward.KindSubscribe:
		var m forward.Subscribe
		err := m.Decode(payload)
		if err != nil {
			reply(nil, err)
			return
		}
		key.handle = m.Handle
		s.subscribe(key, m, reply)
	case forward.KindFetch:
		var m forward.Fetch
		err := m.Decode(payload)
		key.handle = m.Handle
		if fd := s.find(key, &err); err != nil {
			reply(nil, err)
		} else {
			fd.fetch(m.MaxBytes, reply)
		}
	case forward.KindAnswer:
		var m forward.Answers
		err := m.Decode(payload)
		key.handle = m.Handle
		fd := s.find(key, &err)
		if err != nil {
			reply(nil, err)
			return
		}
		fd.answer(m.All, reply)
	case forward.KindReady:
		var m forward.Ready
		err := m.Decode(payload)
		key.handle = m.Handle
		if fd := s.find(key, &err); err == nil {
			fd.ready(m.Credit)
		}
		reply(nil, err)
	case forward.KindLeave:
		var m forward.Leave
		err := m.Decode(payload)
		key.handle = m.Handle
		if fd := s.find(key, &err); err == nil {
			err = fd.leave(m)
		}
		reply(nil, err)
	case forward.KindReturn:
		var m forward.Return
		err := m.Decode(payload)
		if err == nil {
			err = s.c.returnHere(from, m)
		}
		reply(nil, err)
	}
}

// subscribe begins a subscription of another node's client. Later calls for it in the same session
// find it at once, and wait.
func (s *relaySources) subscribe(key sourceKey, m forward.Subscribe, reply func([][]byte, error)) {
	fd := &relaySource{wakeup: make(chan struct{}, 1), credit: m.Credit, poor: time.Now()}
	if len(m.Client) > 0 {
		if err := json.Unmarshal(m.Client, &fd.about); err != nil {
			reply(nil, fate.Mark(err, fate.Refused))
			return
		}
	}
	s.mu.Lock()
	_, there := s.all[key]
	if !there {
		s.all[key] = fd
	}
	s.mu.Unlock()
	if there {
		reply(nil, fate.Refuse("relay handle already in use"))
		return
	}
	if !s.c.tasks.Go(func() { s.serve(key, fd, m, reply) }) {
		s.forget(key)
		reply(nil, failure.ShuttingDown)
	}
}

// serve runs a relay source from its beginning to its end.
func (s *relaySources) serve(key sourceKey, fd *relaySource, m forward.Subscribe, reply func([][]byte, error)) {
	defer s.forget(key)
	ctx, cancel := context.WithTimeout(s.c.life, joinTimeout)
	sub, err := s.c.subscribeFor(ctx, key.from, &m, fd)
	cancel()
	if err != nil {
		fd.end(err)
		fd.refuseAll()
		reply(nil, err)
		return
	}
	defer sub.Close()
	fd.mu.Lock()
	fd.sub = sub
	kept := sub.Sources.Load().inFlight(time.Now()) // nothing was delivered yet
	sub.SetReady(fd.credit)
	fd.mu.Unlock()
	reply([][]byte{forward.AppendIDs(nil, kept)}, nil)
	for fd.pump() {
		select {
		case <-fd.wakeup:
		case <-s.c.life.Done():
			fd.end(failure.ShuttingDown)
		}
	}
	sub.StopDelivery()
	fd.mu.Lock()
	gone := fd.gone
	fd.mu.Unlock()
	sub.cutOff.Store(gone == nil || gone.Company)
	if gone != nil {
		seen := among(gone.Seen)
		sub.Sources.Load().undoDeliveries(func(id seq.MessageID) bool { return !seen(id) })
	}
	fd.refuseAll()
}

func (s *relaySources) forget(key sourceKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// find returns a relay source. If there is none, it sets err, unless err is set already.
func (s *relaySources) find(key sourceKey, err *error) *relaySource {
	s.mu.Lock()
	defer s.mu.Unlock()
	fd := s.all[key]
	if fd == nil && *err == nil {
		*err = failure.SubscriptionGone
	}
	return fd
}

// down ends the relay sources of a session.
func (s *relaySources) down(from meta.NodeID, session uint64) {
	s.mu.Lock()
	var lost []*relaySource
	for key, fd := range s.all {
		if key.from == from && key.session == session {
			lost = append(lost, fd)
		}
	}
	s.mu.Unlock()
	for _, fd := range lost {
		fd.end(failure.SubscriptionGone)
	}
}

// ClientStats implements Client.
func (fd *relaySource) ClientStats() stats.Client { return fd.about }

// Disconnect implements Client: it notifies the client's node.
func (fd *relaySource) Disconnect(reason error) { fd.end(reason) }

// Unfinished implements Client: the client's node is notified with the response to its next
// request.
func (fd *relaySource) Unfinished(id seq.MessageID, reason error) {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	fd.unfinished = forward.Refusal{ID: id, Reason: forward.ToRemote(reason)}.Append(fd.unfinished)
}

func (fd *relaySource) end(reason error) {
	fd.mu.Lock()
	if fd.ended == nil {
		fd.ended = reason
	}
	fd.mu.Unlock()
	fd.wake()
}

// leave ends the relay source of a client that has left. The error says that the next leader may not learn of that.
func (fd *relaySource) leave(m forward.Leave) (err error) {
	fd.mu.Lock()
	fd.gone = &m
	if fd.sub != nil && fd.sub.Sources.Load().moving() {
		err = failure.Moving
	}
	fd.mu.Unlock()
	fd.end(failure.SubscriptionGone)
	return err
}

func (fd *relaySource) wake() { signal.Poke(fd.wakeup) }

// fetch keeps a Fetch open until there is an answer.
func (fd *relaySource) fetch(max int, reply func([][]byte, error)) {
	fd.mu.Lock()
	err := fd.ended
	if err == nil && len(fd.open) >= maxFetches {
		err = errTooManyFetches
	}
	if err == nil {
		fd.open = append(fd.open, fetching{max, reply})
		fd.idle = time.Time{}
	}
	fd.mu.Unlock()
	if err != nil {
		reply(nil, err)
		return
	}
	fd.wake()
}

// consumes reports whether the other node asks for messages and has credit, or recently did both.
func (fd *relaySource) consumes(now time.Time) bool {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	recent := func(since time.Time) bool { return since.IsZero() || now.Sub(since) < adoptAfter }
	return recent(fd.idle) && recent(fd.poor)
}

// refuseAll answers open calls with the reason of the end. Answers that wait are left to the next leader.
func (fd *relaySource) refuseAll() {
	fd.mu.Lock()
	open, waiting, why := fd.open, fd.waiting, fd.ended
	fd.open, fd.waiting = nil, nil
	fd.mu.Unlock()
	for _, w := range waiting { // before the client's node learns of the end
		for _, a := range w.all {
			w.refused = refuseMoving(a, w.refused)
		}
		w.reply([][]byte{w.refused}, nil)
	}
	for _, f := range open {
		f.reply(nil, why)
	}
}

// ready sets the credit.
func (fd *relaySource) ready(credit int) {
	fd.mu.Lock()
	fd.credit, fd.told = credit, false
	switch {
	case credit > 0:
		fd.poor = time.Time{}
	case fd.poor.IsZero():
		fd.poor = time.Now()
	}
	if fd.sub != nil {
		fd.sub.SetReady(credit)
	}
	fd.mu.Unlock()
	fd.wake()
}

// answer applies the client's answers, and replies with the refusals. It replies once it is known whether this leader
// accepts the answers of partitions whose leadership is being transferred.
func (fd *relaySource) answer(answers []forward.Answer, reply func([][]byte, error)) {
	fd.mu.Lock()
	refused := fd.unfinished
	fd.unfinished = nil
	fd.mu.Unlock()
	fd.apply(waitingAnswers{answers, refused, reply})
	fd.wake()
}

// retry applies the answers that wait.
func (fd *relaySource) retry() {
	fd.mu.Lock()
	waiting := fd.waiting
	fd.waiting = nil
	fd.mu.Unlock()
	for _, w := range waiting {
		fd.apply(w)
	}
}

// apply applies answers, and replies, unless some of them must wait. A message that the
// subscription no longer has in flight is delivered again, or was finished by others, so the client
// need not learn of a failed Requeue or Touch.
func (fd *relaySource) apply(w waitingAnswers) {
	fd.mu.Lock()
	sub := fd.sub
	fd.mu.Unlock()
	if sub == nil {
		w.reply([][]byte{nil}, nil)
		return
	}
	var unseen []seq.MessageID
	var waiting []forward.Answer
	for _, a := range w.all {
		if a.Verb == forward.Unseen {
			unseen = append(unseen, a.ID)
			continue
		}
		switch err := sub.answer(a); {
		case errors.Is(err, failure.Moving) && sub.Sources.Load().lives(a.ID.Partition()):
			waiting = append(waiting, a)
		case errors.Is(err, failure.Moving):
			w.refused = refuseMoving(a, w.refused)
		case err != nil && a.Verb == forward.Finish:
			w.refused = forward.Refusal{ID: a.ID, Reason: forward.ToRemote(err)}.Append(w.refused)
		}
	}
	if len(unseen) > 0 {
		sub.Sources.Load().undoDeliveries(among(unseen))
	}
	if len(waiting) > 0 {
		w.all = waiting
		fd.mu.Lock()
		if fd.ended == nil {
			fd.waiting = append(fd.waiting, w)
			fd.mu.Unlock()
			return
		}
		fd.mu.Unlock()
		for _, a := range waiting {
			w.refused = refuseMoving(a, w.refused)
		}
	}
	w.reply([][]byte{w.refused}, nil)
}

// refuseMoving adds the refusal of an answer that the next leader is to get.
func refuseMoving(a forward.Answer, refused []byte) []byte {
	return forward.Refusal{ID: a.ID, Reason: forward.ToRemote(failure.Moving)}.Append(refused)
}

// among returns a function that reports whether an id is in ids, which it sorts.
func among(ids []seq.MessageID) func(seq.MessageID) bool {
	slices.Sort(ids)
	return func(id seq.MessageID) bool {
		_, found := slices.BinarySearch(ids, id)
		return found
	}
}

// pump answers as many fetches as possible. It returns false at the end.
func (fd *relaySource) pump() bool {
	fd.retry()
	for {
		fd.mu.Lock()
		ended, open := fd.ended != nil, len(fd.open) > 0
		var next fetching
		if open {
			next = fd.open[0]
		}
		fd.mu.Unlock()
		if ended {
			return false
		}
		if !open {
			if fd.sub.changed.Load() {
				fd.sub.renew() // Take is not called while nothing is fetched
				continue
			}
			fd.sub.pass() // let another consumer have what it was woken for
			return true
		}
		payload, err := fd.fill(next.max)
		if err != nil {
			fd.end(err)
			return false
		}
		if payload == nil {
			return true
		}
		fd.mu.Lock()
		if fd.open = fd.open[1:]; len(fd.open) == 0 {
			fd.idle = time.Now()
		}
		fd.mu.Unlock()
		next.reply([][]byte{payload}, nil)
	}
}

// fill returns available messages; nil: none now.
func (fd *relaySource) fill(limit int) ([]byte, error) {
	var p []byte
	n, err := fd.sub.Take(time.Now(), sourceTake, func(d *topic.Delivery) error {
		if p == nil {
			p = forward.AppendDeliveriesHead(make([]byte, 0, 64+forward.DeliverySize(d)), false)
		} else if len(p)+forward.DeliverySize(d) > limit {
			return errAnswerFull
		}
		p = forward.AppendDelivery(p, d)
		return nil
	})
	if n > 0 {
		if !fd.sub.Deliverable(time.Now()) {
			return nil, failure.NotLeased
		}
		fd.mu.Lock()
		fd.barren = false
		fd.mu.Unlock()
		return p, nil
	}
	if err != nil && !errors.Is(err, errAnswerFull) {
		return nil, err
	}
	now := time.Now()
	if !fd.mayStarve(now) || !expects(fd.sub, now) {
		return nil, nil
	}
	fd.mu.Lock()
	fd.told, fd.toldAt, fd.barren = true, now, true
	fd.mu.Unlock()
	return forward.AppendDeliveriesHead(nil, true), nil
}

// starvedPause is how long a relay source waits before it asks for credit again, if it got credit
// and found nothing to take, for example on an ordered channel in which another consumer has the
// current message. Two of them would otherwise take the credit from each other without a pause.
const starvedPause = 5 * time.Millisecond

// mayStarve reports whether the client's node may be informed that more credit would bring
// messages.
func (fd *relaySource) mayStarve(now time.Time) bool {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	switch {
	case fd.told, fd.credit > 0, fd.resting:
		return false
	case fd.barren && now.Sub(fd.toldAt) < starvedPause:
		fd.resting = true
		time.AfterFunc(starvedPause, func() {
			fd.mu.Lock()
			fd.resting = false
			fd.mu.Unlock()
			fd.wake()
		})
		return false
	}
	return true
}
