// Command cluster runs a few nodes of brokerd on this machine, as one cluster on the loopback
// addresses that the manual uses, prints how to use them, and stops them cleanly at Ctrl-C. The
// nodes' data is kept for the next run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
)

// options are the flags of a run.
type options struct {
	broker string
	dir    string
	nodes  int
	level  string
}

func main() {
	var o options
	flag.StringVar(&o.broker, "broker", "bin/brokerd", "`PROGRAM` to run")
	flag.StringVar(&o.dir, "dir", "brokerd-cluster", "`DIRECTORY` for what the nodes keep and print")
	flag.IntVar(&o.nodes, "nodes", 3, "how many")
	flag.StringVar(&o.level, "log-level", "info", "of the nodes")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: cluster [flags] [-- flags of brokerd]")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		stop()
		os.Exit(1)
	}
}

// startTimeout is how long the cluster may take to form.
const startTimeout = 30 * time.Second

func run(ctx context.Context, o options, args []string) error {
	if o.nodes < 1 || o.nodes > 9 {
		return errors.New("-nodes must be 1 to 9")
	}
	lines := nodes.NewLines(os.Stderr)
	c, err := nodes.New(nodes.Options{
		Program: o.broker, Dir: o.dir, Nodes: nodes.Usual(o.nodes),
		Args:   append([]string{"--log-level", o.level, "--log-format", "text"}, args...),
		Output: func(id string) io.Writer { return lines.Prefix(id + " | ") },
	})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	err = c.Start(limited)
	cancel()
	if ctx.Err() != nil {
		fmt.Println("stopping")
		return c.Stop()
	}
	if err != nil {
		return errors.Join(err, c.Stop())
	}
	if err := explain(os.Stdout, o.dir, c); err != nil {
		return errors.Join(err, c.Stop())
	}
	ended := make(chan *nodes.Node, len(c.Nodes))
	for _, n := range c.Nodes {
		go func() { <-n.Exited(); ended <- n }()
	}
	for left := len(c.Nodes); left > 0; {
		select {
		case <-ctx.Done():
			fmt.Println("stopping")
			return c.Stop()
		case n := <-ended:
			left--
			fmt.Printf("%s has ended: %s; the others go on\n", n.ID, n.How())
		}
	}
	return errors.New("all nodes have ended")
}

// explain prints where the nodes are and how to use them.
func explain(w io.Writer, dir string, c *nodes.Cluster) error {
	first := c.Nodes[0]
	var tcp []string
	for _, n := range c.Nodes {
		tcp = append(tcp, n.TCP)
	}
	return guide.Execute(w, map[string]any{
		"Nodes": c.Nodes, "Dir": dir, "TCP": strings.Join(tcp, ", "), "First": first, "Last": c.Nodes[len(c.Nodes)-1],
	})
}

// guide is what is printed.
var guide = template.Must(template.New("guide").Parse(`
NODE  NSQ             HTTP            LOOKUP          CLUSTER         PID
{{range .Nodes}}{{printf "%-5s %-15s %-15s %-15s %-15s %d" .ID .TCP .HTTP .Lookup .Addresses.Cluster .Pid}}
{{end}}
Any node serves any client. To try it, in another terminal:

  bin/brokerctl cluster info
  bin/brokerctl topic create orders --partitions 3
  bin/brokerctl message pub orders hello --addr http://{{.Last.HTTP}}
  bin/brokerctl message tail orders/billing -n 1
  bin/brokerctl partition list
  kill -9 {{.First.Pid}}     # and look: bin/brokerctl cluster health --addr http://{{.Last.HTTP}}

What the nodes keep and print is in {{.Dir}}; Ctrl-C stops them, make cluster-clean removes it.

`))
