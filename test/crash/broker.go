package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
)

// broker is the program under test: the same command line at every start.
type broker struct {
	*nodes.Node
	started time.Time
	slowest time.Duration // from start to serving
}

// newBroker chooses free ports and a command line. All data is stored below dir.
func newBroker(program, dir string) (*broker, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("no broker to test (make build): %w", err)
	}
	found, err := new(nodes.Ports).Free(1)
	if err != nil {
		return nil, err
	}
	at, data := found[0], filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o750); err != nil {
		return nil, err
	}
	args := []string{
		program, "--data-dir", data, "--tcp-address", at.TCP, "--http-address", at.HTTP,
		"--cluster-address", at.Cluster, "--lookup-address", "",
	}
	if base := filepath.Base(program); len(base) >= 4 && base[:4] == "nsqd" {
		args = []string{program, "--data-path", data, "--tcp-address", at.TCP, "--http-address", at.HTTP}
	}
	return &broker{Node: nodes.Command("broker", at, filepath.Join(dir, "log"), args)}, nil
}

// start starts the process and does not wait for it to serve.
func (b *broker) start() error {
	b.started = time.Now()
	return b.Start()
}

// serving waits until the broker accepts connections.
func (b *broker) serving(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := net.DialTimeout("tcp", b.TCP, time.Second)
		if err == nil {
			b.slowest = max(b.slowest, time.Since(b.started))
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-b.Exited():
			return fmt.Errorf("the broker has exited: %s", b.How())
		case <-ctx.Done():
			return fmt.Errorf("the broker does not serve: %w", ctx.Err())
		}
	}
}

// terminate stops the last process as an operator does: it must exit with 0.
func (b *broker) terminate() error {
	if !b.Running() {
		return nil
	}
	return b.Stop()
}

// unfinished asks the broker how many messages its channels still have.
func (b *broker) unfinished(ctx context.Context, topic string) (int, error) {
	var stats struct {
		Topics []struct {
			Depth    int
			Channels []struct {
				Depth         int
				InFlightCount int `json:"in_flight_count"`
				DeferredCount int `json:"deferred_count"`
			}
		}
	}
	path := "/stats?format=json&include_clients=false&topic=" + url.QueryEscape(topic)
	if err := b.Ask(ctx, http.MethodGet, path, nil, &stats); err != nil {
		return 0, err
	}
	if len(stats.Topics) != 1 || len(stats.Topics[0].Channels) != len(channels) {
		return 0, errors.New("the broker's stats lack the topic or a channel")
	}
	n := stats.Topics[0].Depth
	for _, c := range stats.Topics[0].Channels {
		n += c.Depth + c.InFlightCount + c.DeferredCount
	}
	return n, nil
}
