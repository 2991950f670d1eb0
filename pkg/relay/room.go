package relay

import (
	"context"
	"time"

	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/topic"
)

const (
	// smallAnswer is the size of an answer that an empty queue takes even if there is no memory:
	// clients with messages of ordinary size continue whatever others do.
	smallAnswer = 16 << 10
	// spareFor is how long reserved memory is kept for an answer that does not arrive, because other
	// consumers got the message.
	spareFor = time.Second
)

// room is the relay's part of the node's memory budget: what its queue holds. Its relay's lock
// guards it.
type room struct {
	share    limit.Share
	arriving int // bytes of answers that are charged and not in the queue yet
	out      int // bytes charged for messages that Take delivers now, and may give back
	wanted   int // bytes of an answer for which there was no memory; 0: there is enough
	spare    int // bytes that are reserved for the next answer
	waiting  bool
	cancel   context.CancelFunc // ends the waiting; nil if it never waited
}

// cost returns what an answer is charged. One that never fits is taken alone.
func (m *room) cost(bytes int) int { return min(bytes, m.share.Most()) }

// settle returns the memory that the queue has released.
func (m *room) settle(q *queue) {
	m.share.Give(m.share.Held() - q.held - m.arriving - m.out - m.spare)
}

// close returns all memory, and ends the waiting for more.
func (m *room) close() {
	m.share.Close()
	if m.cancel != nil {
		m.cancel()
	}
}

// admit reserves memory for an answer that has arrived, and reports what it is charged and whether
// there is memory for it.
func admit(r *Relay, bytes int) (charged int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return 0, false // it is dropped
	}
	m := &r.here.room
	charged = m.cost(bytes)
	if more := charged - m.spare; more > 0 && !m.share.Try(more) {
		if bytes > smallAnswer || len(r.here.queue.all) > 0 || m.arriving > 0 {
			return 0, false
		}
		charged = 0
	}
	m.spare = 0
	m.arriving += charged
	m.settle(&r.here.queue)
	return charged, true
}

// keep adds the messages of an admitted answer to the queue. The relay's lock is held.
func keep(r *Relay, got []topic.Delivery, charged int, now time.Time) {
	q, m := &r.here.queue, &r.here.room
	before := len(q.all)
	for _, d := range got {
		if !r.Serves(d.ID.Partition()) {
			continue // it was sent before the leadership moved, and the next leader undoes its delivery
		}
		if d.Attempts > 1 && (finishes(r.answers, d.ID) || finishes(r.sent, d.ID)) {
			continue
		}
		q.push(message{Delivery: d, since: now})
	}
	if n := len(q.all); n > before {
		q.all[n-1].frees = charged
		q.held += charged
	}
	m.arriving -= charged
	m.settle(q)
}

// refuse returns the messages of an answer to the leader, for which there is no memory. The relay's
// lock is held.
func refuse(r *Relay, got []topic.Delivery) {
	for _, d := range got {
		note(r, forward.Answer{Verb: forward.Unseen, ID: d.ID})
	}
	if len(got) > 0 {
		r.here.room.wanted = max(forward.DeliverySize(&got[0])+1, smallAnswer)
	}
}

// short reports whether the relay lacks memory to fetch now, and otherwise how many bytes. While
// memory is short, it fetches one answer at a time, if its queue is empty: a small one, or a larger
// one for which memory is reserved first. The relay's lock is held.
func short(r *Relay) (short bool, bytes int) {
	m := &r.here.room
	switch {
	case m.wanted == 0:
		return false, fetchBytes
	case r.fetching > 0 || len(r.here.queue.all) > 0 || m.arriving > 0 || m.waiting:
		return true, 0
	case m.plenty():
		return false, fetchBytes
	case m.spare > 0 || m.wanted <= smallAnswer:
		return false, smallAnswer
	}
	m.waiting = true
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go reserve(ctx, r, m.cost(m.wanted))
	return true, 0
}

// plenty reports whether there is memory again for answers of any size, and then ends the shortage.
func (m *room) plenty() bool {
	n := max(m.cost(m.wanted), fetchBytes)
	if !m.share.Try(n) {
		return false
	}
	m.share.Give(n)
	m.wanted = 0
	return true
}

// reserve waits for memory for the next answer, in turn with others, and continues to fetch.
func reserve(ctx context.Context, r *Relay, bytes int) {
	share := r.Memory.Share(limit.Relays)
	if share.Await(ctx, bytes) != nil {
		return
	}
	r.mu.Lock()
	m := &r.here.room
	m.waiting = false
	m.cancel()
	if r.over != nil {
		r.mu.Unlock()
		share.Close()
		return
	}
	m.share.Add(&share)
	m.spare = bytes
	r.mu.Unlock()
	time.AfterFunc(spareFor, func() { unreserve(r) })
	r.fetch()
}

// unreserve returns memory for an answer that has not arrived.
func unreserve(r *Relay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.here.room.spare = 0
	r.here.room.settle(&r.here.queue)
}
