package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

// The topic and the channels of a run, and how a consumer treats them.
const (
	topic               = "crash"
	consumersPerChannel = 2
	msgTimeout          = 60 * time.Second
	maxOpen             = 20000 // messages stored and not finished, above which producers wait
	forgetEvery         = 10 * time.Second
	rememberFor         = 2 * msgTimeout
	reconnectPause      = 10 * time.Millisecond
)

var channels = []string{"a", "b"}

// world holds the clients, and the audit to which they report.
type world struct {
	*traffic.Book
	o       options
	address string
	round   atomic.Int64 // of the broker process that runs or ran last

	producers, consumers, probe *traffic.Crew
	stalls                      stalls
}

// newWorld starts the clients. They reconnect to the broker until they are stopped. A file in dir
// is used to detect disk stalls.
func newWorld(o options, address, dir string) *world {
	w := &world{o: o, address: address}
	w.Book = traffic.NewBook(o.seed, topic, audit.Options{
		Producers: o.producers, Channels: channels, Window: o.window, Grace: o.window,
		MsgTimeout: msgTimeout, Tolerance: 5 * time.Millisecond, Keep: rememberFor,
	})
	w.probe = traffic.Hire(1, func(ctx context.Context, _ int) {
		if err := w.stalls.watch(ctx, filepath.Join(dir, "probe")); err != nil {
			w.Tell(func(a *audit.Audit, now time.Duration) { a.Complain(now, err.Error()) })
		}
	})
	subscribed := make(chan struct{})
	var first sync.WaitGroup
	first.Add(consumersPerChannel * len(channels))
	w.consumers = traffic.Hire(consumersPerChannel*len(channels), func(ctx context.Context, i int) {
		w.consume(ctx, i, sync.OnceFunc(first.Done))
	})
	// A channel receives messages published after it was created, so create all of them first.
	go func() { first.Wait(); close(subscribed) }()
	w.producers = traffic.Hire(o.producers, func(ctx context.Context, i int) {
		select {
		case <-subscribed:
			w.produce(ctx, i)
		case <-ctx.Done():
		}
	})
	return w
}

// clientOptions are the IDENTIFY options of the clients.
func clientOptions(id string) wire.Options {
	return wire.Options{ID: id, UserAgent: "brokerd-crash/1", MsgTimeout: msgTimeout}
}

// kill ends a round.
func (w *world) kill(b *broker, round int, gentle bool) error {
	sig := syscall.SIGKILL
	if gentle {
		sig = syscall.SIGTERM
	}
	stall := w.stalls.take()
	w.Tell(func(a *audit.Audit, now time.Duration) { a.Kill(now, round, stall) })
	return b.End(sig)
}

// drain sends the producers home and lets the consumers only finish.
func (w *world) drain() {
	w.Calm.Store(true)
	w.producers.Dismiss()
}

// stop ends all clients.
func (w *world) stop() {
	w.producers.Dismiss()
	w.consumers.Dismiss()
	w.probe.Dismiss()
}

// verdict returns what is wrong with the run, after everything has stopped. Missing messages count
// only if the run was complete.
func (w *world) verdict(rounds int, complete bool) error {
	var err error
	w.Tell(func(a *audit.Audit, now time.Duration) {
		if complete {
			a.End(now)
		}
		s := a.Stats()
		if s.Acked < w.o.minAcks*rounds {
			err = fmt.Errorf("void: %d publishes acknowledged in %d rounds, the minimum is %d per round", s.Acked, rounds, w.o.minAcks)
		}
		if s.Violations > 0 {
			err = errors.Join(err, fmt.Errorf("%d violations (seed %d)", s.Violations, w.o.seed))
		}
	})
	return err
}

// report prints the run's statistics and findings.
func (w *world) report(out io.Writer, rounds int, b *broker) {
	w.Tell(func(a *audit.Audit, now time.Duration) {
		s := a.Stats()
		fmt.Fprintf(out, "%d rounds, %d kills in %.0f s; slowest start to serving %v\n",
			rounds, s.Kills, now.Seconds(), b.slowest.Round(time.Millisecond))
		fmt.Fprintf(out, "published %d: acknowledged %d, unknown %d (of them stored %d), refused %d; deferred %d\n",
			s.Published, s.Acked, s.Unknown, s.Recovered, s.Refused, s.Deferred)
		fmt.Fprintf(out, "delivered %d, finished %d, requeued %d, over %d connections\n",
			s.Delivered, s.Finished, s.Requeued, s.Connections)
		for _, cause := range slices.Sorted(maps.Keys(s.Redelivered)) {
			fmt.Fprintf(out, "redelivered, %s: %d\n", cause, s.Redelivered[cause])
		}
		fmt.Fprintf(out, "longest stall of the machine: %v\n", s.Stall.Round(time.Millisecond))
		if s.Forgotten > 0 {
			fmt.Fprintf(out, "oldest FIN undone by a kill: %v before it; allowed are %v plus the stalls of the machine\n",
				s.Forgotten.Round(time.Millisecond), w.o.window)
		}
		for _, v := range a.Violations() {
			fmt.Fprintf(out, "VIOLATION %v\n", v)
		}
		if s.Violations == 0 {
			fmt.Fprintln(out, "no violations")
		}
	})
}
