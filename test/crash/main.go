// Command crash kills a broker repeatedly with SIGKILL while clients publish and consume, and checks
// its guarantees with package audit: no acknowledged message is lost, none is invented or altered,
// and every redelivery has a cause.
//
// It drives the built program from outside, over the NSQ protocol with its own client, and does not
// know the broker's internals. A run prints its seed. The seed determines what the clients do and
// when the broker is killed, but not how the machine schedules them. A run with too few acknowledged
// publishes proves nothing and fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the options of a run.
type options struct {
	broker    string
	rounds    int
	duration  time.Duration
	seed      uint64
	rate      int
	producers int
	window    time.Duration
	minAcks   int
	keep      bool
	gentle    bool
}

func (o *options) addFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.broker, "broker", "bin/brokerd", "`PROGRAM` to test; one called nsqd is given nsqd's command line")
	fs.IntVar(&o.rounds, "rounds", 100, "how often to kill; 0: until -for is over")
	fs.DurationVar(&o.duration, "for", 10*time.Minute, "with -rounds 0: how long to go on")
	fs.Uint64Var(&o.seed, "seed", 0, "of all that is random; 0: a new one")
	fs.IntVar(&o.rate, "rate", 3000, "messages a second to publish at most")
	fs.IntVar(&o.producers, "producers", 4, "connections that publish")
	fs.DurationVar(&o.window, "window", 600*time.Millisecond, "how long before a kill a FIN may be forgotten")
	fs.IntVar(&o.minAcks, "min-acks", 100, "a run with fewer acknowledgements a round is void")
	fs.BoolVar(&o.keep, "keep", false, "keep the data directory and the log")
	fs.BoolVar(&o.gentle, "gentle", false, "stop the broker with SIGTERM instead")
}

func (o *options) validate() error {
	if o.rate < 1 || o.producers < 1 || o.rounds < 0 || o.rounds == 0 && o.duration <= 0 {
		return errors.New("-rate and -producers must be at least 1, -rounds at least 0, -for positive")
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	return nil
}

func main() {
	var o options
	o.addFlags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := o.validate()
	if err == nil {
		fmt.Printf("seed %d\n", o.seed)
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		stop()
		os.Exit(1)
	}
}

// Durations and timeouts.
const (
	minLifetime  = 400 * time.Millisecond // of a broker process, from serving to its kill
	maxLifetime  = 2400 * time.Millisecond
	maxRecovery  = 120 * time.Millisecond // from start to a kill that is meant to hit recovery
	serveTimeout = 20 * time.Second       // from start to serving
	drainTimeout = 90 * time.Second       // from the last restart to an empty queue
	settleTime   = 2 * time.Second        // in which no message may arrive
)

// run does all rounds, drains and reports.
func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "brokerd-crash")
	if err != nil {
		return err
	}
	b, err := newBroker(o.broker, dir)
	if err != nil {
		return err
	}
	w := newWorld(o, b.TCP, dir)
	rounds, err := kills(ctx, o, b, w)
	complete := err == nil
	if complete {
		err = drain(ctx, b, w)
	}
	w.stop()
	stopErr := b.terminate()
	err = errors.Join(err, stopErr, w.verdict(rounds, complete))
	w.report(os.Stdout, rounds, b)
	if err != nil || o.keep {
		fmt.Printf("the data and the log are in %s\n", dir)
		return err
	}
	return os.RemoveAll(dir)
}

// kills starts and kills the broker until it is enough, and leaves it running.
// It returns how many rounds there were.
func kills(ctx context.Context, o options, b *broker, w *world) (int, error) {
	rng := rand.New(rand.NewPCG(o.seed, 0))
	began := time.Now()
	enough := func(round int) bool {
		if o.rounds > 0 {
			return round > o.rounds
		}
		return time.Since(began) > o.duration
	}
	for round := 1; ; round++ {
		w.round.Store(int64(round))
		if err := b.start(); err != nil {
			return round, err
		}
		last := enough(round)
		// One round in ten is killed while the broker may still be recovering.
		early := !last && round > 1 && rng.IntN(10) == 0
		life := minLifetime + time.Duration(rng.Int64N(int64(maxLifetime-minLifetime)))
		if early {
			life = time.Duration(rng.Int64N(int64(maxRecovery)))
		} else if err := b.serving(ctx); err != nil {
			return round, fmt.Errorf("round %d: %w", round, err)
		}
		if last {
			return round - 1, nil
		}
		select {
		case <-time.After(life):
		case <-ctx.Done():
			return round, ctx.Err()
		}
		if err := w.kill(b, round, o.gentle); err != nil {
			return round, fmt.Errorf("round %d: %w", round, err)
		}
	}
}

// drain stops the producers and waits until everything is finished, by the
// audit and by the broker's own account.
func drain(ctx context.Context, b *broker, w *world) error {
	w.drain()
	limited, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := b.unfinished(limited, topic)
		owed := w.Stats().Owed
		if err == nil && left == 0 && owed == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			return fmt.Errorf("not drained after %v: %d messages by the broker's account, %d by ours: %w",
				drainTimeout, left, owed, errors.Join(err, limited.Err()))
		}
	}
	select {
	case <-time.After(settleTime):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
