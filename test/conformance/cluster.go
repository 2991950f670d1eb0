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
	"github.com/brokerd/brokerd/test/steps"
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
func asNSQD(args []string) {
	var f clusterFlags
	steps.Must(f.parse(args))
	n, err := strconv.Atoi(os.Getenv(nodesVariable))
	if err != nil || f.data == "" {
		steps.Must(errors.Join(errors.New("nsqd: wants "+nodesVariable+" and -data-path"), err))
	}
	at := steps.Need(new(nodes.Ports).Free(n))
	at[n-1].TCP = f.tcp
	secret := filepath.Join(f.data, "cluster-secret") // access control wants a closed cluster port
	steps.Must(os.MkdirAll(f.data, 0o755))
	steps.Must(os.WriteFile(secret, []byte("of the conformance suites\n"), 0o600))
	c := steps.Need(nodes.New(nodes.Options{
		Program: os.Getenv(brokerVariable), Dir: f.data, Nodes: at, Args: append(f.broker(), "--cluster-secret-file", secret),
		Output: func(string) io.Writer { return os.Stderr },
	}))
	defer c.Kill() // what does not run any more is not killed
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	steps.Must(c.Start(limited))
	front := serveHTTP(limited, c.Nodes[n-1], f.http, os.Getenv(tokenVariable))
	<-ctx.Done()
	steps.Must(errors.Join(front.Close(), c.Stop()))
}

// serveHTTP serves the node's HTTP endpoints at another address. With a file for a token, it enables access
// control before and sends requests on with a token of their own.
func serveHTTP(ctx context.Context, n *nodes.Node, address, file string) io.Closer {
	clients, tools := "", ""
	if file != "" {
		clients, tools = enableAccess(ctx, n, os.Getenv(topicsVariable))
		steps.Must(os.WriteFile(file, []byte(clients), 0o600))
	}
	l := steps.Need(net.Listen("tcp", address))
	if tools != "" {
		return authenticated(l, n.HTTP, tools)
	}
	go forward(l, n.HTTP)
	return l
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
func behindNSQD(broker string, n int) (program string) {
	steps.Must(errors.Join(os.Setenv(brokerVariable, broker), os.Setenv(nodesVariable, strconv.Itoa(n))))
	return steps.Need(os.Executable())
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
