package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
)

// patience is the timeout for the broker to start, to respond, and to release memory.
const patience = 30 * time.Second

// victim is the broker that is attacked.
type victim struct {
	node    *nodes.Node
	cluster *nodes.Cluster // of the one node
	scratch string
}

// startVictim starts a broker with further flags.
func startVictim(ctx context.Context, o options, flags ...string) (*victim, error) {
	at, err := new(nodes.Ports).Free(1)
	if err != nil {
		return nil, err
	}
	at[0].Lookup = "" // it serves no lookups
	scratch, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		return nil, err
	}
	c, err := nodes.New(nodes.Options{
		Program: o.broker, Dir: scratch, Nodes: at,
		Args: append([]string{"--disk-reserve", "0", "--pprof", "--creation-burst", mayCreate}, flags...),
		Wrap: func(int) []string { return []string{"env", fmt.Sprintf("GOMEMLIMIT=%d", o.memory)} },
	})
	if err != nil {
		return nil, err
	}
	v := &victim{node: c.Nodes[0], cluster: c, scratch: scratch}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		v.end()
		return nil, err
	}
	return v, nil
}

// alive returns how the broker ended, if it has.
func (v *victim) alive() error {
	select {
	case <-v.node.Exited():
		return fmt.Errorf("the broker ended: %s\n%s", v.node.How(), v.node.LogEnd())
	default:
		return nil
	}
}

func (v *victim) end() {
	v.cluster.Kill()
	_ = os.RemoveAll(v.scratch)
}

// held returns the bytes that clients make the broker hold, according to its metrics, without
// caches that it drops when memory is needed, and without partitions, which stay.
func (v *victim) held(ctx context.Context) (int64, error) {
	text, err := v.node.Fetch(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(name, "brokerd_memory_budget_used_bytes{") && !strings.Contains(name, `"reads"`) && !strings.Contains(name, `"partitions"`) {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+n, true
		}
	}
	if !found {
		return 0, errors.New("no metric reports the memory held by the broker")
	}
	return int64(sum), nil
}

// kept is what may remain after an attack: a few connections, and the ends of logs.
const kept = 8 << 20

// givenBack waits until the broker holds about as much as before.
func (v *victim) givenBack(ctx context.Context, before int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var now int64
	err := nodes.Await(ctx, func() (err error) {
		if now, err = v.held(ctx); err == nil && now > before+kept {
			err = fmt.Errorf("%d MiB are in use", now>>20)
		}
		return err
	})
	return now, err
}

// resident returns the size of the broker in memory, in bytes, without the program's
// own file, which its limit does not count.
func (v *victim) resident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.node.Pid()))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib << 10
}

// watch measures the broker until the function that it returns is called, which returns
// its largest size.
func (v *victim) watch() func() int64 {
	var most atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			most.Store(max(most.Load(), v.resident()))
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-stopped
		return most.Load()
	}
}

// freed checks that all memory is returned to the system on request.
func (v *victim) freed(ctx context.Context, memory int64) error {
	if _, err := v.node.Fetch(ctx, http.MethodPost, "/debug/freememory", nil); err != nil {
		return err
	}
	now := v.resident()
	fmt.Printf("at the end %d MiB\n", now>>20)
	if now > memory/2 {
		return fmt.Errorf("%d MiB are not released at the end", now>>20)
	}
	return nil
}
