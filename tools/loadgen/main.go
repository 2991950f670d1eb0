// Loadgen loads a message broker and prints what it measured as one line of
// JSON. See README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/tools/loadgen/internal/body"
	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
	"github.com/brokerd/brokerd/tools/loadgen/internal/limits"
	"github.com/brokerd/brokerd/tools/loadgen/internal/load"
	"github.com/brokerd/brokerd/tools/loadgen/internal/natsjs"
	"github.com/brokerd/brokerd/tools/loadgen/internal/nsq"
)

const usage = `usage: loadgen WORKLOAD [flags]

workloads:
  publish   publish for a while; count acknowledged messages
  e2e       one producer and one consumer; latency from publish to receipt
  backlog   publish -messages, then one consumer takes them all
  deferred  publish -messages due at random within -spread; how late they come
  scrambled the same, but -consumers take and hold them all, and leave; how fast
            another takes them then
  topics    make -topics topics; the broker's memory and CPU, idle
  limits    what the disk of this machine can do by itself; needs no broker

loadgen WORKLOAD -h lists the flags.
`

// record is the line that is printed.
type record struct {
	Driver string         `json:"driver,omitempty"`
	Time   time.Time      `json:"time"`
	CPUs   int            `json:"cpus"`
	Args   []string       `json:"args"`
	Error  string         `json:"error,omitempty"`
	Result *load.Result   `json:"result,omitempty"`
	Limits []limits.Limit `json:"limits,omitempty"`
}

func main() {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	r := record{Time: time.Now().UTC().Truncate(time.Second), CPUs: runtime.NumCPU(), Args: os.Args[1:]}
	err := run(os.Args[1], os.Args[2:], &r)
	if err != nil {
		r.Error = err.Error()
	}
	if err = errors.Join(err, json.NewEncoder(os.Stdout).Encode(r)); err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(1)
	}
}

// settings are the flags of a run.
type settings struct {
	load    load.Options
	driver  string
	addr    string
	pids    string
	timeout time.Duration
	dir     string
	noGroup bool
	full    string

	nsq      nsq.Config
	replicas int
}

// addFlags declares what every workload takes.
func (s *settings) addFlags(fs *flag.FlagSet) {
	fs.StringVar(&s.driver, "driver", "nsq", "`NAME`: nsq (raw protocol), go-nsq, client (pkg/client) or nats")
	fs.StringVar(&s.addr, "addr", "127.0.0.1:4150", "broker's `HOST:PORT`; for nats all servers', with commas")
	fs.StringVar(&s.pids, "pids", "", "the broker's process `IDS`, with commas, to measure")
	fs.DurationVar(&s.timeout, "max", 10*time.Minute, "end the whole run after this")
	fs.BoolVar(&s.noGroup, "no-group", false, "publish: make no consumer group")

	o := &s.load
	fs.StringVar(&o.Topic, "topic", "", "topic; default: a new name")
	fs.BoolVar(&o.Keep, "keep", false, "do not delete the topic")
	fs.IntVar(&o.Size, "size", 128, "bytes in a body")
	fs.DurationVar(&o.Warmup, "warmup", time.Second, "before measuring")
	fs.DurationVar(&o.Duration, "duration", 5*time.Second, "measure for this long")
	fs.IntVar(&o.Producers, "producers", 1, "publish: connections that publish")
	fs.BoolVar(&o.Sync, "sync", false, "publish: wait for each message")
	fs.IntVar(&o.Batch, "batch", 100, "messages in a batch")
	fs.IntVar(&o.Window, "window", 10, "batches in flight on a connection")
	fs.Float64Var(&o.Rate, "rate", 2000, "e2e: messages a second; 0: as many as go")
	fs.IntVar(&o.Unconsumed, "unconsumed", 5000, "e2e at rate 0: most messages published and not received")
	fs.IntVar(&o.Messages, "messages", 1000000, "backlog, deferred, scrambled: how many")
	fs.DurationVar(&o.Lead, "lead", 20*time.Second, "deferred, scrambled: the first is due so long after the start; must exceed publishing")
	fs.DurationVar(&o.Spread, "spread", 10*time.Second, "deferred, scrambled: from the first that is due to the last")
	fs.IntVar(&o.Drainers, "drainers", 1, "backlog: connections that take it")
	fs.IntVar(&o.Consumers, "consumers", 500, "scrambled: connections that hold the messages")
	fs.StringVar(&s.full, "full", "", "deferred, scrambled: run this shell `COMMAND` when all is there, before it is taken")
	fs.DurationVar(&o.Rest, "rest", 0, "publish: pause after the load, and measure the broker's memory then; 0: do not")
	fs.DurationVar(&o.Settle, "settle", time.Second, "pause after filling or creating")
	fs.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "backlog, deferred, scrambled: longest drain")
	fs.IntVar(&o.Topics, "topics", 1000, "topics: how many")
	fs.IntVar(&o.Concurrency, "concurrency", 8, "topics: requests at a time")
}

