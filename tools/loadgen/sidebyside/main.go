// Command sidebyside measures brokerd and another broker on one machine in one
// run, in turns, and prints a table of medians and ratios in Markdown: beside nsqd
// as single nodes, beside NATS JetStream as clusters of three, and beside another
// brokerd with more and more topics.
//
// Every figure comes from fresh processes with fresh data directories, loaded
// by loadgen. The order of the contenders changes from round to round, so that
// none always has the machine at its warmest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
)

// options are the flags of a run.
type options struct {
	loadgen, brokerd, nsqd, nats string
	before                       string
	cluster                      bool
	features, clients            bool
	rounds, tries                int
	others                       float64 // share of a core that other programs may use
	duration, slack              time.Duration
	messages, topics             int
	only                         string
	write                        string
}

func main() {
	var o options
	flag.StringVar(&o.loadgen, "loadgen", "", "`PROGRAM` that loads")
	flag.StringVar(&o.brokerd, "brokerd", "", "`PROGRAM` to measure")
	flag.StringVar(&o.nsqd, "nsqd", "", "`PROGRAM` to compare with, as single nodes")
	flag.StringVar(&o.nats, "nats-server", "", "`PROGRAM` to compare with, as clusters")
	flag.StringVar(&o.before, "before", "", "`PROGRAM`, another brokerd to compare with; beside -nsqd, if that is set")
	flag.BoolVar(&o.cluster, "cluster", false, "with -before: clusters of three")
	flag.BoolVar(&o.features, "features", false, "brokerd with what messages can do beside brokerd without; with -cluster as clusters of three")
	flag.BoolVar(&o.clients, "clients", false, "pkg/client beside go-nsq, on one brokerd that serves the same load")
	flag.IntVar(&o.rounds, "rounds", 3, "how often to measure each")
	flag.Float64Var(&o.others, "others", 0.25, "measure again while other programs use more than this `SHARE` of a core")
	flag.IntVar(&o.tries, "tries", 3, "how often to measure one load at the most; the quietest counts")
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "how long a load is measured")
	flag.IntVar(&o.messages, "messages", 1_000_000, "size of the backlog")
	flag.IntVar(&o.topics, "topics", 1000, "number of topics")
	flag.StringVar(&o.only, "only", "", "measure only loads whose name contains this")
	flag.StringVar(&o.write, "write", "", "`FILE` whose part between <!-- measured --> and <!-- end --> of -section is written")
	flag.DurationVar(&o.slack, "slack", 0, "timer slack of all programs that are compared; 0: the system's. The systemd unit of brokerd sets 1ms")
	section := flag.String("section", "", "name that follows in these marks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	table, err := run(ctx, o)
	if err == nil {
		fmt.Print(table)
	}
	if err == nil && o.write != "" {
		err = writeSection(o.write, *section, table)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sidebyside:", err)
		stop()
		os.Exit(1)
	}
}

// contest is a comparison of programs; the first one is the reference.
func contest(o options) ([]contender, []load, error) {
	switch {
	case o.features:
		return features(o), featureLoads(o), nil
	case o.clients:
		return clients(o), clientLoads(o), nil
	case o.before != "":
		return growth(o), growthLoads(o), nil
	case o.nsqd != "":
		return []contender{nsqd(o.nsqd), brokerd(o.brokerd, "always"), brokerd(o.brokerd, "interval")}, nodeLoads(o), nil
	case o.nats != "":
		return []contender{
			brokerdCluster(o.brokerd, true), brokerdCluster(o.brokerd, false),
			natsCluster(o.nats, 3, true), natsCluster(o.nats, 1, true), natsCluster(o.nats, 3, false), natsCluster(o.nats, 1, false),
		}, clusterLoads(o), nil
	}
	return nil, nil, errors.New("nothing to compare with: -features, -clients, -before, -nsqd or -nats-server")
}

// growth is a brokerd beside another one.
func growth(o options) []contender {
	one := func(program string) contender { return brokerd(program, "always") }
	if o.cluster {
		one = func(program string) contender { return brokerdCluster(program, false) }
	}
	all := []contender{one(o.before), one(o.brokerd)}
	all[0].name = "before"
	if o.nsqd != "" && !o.cluster {
		all = append(all, nsqd(o.nsqd))
	}
	return all
}

