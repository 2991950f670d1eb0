// Command sidebyside measures brokerd and nsqd on one machine in one run, in
// turns, and prints a table of medians and ratios in Markdown.
//
// Every figure comes from a fresh process with a fresh data directory, loaded
// by loadgen. The order of the contenders changes from round to round, so that
// none always has the machine at its warmest.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"
)

// options is what a run is asked for.
type options struct {
	loadgen, brokerd, nsqd string
	rounds                 int
	duration               time.Duration
	messages, topics       int
}

func main() {
	var o options
	flag.StringVar(&o.loadgen, "loadgen", "", "`PROGRAM` that loads")
	flag.StringVar(&o.brokerd, "brokerd", "", "`PROGRAM` to measure")
	flag.StringVar(&o.nsqd, "nsqd", "", "`PROGRAM` to compare with")
	flag.IntVar(&o.rounds, "rounds", 3, "how often to measure each")
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "how long a load is measured")
	flag.IntVar(&o.messages, "messages", 1_000_000, "size of the backlog")
	flag.IntVar(&o.topics, "topics", 1000, "number of idle topics")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "sidebyside:", err)
		stop()
		os.Exit(1)
	}
}

// run does all rounds and prints the table.
func run(ctx context.Context, o options) error {
	all := contenders(o)
	loads := loads(o)
	var found samples
	for round := range o.rounds {
		for i := range all {
			c := all[(i+round)%len(all)]
			for _, l := range loads {
				fmt.Fprintf(os.Stderr, "round %d of %d: %s, %s\n", round+1, o.rounds, c.name, l.name)
				figures, err := l.measure(ctx, o, c)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, l.name, err)
				}
				found.add(c.name, l.name, figures)
			}
		}
	}
	fmt.Printf("%s, %d cores, %s/%s; medians of %d rounds of %v\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, o.rounds, o.duration)
	fmt.Print(found.table(all))
	return nil
}
