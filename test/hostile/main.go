// Command hostile runs a broker with little memory and exposes it to one hostile client after
// another, beside a well-behaved client.
//
// It knows what clients without rights can send, and measures the memory of the process and the
// latency of its responses. It does not know the broker's internals: the broker is a program with
// ports and a process with a size.
//
// The broker survives an attack if it keeps running, its memory stays within the limit of its
// runtime, memory used for the attack is released within half a minute, and the 99th percentile of
// the latency of the well-behaved client is at most twice that without the attack, or ten
// milliseconds. A failed attack is repeated once, because other programs on the machine also delay
// responses.
//
// The hostile clients run in a separate process of the lowest priority: they represent other
// machines, which do not use the broker's processors. The work that they cause in the broker and in
// the kernel counts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/steps"
)

// options are the options of a run.
type options struct {
	broker string
	memory int64         // GOMEMLIMIT of the broker, in bytes
	length time.Duration // of one attack
	slack  float64       // factor by which responses may exceed the limit
	only   string        // names of attacks; "": all
	attack string        // to run, with TCP and HTTP addresses
	target
}

// target holds the addresses of the attacked broker.
type target struct{ TCP, HTTP string }

func main() {
	var o options
	flag.StringVar(&o.broker, "broker", "bin/brokerd", "`PROGRAM` to attack")
	flag.Int64Var(&o.memory, "memory", 512<<20, "`BYTES` that the broker may use")
	flag.DurationVar(&o.length, "for", 5*time.Second, "length of one attack")
	flag.Float64Var(&o.slack, "slack", 1, "factor by which answers may take longer than they should")
	flag.StringVar(&o.only, "only", "", "names of `ATTACKS`, with commas")
	flag.StringVar(&o.attack, "attack", "", "`NAME` of an attack to make on a broker that runs; what the program starts itself with")
	flag.StringVar(&o.TCP, "tcp", "", "`ADDRESS` of that broker for clients")
	flag.StringVar(&o.HTTP, "http", "", "`ADDRESS` of that broker for HTTP")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.attack != "" {
		return fight(ctx, o.attack, o.target)
	}
	chosen := func(all []attack) []attack {
		return slices.DeleteFunc(slices.Clone(all), func(a attack) bool {
			return o.only != "" && !slices.Contains(strings.Split(o.only, ","), a.name)
		})
	}
	return errors.Join(runOpen(ctx, o, chosen(attacks)), runGuarded(ctx, o, chosen(guarded)))
}

// runOpen makes attacks on a broker without access control.
func runOpen(ctx context.Context, o options, all []attack) error {
	if len(all) == 0 {
		return nil
	}
	v, err := startVictim(ctx, o)
	if err != nil {
		return err
	}
	defer v.end()
	return runAgainst(ctx, v, o, all)
}

// runAgainst makes attacks on a broker, one after the other.
func runAgainst(ctx context.Context, v *victim, o options, all []attack) error {
	fmt.Printf("%-24s %10s %10s %8s %10s %10s\n", "attack", "calm p99", "p99", "answers", "peak MiB", "held MiB")
	var lost []error
	for _, a := range all {
		attack := func() { survive(ctx, v, a, o) }
		err := steps.Run(attack)
		if err != nil && ctx.Err() == nil && v.alive() == nil {
			fmt.Printf("%-24s %v; once more\n", a.name, err)
			err = steps.Run(attack)
		}
		if err != nil {
			lost = append(lost, fmt.Errorf("%s: %w", a.name, err))
		}
		if err := v.alive(); err != nil {
			lost = append(lost, err)
			break
		}
	}
	if err := v.freed(ctx, o.memory); err != nil {
		lost = append(lost, err)
	}
	return errors.Join(append(lost, ctx.Err())...)
}

// beyond is the inverse of the part of its limit by which a process may exceed it: for its code,
// and for memory that the collector cannot release because of other processes' load.
const beyond = 16

// survive runs one attack.
func survive(ctx context.Context, v *victim, a attack, o options) {
	before := steps.Need(v.held(ctx))
	calm, err := behave(ctx, v, o.length/4)
	if err != nil {
		steps.Fail("before it: %w", err)
	}
	if a.prepare != nil {
		if err := a.prepare(ctx, v); err != nil {
			steps.Fail("preparing it: %w", err)
		}
	}
	peak := v.watch()
	end := steps.Need(begin(v, a))
	during, err := behave(ctx, v, o.length)
	end()
	most := peak()
	if a.tidy != nil {
		err = errors.Join(err, a.tidy(ctx, v))
	}
	steps.Must(err)
	after, err := v.givenBack(ctx, before)
	fmt.Printf("%-24s %10v %10v %8d %10d %10d\n", a.name, calm.p99(), during.p99(), len(during), most>>20, after>>20)
	steps.Must(err)
	if allowed := o.memory + o.memory/beyond; most > allowed {
		steps.Fail("%d MiB of memory, of %d", most>>20, allowed>>20)
	}
	bearable := time.Duration(o.slack * float64(max(2*calm.p99(), 10*time.Millisecond)))
	if took := during.p99(); took > bearable {
		steps.Fail("answers took %v, and should take %v", took, bearable)
	}
}