// clients is one brokerd that two clients load, and loadgen's own connections, which do no more than
// the load needs: what these reach bounds what a client can.
func clients(o options) []contender {
	var all []contender
	for _, d := range [...]struct{ name, driver string }{{"go-nsq", "go-nsq"}, {"pkg/client", "client"}, {"bare connections", "nsq"}} {
		c := brokerd(o.brokerd, "always")
		c.name, c.target = d.name, append(slices.Clip(c.target), "-driver", d.driver)
		all = append(all, c)
	}
	return all
}

// features is one brokerd with several configurations of its topic, its channel and its messages.
func features(o options) []contender {
	plain := brokerd(o.brokerd, "always")
	if o.cluster {
		plain = brokerdCluster(o.brokerd, true)
	}
	all := []contender{plain}
	for _, f := range []struct {
		name string
		args []string
	}{
		{"dedup ids", []string{"-nsq-ids"}},
		{"keys", []string{"-nsq-keys", "1000"}},
		{"order by key", []string{"-nsq-keys", "1000", "-nsq-channel-config", `{"order":"key"}`}},
		{"strict order", []string{"-nsq-channel-config", `{"order":"strict"}`}},
		{"filter", []string{"-nsq-channel-config", `{"filter":"size > 1"}`}},
		{"filter on the key", []string{"-nsq-keys", "1000", "-nsq-channel-config", `{"filter":"key != \"\""}`}},
		{"traced, 1 of 100", []string{"-nsq-topic-config", `{"trace":"1/100"}`}},
		{"traced, all", []string{"-nsq-topic-config", `{"trace":"on"}`}},
	} {
		c := plain
		c.name, c.target = f.name, append(slices.Clip(plain.target), f.args...)
		all = append(all, c)
	}
	return all
}

// run does all rounds and returns the table.
func run(ctx context.Context, o options) (string, error) {
	all, loads, err := contest(o)
	if err != nil {
		return "", err
	}
	loads = slices.DeleteFunc(loads, func(l load) bool { return !strings.Contains(l.name, o.only) })
	if len(loads) == 0 {
		return "", fmt.Errorf("no load has a name that contains %q", o.only)
	}
	for i := range all {
		all[i].slack = o.slack
	}
	var found samples
	var others []float64
	for round := range o.rounds {
		for i := range all {
			c := all[(i+round)%len(all)]
			for _, l := range loads {
				fmt.Fprintf(os.Stderr, "round %d of %d: %s, %s\n", round+1, o.rounds, c.name, l.name)
				measure := func() (measurement, error) { return l.measure(ctx, o, c) }
				m, err := quietest(o.tries, o.others, measure)
				if err != nil && ctx.Err() == nil {
					fmt.Fprintf(os.Stderr, "again: %v\n", err) // one that fails twice ends the run
					m, err = quietest(o.tries, o.others, measure)
				}
				if err != nil {
					return "", fmt.Errorf("%s, %s: %w", c.name, l.name, err)
				}
				found.add(c.name, l.name, m.figures)
				others = append(others, m.others)
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s/%s; medians of %d rounds of %v; other programs used %.0f%% of a core (median; %.0f%% at most)\n\n%s",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, o.rounds, o.duration,
		100*median(others), 100*slices.Max(others), found.table(all)), nil
}

// writeSection puts text between the marks of a section in a file.
func writeSection(file, section, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	written, err := replaceSection(string(old), section, text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(written), 0o644)
}

// replaceSection returns a document with text between the marks of a section.
func replaceSection(document, section, text string) (string, error) {
	begin, end := "<!-- measured "+section+" -->\n", "<!-- end "+section+" -->"
	head, rest, found := strings.Cut(document, begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("no lines %q and %q", strings.TrimSpace(begin), end)
	}
	return head + begin + "\n" + strings.TrimRight(text, "\n") + "\n\n" + end + tail, nil
}
