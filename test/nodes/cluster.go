package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options describes a cluster.
type Options struct {
	Program string
	Dir     string // for all files
	Nodes   []Addresses
	Args    []string                  // further flags of every node
	ArgsOf  func(id string) []string  // and of one; nil ok
	Wrap    func(i int) []string      // a command that runs the i-th node's; nil ok
	Output  func(id string) io.Writer // additionally receives the output of a node; optional
}

// Cluster holds the nodes, named n1, n2 and so on. Requests are safe for concurrent use; Nodes may
// be used only by the goroutine that calls Grow.
type Cluster struct {
	Nodes []*Node
	o     Options

	mu sync.Mutex // guards Nodes between Grow and the requests of others
}

// all returns the nodes; it is safe for concurrent use.
func (c *Cluster) all() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.Nodes)
}

// New describes the processes of a cluster and starts none.
func New(o Options) (*Cluster, error) {
	program, err := filepath.Abs(o.Program)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("no broker to run (make build): %w", err)
	}
	o.Program = program
	c := &Cluster{o: o}
	for range o.Nodes {
		c.add(fmt.Sprintf("n%d", len(c.Nodes)+1), o.Nodes[len(c.Nodes)])
	}
	return c, nil
}

// add describes one more node.
func (c *Cluster) add(id string, at Addresses) *Node {
	n := &Node{
		Addresses: at, ID: id,
		data: filepath.Join(c.o.Dir, id), log: filepath.Join(c.o.Dir, id+".log"),
	}
	if c.o.Wrap != nil {
		n.args = c.o.Wrap(len(c.Nodes))
	}
	if c.o.Output != nil {
		n.output = c.o.Output(id)
	}
	n.program = len(n.args)
	n.args = append(n.args, c.o.Program,
		"--node-id", id, "--data-dir", n.data, "--tcp-address", at.TCP, "--http-address", at.HTTP,
		"--lookup-address", at.Lookup, "--cluster-address", at.Cluster)
	if len(c.o.Nodes) > 1 {
		n.args = append(n.args, "--bootstrap-expect", strconv.Itoa(len(c.o.Nodes)), "--join", c.join())
	}
	n.args = append(n.args, c.o.Args...)
	if c.o.ArgsOf != nil {
		n.args = append(n.args, c.o.ArgsOf(id)...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Nodes = append(c.Nodes, n)
	return n
}

// join names the founders.
func (c *Cluster) join() string {
	var all []string
	for _, a := range c.o.Nodes {
		all = append(all, a.Cluster)
	}
	return strings.Join(all, ",")
}

// Grow describes a node that joins the others. Its name has not been used.
func (c *Cluster) Grow(at Addresses) *Node { return c.add(fmt.Sprintf("n%d", len(c.Nodes)+1), at) }

// Node returns the node of that name, nil if there is none.
func (c *Cluster) Node(id string) *Node {
	for _, n := range c.Nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// Start starts all nodes at once and waits until they are ready.
func (c *Cluster) Start(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if err := n.Ready(ctx); err != nil {
			return err
		}
	}
	c.awaitVotes(ctx)
	return nil
}

// votesWithin is how long Start waits until all nodes have a vote: those of a new cluster get it once they have answered
// the metadata leader, a moment after they are ready. Without that the others may have no majority if one fails at once.
const votesWithin = 10 * time.Second

// awaitVotes returns when all nodes have a vote, or it cannot be known, as access control is on.
func (c *Cluster) awaitVotes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, votesWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := c.Info(ctx)
		if err != nil {
			return
		}
		voters := 0
		for _, n := range info.Nodes {
			if n.Voter {
				voters++
			}
		}
		if voters >= len(c.Nodes) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Stop ends all that runs, gracefully and at once.
func (c *Cluster) Stop() error {
	errs := make([]error, len(c.Nodes))
	var wg sync.WaitGroup
	for i, n := range c.Nodes {
		if n.state.Load() == paused {
			_ = n.Resume() // it may have ended
		}
		if n.Running() {
			wg.Go(func() { errs[i] = n.Stop() })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Kill ends all that runs, at once and without warning.
func (c *Cluster) Kill() {
	for _, n := range c.Nodes {
		if n.cmd != nil {
			_ = n.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
			<-n.exited
		}
	}
}

// Free searches ports below the kernel's ephemeral range: otherwise a connection may occupy the
// port of a restarting node.
const (
	lowestPort = 20000
	portCount  = 12000
	portTries  = 1000
)

// Ports hands out each port of this machine once, even if its node is down. It is safe for
// concurrent use.
type Ports struct {
	mu    sync.Mutex
	given map[int]bool
}

// Free finds loopback addresses for n nodes that nothing listens on.
func (p *Ports) Free(n int) ([]Addresses, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []string
	for range portTries {
		if len(found) == 4*n {
			break
		}
		port := lowestPort + rand.IntN(portCount)
		if p.given[port] {
			continue
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // another program has it
		}
		l.Close()
		if p.given == nil {
			p.given = map[int]bool{}
		}
		p.given[port] = true
		found = append(found, address)
	}
	if len(found) < 4*n {
		return nil, fmt.Errorf("no %d free ports from %d on", 4*n, lowestPort)
	}
	all := make([]Addresses, n)
	for i := range all {
		all[i] = Addresses{TCP: found[4*i], HTTP: found[4*i+1], Lookup: found[4*i+2], Cluster: found[4*i+3]}
	}
	return all, nil
}

// Usual returns the addresses that the manual gives n nodes on one machine: ports
// 4150, 4151, 4161 and 4152 for the first, a hundred more for each further one.
func Usual(n int) []Addresses {
	all := make([]Addresses, n)
	for i := range all {
		at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port+100*i)) }
		all[i] = Addresses{TCP: at(4150), HTTP: at(4151), Lookup: at(4161), Cluster: at(4152)}
	}
	return all
}
