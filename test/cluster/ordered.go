package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

// The ordered topic, and its load.
const (
	orderedTopic     = "sequence"
	orderedPartition = orderedTopic + " 0"
	orderedChannel   = "strict"
	orderedProducers = 4
	orderedPace      = 4 * time.Millisecond // between two publishes of a producer
	orderedAgain     = 60                   // the maximum number of redeliveries that these faults may cause
)

// sequence is the load of an ordered topic.
type sequence struct {
	st *stage

	mu    sync.Mutex // guards order
	order *audit.Order
}

func (q *sequence) tell(f func(*audit.Order)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.order.Now = time.Since(q.st.began)
	f(q.order)
}

// playOrdered runs an ordered topic through faults and operations that move its leader.
func playOrdered(st *stage) {
	steps.Must(st.make(orderedTopic, map[string]any{"partitions": 1, "ordered": true}))
	steps.Must(st.c.CreateChannel(st.ctx, orderedTopic, orderedChannel, true))
	q := &sequence{st: st, order: audit.NewOrder()}
	consumers := traffic.Hire(1, q.consume)
	defer consumers.Dismiss()
	producers := traffic.Hire(orderedProducers, q.produce)
	defer producers.Dismiss()
	st.wait(steadyTime)
	q.trouble()
	steps.Must(st.whole(orderedTopic))
	st.wait(steadyTime)
	producers.Dismiss()
	steps.Must(q.drained())
	consumers.Dismiss()
	steps.Must(errors.Join(q.verdict(), st.identical(orderedTopic)))
}

// trouble moves the leadership away from the leader, in one way after the other.
func (q *sequence) trouble() {
	st := q.st
	for i, do := range []func(*nodes.Node) error{
		func(n *nodes.Node) error {
			return errors.Join(st.kill(n), st.start(n))
		},
		func(n *nodes.Node) error {
			st.note("SIGSTOP %s", n.ID)
			if err := n.Pause(); err != nil {
				return err
			}
			st.wait(st.random())
			return n.Resume()
		},
		func(n *nodes.Node) error {
			return errors.Join(stop(st, n), st.start(n))
		},
		func(*nodes.Node) error { return errors.Join(st.kill(st.c.Nodes...), st.start(st.c.Nodes...)) },
	} {
		leader := steps.Need(st.leader(orderedTopic, 0))
		steps.Must(do(leader))
		if err := st.whole(orderedTopic); err != nil {
			steps.Fail("after step %d: %w", i+1, err)
		}
		st.wait(steadyTime)
	}
}

func (q *sequence) produce(ctx context.Context, name int) {
	rng := rand.New(rand.NewPCG(q.st.o.seed, uint64(1+name)))
	d := dialer{nodes: q.st.c.Nodes, next: name, o: wire.Options{ID: fmt.Sprintf("producer-%d", name), UserAgent: userAgent, Timeout: patience}}
	d.publish(ctx, orderedPartition, orderedPace, func(seq int) ([]byte, func(int, []byte)) {
		key := audit.Key{Producer: name, Seq: seq}
		return wire.MakeBody(rng, q.st.o.seed, key), func(kind int, data []byte) {
			if traffic.OutcomeOf(kind, data) == audit.Acknowledged {
				q.tell(func(o *audit.Order) { o.Acknowledge(key) })
			}
			if traffic.Wrong(data) {
				q.tell(func(o *audit.Order) { o.Violate("to a right publish: %s", data) })
			}
		}
	})
}

// consume receives messages, on one connection at a time.
func (q *sequence) consume(ctx context.Context, _ int) {
	d := dialer{nodes: q.st.c.Nodes, o: wire.Options{ID: "consumer", UserAgent: userAgent, MsgTimeout: msgTimeout, Timeout: patience}}
	rng := rand.New(rand.NewPCG(q.st.o.seed, 1000))
	for conn := range d.connections(ctx) {
		if subscribe(ctx, conn, 10, orderedTopic, orderedChannel, "0") {
			q.live(conn, time.Now().Add(minLife+time.Duration(rng.Int64N(int64(maxLife-minLife)))))
		}
	}
}

// live finishes deliveries until the connection ends or the deadline passes.
func (q *sequence) live(conn *wire.Client, deadline time.Time) {
	for d := range deliveries(conn, deadline) {
		key, err := wire.ParseBody(d.Body, q.st.o.seed)
		q.tell(func(o *audit.Order) {
			if err != nil {
				o.Violate("%v", err)
				return
			}
			o.Deliver(d.ID, key)
			o.Finish(d.ID)
		})
		if conn.Command("FIN", string(d.ID[:])) != nil {
			return
		}
	}
}

// drained waits until all acknowledged messages have been delivered.
func (q *sequence) drained() error {
	return await(q.st, drainTimeout, func(ctx context.Context) error {
		owed := 0
		q.tell(func(o *audit.Order) { owed = o.Owed() })
		if owed > 0 {
			return fmt.Errorf("%d messages were acknowledged and not delivered", owed)
		}
		t, err := q.st.c.Topic(ctx, orderedTopic)
		if err != nil {
			return err
		}
		for _, ch := range t.Channels {
			if ch.Depth+ch.InFlight > 0 {
				return fmt.Errorf("the broker has %d messages for the channel, %d in flight", ch.Depth, ch.InFlight)
			}
		}
		return nil
	})
}

func (q *sequence) verdict() error {
	var errs []error
	q.tell(func(o *audit.Order) {
		for _, text := range o.Found {
			errs = append(errs, errors.New(text))
		}
		if o.Again > orderedAgain {
			errs = append(errs, fmt.Errorf("%d redeliveries, the maximum is %d", o.Again, orderedAgain))
		}
		if o.Firsts < minAcks {
			errs = append(errs, fmt.Errorf("void: %d messages delivered", o.Firsts))
		}
		q.st.say = append(q.st.say, fmt.Sprintf("%d messages in order, %d redelivered", o.Firsts, o.Again))
	})
	return errors.Join(errs...)
}
