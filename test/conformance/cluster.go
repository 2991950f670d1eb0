package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/brokerd/brokerd/test/nodes"
)

// Environment variables for this program when it runs under the name nsqd.
const (
	brokerVariable = "CONFORMANCE_BROKER"
	nodesVariable  = "CONFORMANCE_NODES"
)

// clusterFlags are the flags that the suites pass to nsqd.
type clusterFlags struct {
	tcp, http, data, broadcast string
	cert, key, ca, auth        string
}

func (f *clusterFlags) parse(args []string) error {
	fs := flag.NewFlagSet("nsqd", flag.ContinueOnError)
	fs.StringVar(&f.tcp, "tcp-address", "127.0.0.1:4150", "")
	fs.StringVar(&f.http, "http-address", "127.0.0.1:4151", "")
	fs.StringVar(&f.data, "data-path", "", "")
	fs.StringVar(&f.broadcast, "broadcast-address", "127.0.0.1", "")
	fs.StringVar(&f.cert, "tls-cert", "", "")
	fs.StringVar(&f.key, "tls-key", "", "")
	fs.StringVar(&f.ca, "tls-root-ca-file", "", "")
	fs.StringVar(&f.auth, "auth-http-address", "", "")
	return fs.Parse(args)
}

// broker returns the further flags of every node.
func (f *clusterFlags) broker() []string {
	args := []string{"--advertise-host", f.broadcast}
	for _, x := range [][2]string{{"--tls-cert", f.cert}, {"--tls-key", f.key}, {"--tls-root-ca-file", f.ca}, {"--auth-http-address", f.auth}} {
		if x[1] != "" {
			args = append(args, x[0], x[1])
		}
	}
	return args
}

// asNSQD is this program under the name nsqd: it accepts nsqd's flags and starts a cluster. The
// last node has the requested addresses, so that other nodes lead most of the suites' topics. The
// HTTP address responds only when the cluster serves, because the suites wait for the first
// response.
func asNSQD(args []string) error {
	var f clusterFlags
	if err := f.parse(args); err != nil {
		return err
	}
	n, err := strconv.Atoi(os.Getenv(nodesVariable))
	if err != nil || f.data == "" {
		return errors.Join(errors.New("nsqd: wants "+nodesVariable+" and -data-path"), err)
	}
	file := os.Getenv(tokenVariable)
	at, err := new(nodes.Ports).Free(n)
	if err != nil {
		return err
	}
	at[n-1].TCP = f.tcp
	c, err := nodes.New(nodes.Options{
		Program: os.Getenv(brokerVariable), Dir: f.data, Nodes: at, Args: f.broker(),
		Output: func(string) io.Writer { return os.Stderr },
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.Start(limited); err != nil {
		c.Kill()
		return err
	}
	front, err := serveHTTP(limited, c.Nodes[n-1], f.http, file)
	if err != nil {
		c.Kill()
		return err
	}
	<-ctx.Done()
	return errors.Join(front.Close(), c.Stop())
}

// serveHTTP serves the node's HTTP endpoints at another address. With a file for a token, it enables access
// control before and sends requests on with a token of their own.
func serveHTTP(ctx context.Context, n *nodes.Node, address, file string) (io.Closer, error) {
	clients, tools := "", ""
	if file != "" {
		var err error
		if clients, tools, err = enableAccess(ctx, n, os.Getenv(topicsVariable)); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, []byte(clients), 0o600); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if tools != "" {
		return authenticated(l, n.HTTP, tools), nil
	}
	go forward(l, n.HTTP)
	return l, nil
}

// forward forwards every connection to an address until the listener is closed.
func forward(l net.Listener, address string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			to, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			defer to.Close()
			var both sync.WaitGroup
			for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
				both.Go(func() {
					_, _ = io.Copy(way[1], way[0]) // an end of either ends both
					_ = way[1].(*net.TCPConn).CloseWrite()
				})
			}
			both.Wait()
		}()
	}
}

// behindNSQD returns this program, which stands in for nsqd in front of so many nodes, and says so in the
// environment of the suites' processes.
func behindNSQD(broker string, n int) (program string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	for name, value := range map[string]string{brokerVariable: broker, nodesVariable: strconv.Itoa(n)} {
		if err := os.Setenv(name, value); err != nil {
			return "", err
		}
	}
	return self, nil
}

// calledNSQD reports whether this program was started as nsqd.
func calledNSQD() bool { return filepath.Base(os.Args[0]) == "nsqd" }

// describe names the tested program.
func (e env) describe() string {
	what := "a node alone"
	if e.nodes > 1 {
		what = fmt.Sprintf("a node of %d", e.nodes)
	}
	if e.token != "" {
		what += " with access control"
	}
	return what
}