// addDriverFlags declares what one driver, or a workload without one, takes.
func (s *settings) addDriverFlags(fs *flag.FlagSet) {
	fs.StringVar(&s.nsq.HTTP, "nsq-http", "", "nsq: `HOST:PORT` of the HTTP API, to create, delete and count")
	fs.IntVar(&s.nsq.RDY, "nsq-rdy", 2500, "nsq: RDY count (go-nsq: max_in_flight)")
	fs.BoolVar(&s.nsq.Lookup, "nsq-lookup", false, "nsq: connect to a node that GET /lookup of -nsq-http names")
	fs.IntVar(&s.nsq.Topics, "nsq-topics", 1, "nsq: publish to so many topics in turn")
	fs.IntVar(&s.nsq.Partitions, "nsq-partitions", 0, "nsq: create topics with so many partitions; 0: the broker's default")
	fs.IntVar(&s.nsq.Keys, "nsq-keys", 0, "nsq: publish each message with one of so many keys, in turn; 0: without")
	fs.BoolVar(&s.nsq.IDs, "nsq-ids", false, "nsq: publish each message with a dedup id")
	fs.StringVar(&s.nsq.TopicConfig, "nsq-topic-config", "", "nsq: create topics with this `JSON` as well, by brokerd's API")
	fs.StringVar(&s.nsq.ChannelConfig, "nsq-channel-config", "", "nsq: create channels with this `JSON` as well, by brokerd's API")
	fs.IntVar(&s.replicas, "replicas", 1, "nats: replicas of a stream")
	fs.StringVar(&s.dir, "dir", os.TempDir(), "limits: `DIRECTORY` on the disk to measure")
}

// complete checks the options of a load and fills in what is derived.
func (s *settings) complete() error {
	o := &s.load
	if o.Size < body.MinSize || o.Batch < 1 || o.Window < 1 || o.Producers < 1 {
		return fmt.Errorf("-size must be at least %d; -batch, -window and -producers at least 1", body.MinSize)
	}
	o.Group = !s.noGroup
	if s.full != "" {
		o.Full = func() error { return exec.Command("sh", "-c", s.full).Run() }
	}
	if o.Topic == "" {
		o.Topic = fmt.Sprintf("lg_%d_%d", time.Now().UnixMilli(), os.Getpid())
	}
	for id := range strings.FieldsFuncSeq(s.pids, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(id)
		if err != nil {
			return err
		}
		o.Pids = append(o.Pids, n)
	}
	return nil
}

// newDriver connects to the broker given by the flags.
func (s *settings) newDriver() (broker.Driver, error) {
	s.nsq.TCP = s.addr
	switch s.driver {
	case "nsq":
		return nsq.NewRaw(s.nsq), nil
	case "go-nsq":
		return nsq.NewClient(s.nsq), nil
	case "client":
		return nsq.NewOwn(s.nsq), nil
	case "nats":
		return natsjs.New(natsjs.Config{
			Addrs: strings.Split(s.addr, ","), Replicas: s.replicas, InFlight: s.load.Batch * s.load.Window,
		})
	}
	return nil, fmt.Errorf("no driver %q", s.driver)
}

// run does one workload and fills in rec.
func run(workload string, args []string, rec *record) error {
	var s settings
	fs := flag.NewFlagSet("loadgen "+workload, flag.ExitOnError)
	s.addFlags(fs)
	s.addDriverFlags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected %q", fs.Args())
	}
	var f func(context.Context, broker.Driver, load.Options, *load.Result)
	switch workload {
	case "limits":
		var err error
		rec.Limits, err = limits.Run(s.dir, s.load.Duration)
		return err
	case "publish":
		f = load.Publish
	case "e2e":
		f = load.EndToEnd
	case "backlog":
		f = load.Backlog
	case "deferred":
		f = load.Deferred
	case "scrambled":
		f = load.Scrambled
	case "topics":
		f = load.Topics
	default:
		return fmt.Errorf("no workload %q", workload)
	}
	if s.nsq.Topics > 1 && (workload != "publish" || s.driver != "nsq") {
		return errors.New("-nsq-topics is for the workload publish and the driver nsq")
	}
	if err := s.complete(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	d, err := s.newDriver()
	if err != nil {
		return err
	}
	defer d.Close()
	rec.Driver = s.driver
	rec.Result = new(load.Result)
	return steps.Run(func() { f(ctx, d, s.load, rec.Result) })
}
