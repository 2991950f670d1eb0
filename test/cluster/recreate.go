package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

// The topic that is deleted and created again.
const (
	recreatedTopic   = "again"
	recreatedChannel = "c"
	recreations      = 5
	recreatePace     = 2 * time.Millisecond
	recreateMinimum  = 20 // how many acknowledgements a generation needs to show anything
)

// rebirth is the load of a topic that is deleted and created again. A generation is the time from
// the end of one deletion to the beginning of the next.
type rebirth struct {
	st *stage

	mu         sync.Mutex // guards what follows
	generation int
	between    bool               // a deletion is in progress
	acked      map[audit.Key]int  // the generation in which the message was sent and acknowledged
	seen       map[audit.Key]bool // the message was delivered
	owed       map[audit.Key]bool // acknowledged in this generation and not delivered yet
	acks       int                // in this generation
	found      []string
}

func playRecreate(st *stage) {
	r := &rebirth{st: st, acked: map[audit.Key]int{}, seen: map[audit.Key]bool{}, owed: map[audit.Key]bool{}}
	steps.Must(r.make())
	consumers := traffic.Hire(3, r.consume)
	defer consumers.Dismiss()
	producers := traffic.Hire(4, r.produce)
	defer producers.Dismiss()
	for range recreations {
		st.wait(steadyTime)
		r.begin()
		st.note("delete the topic")
		steps.Must(st.c.DeleteTopic(st.ctx, recreatedTopic))
		steps.Must(r.make())
		r.end()
		st.note("it is there again")
	}
	st.wait(steadyTime)
	producers.Dismiss()
	steps.Must(r.drained())
	consumers.Dismiss()
	st.say = append(st.say, fmt.Sprintf("%d generations", recreations+1))
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.found {
		steps.Fail("%s", text)
	}
}

// make creates the topic, unless a publisher was faster, and its channel.
func (r *rebirth) make() error {
	return await(r.st, healTimeout, func(ctx context.Context) error {
		return errors.Join(
			r.st.c.CreateTopic(ctx, recreatedTopic, map[string]any{"partitions": 1}),
			r.st.c.CreateChannel(ctx, recreatedTopic, recreatedChannel, false))
	})
}

// begin is called before a deletion: messages of this generation are no longer required.
func (r *rebirth) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acks < recreateMinimum {
		r.found = append(r.found, fmt.Sprintf("void: %d acknowledgements in generation %d", r.acks, r.generation))
	}
	r.between, r.acks = true, 0
	clear(r.owed)
}

// end is called when the topic exists again.
func (r *rebirth) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
	r.between = false
}

// send returns the generation in which a message is sent, and whether the message counts: a message
// that is sent during a deletion may be in either topic.
func (r *rebirth) send() (generation int, counts bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.generation, !r.between
}

// answered records the acknowledgement of a message that was sent in a generation.
func (r *rebirth) answered(k audit.Key, generation int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.between || r.generation != generation {
		return // a deletion may have been in progress
	}
	r.acks++
	r.acked[k] = generation
	if !r.seen[k] {
		r.owed[k] = true
	}
}

// came records a delivery on a connection that was opened in a generation.
func (r *rebirth) came(k audit.Key, generation int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g, known := r.acked[k]; known && generation > g {
		r.found = append(r.found, fmt.Sprintf("%v, acknowledged in generation %d, was delivered in generation %d", k, g, generation))
	}
	r.seen[k] = true
	delete(r.owed, k)
}

func (r *rebirth) now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.generation
}

func (r *rebirth) produce(ctx context.Context, name int) {
	rng := rand.New(rand.NewPCG(r.st.o.seed, uint64(1+name)))
	d := dialer{nodes: r.st.c.Nodes, next: name, o: wire.Options{ID: fmt.Sprintf("producer-%d", name), UserAgent: userAgent, Timeout: patience}}
	d.publish(ctx, recreatedTopic, recreatePace, func(seq int) ([]byte, func(int, []byte)) {
		key := audit.Key{Producer: name, Seq: seq}
		generation, counts := r.send()
		return wire.MakeBody(rng, r.st.o.seed, key), func(kind int, data []byte) {
			if counts && traffic.OutcomeOf(kind, data) == audit.Acknowledged {
				r.answered(key, generation)
			}
		}
	})
}

func (r *rebirth) consume(ctx context.Context, name int) {
	d := dialer{nodes: r.st.c.Nodes, next: name, o: wire.Options{ID: fmt.Sprintf("consumer-%d", name), UserAgent: userAgent, Timeout: patience}}
	for conn := range d.connections(ctx) {
		generation := r.now()
		if subscribe(ctx, conn, 50, recreatedTopic, recreatedChannel) {
			r.take(conn, generation)
		}
	}
}

// take finishes deliveries on a connection for a while.
func (r *rebirth) take(conn *wire.Client, generation int) {
	for d := range deliveries(conn, time.Now().Add(minLife)) {
		if key, err := wire.ParseBody(d.Body, r.st.o.seed); err == nil {
			r.came(key, generation)
		}
		if conn.Command("FIN", string(d.ID[:])) != nil {
			return
		}
	}
}

func (r *rebirth) drained() error {
	return await(r.st, drainTimeout, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.owed) > 0 {
			return fmt.Errorf("%d messages were acknowledged in the last generation and not delivered", len(r.owed))
		}
		return nil
	})
}
