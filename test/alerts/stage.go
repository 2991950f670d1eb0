package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/pkg/client"
	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
)

// Time limits.
const (
	startTimeout = time.Minute
	fireTimeout  = 90 * time.Second
	quietFor     = 20 * time.Second // longer than the windows of the rules
	askTimeout   = 5 * time.Second
)

// smallDisk is the size of the disk of n1, where root may mount one.
const smallDisk = 192 << 20

// stage is the cluster and the Prometheus that watches it.
type stage struct {
	o     options
	dir   string
	began time.Time

	c          *nodes.Cluster
	mounted    bool // n1 has a disk of its own, which can be filled
	client     *client.Client
	prometheus *exec.Cmd
	address    string // of Prometheus
	stopLoad   context.CancelFunc
	// loadContext ends with the stage.
	loadContext context.Context //nolint:containedctx // of what runs beside the scenes

	mu   sync.Mutex           // guards what follows
	seen map[string]time.Time // when an alert was last seen to fire
	bad  error                // what Prometheus answered wrongly
}

func (st *stage) note(format string, args ...any) {
	if st.o.verbose {
		fmt.Printf("  %5.1fs "+format+"\n", append([]any{time.Since(st.began).Seconds()}, args...)...)
	}
}

// start starts the nodes, a load that keeps them busy, and Prometheus.
func (st *stage) start(ctx context.Context) {
	at := steps.Need(new(nodes.Ports).Free(4))
	disk := filepath.Join(st.dir, "n1")
	steps.Must(os.Mkdir(disk, 0o750))
	st.mounted = syscall.Mount("none", disk, "tmpfs", 0, fmt.Sprintf("size=%d", smallDisk)) == nil
	st.certificate()
	st.c = steps.Need(nodes.New(nodes.Options{
		Program: st.o.broker, Dir: st.dir, Nodes: at[:3],
		Args: []string{"--tls-cert", st.file("node.pem"), "--tls-key", st.file("node.key")},
	}))
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	steps.Must(st.c.Start(limited))
	st.load(ctx)
	st.watch(limited, at[3].HTTP)
}

func (st *stage) file(name string) string { return filepath.Join(st.dir, name) }

// certificate writes a certificate that ends within the hour.
func (st *stage) certificate() {
	a := steps.Need(nodes.NewAuthority())
	at := nodes.Identity(st.file("identity"))
	steps.Must(errors.Join(os.MkdirAll(string(at), 0o750), a.Issue(at, "127.0.0.1", a)))
	for from, to := range map[string]string{"cert.pem": "node.pem", "key.pem": "node.key"} {
		steps.Must(os.WriteFile(st.file(to), steps.Need(os.ReadFile(at.File(from))), 0o600))
	}
}

// load publishes to a topic, and consumes it, until the stage ends.
func (st *stage) load(ctx context.Context) {
	st.ctl(ctx, "topic", "create", "work", "--partitions", "3", "--replicas", "3")
	var tcp []string
	for _, n := range st.c.Nodes {
		tcp = append(tcp, n.TCP)
	}
	st.client = steps.Need(client.New(tcp))
	x := steps.Need(st.client.Subscribe("work", "done"))
	ctx, st.stopLoad = context.WithCancel(ctx)
	st.loadContext = ctx
	go func() {
		for m := range x.Messages(ctx) {
			_ = m.Finish() // requests that a dying node misses are repeated
		}
	}()
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = st.client.PublishAsync(ctx, "work", []byte("work"), func(error) {}) // while nodes are down some fail
			}
		}
	}()
}

// watch starts Prometheus with the configuration that brokerctl prints, and waits until it has scraped all nodes.
func (st *stage) watch(ctx context.Context, address string) {
	config := steps.Need(st.asked(ctx, "generate", "prometheus-config"))
	fast := strings.ReplaceAll(config, "interval: 15s", "interval: 1s")
	if fast == config {
		steps.Fail("the configuration has no interval of 15 seconds:\n%s", config)
	}
	steps.Must(os.WriteFile(st.file("prometheus.yml"), []byte(fast), 0o600))
	log := steps.Need(os.Create(st.file("prometheus.log")))
	defer log.Close() // the process has its own
	st.address = "http://" + address
	st.prometheus = exec.Command(st.o.prometheus, "--config.file", st.file("prometheus.yml"),
		"--storage.tsdb.path", st.file("series"), "--web.listen-address", address)
	st.prometheus.Stdout, st.prometheus.Stderr = log, log
	st.prometheus.SysProcAttr = nodes.Child()
	steps.Must(st.prometheus.Start())
	go st.look(st.loadContext)
	steps.Must(nodes.Await(ctx, func() error {
		var up struct {
			Result []struct{ Value [2]any }
		}
		if err := st.query(ctx, "/api/v1/query?query=up==1", &up); err != nil {
			return err
		}
		if len(up.Result) != len(st.c.Nodes) {
			return fmt.Errorf("%d nodes are scraped by Prometheus", len(up.Result))
		}
		return nil
	}))
}

// query asks Prometheus for the data of an answer.
func (st *stage) query(ctx context.Context, path string, data any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, st.address+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct{ Data any }{data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("%s from Prometheus", resp.Status), err)
	}
	return nil
}

// look records which alerts fire, until ctx ends.
func (st *stage) look(ctx context.Context) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		names, err := st.firing(ctx)
		st.mu.Lock()
		if st.seen == nil {
			st.seen = map[string]time.Time{}
		}
		for _, name := range names {
			st.seen[name] = time.Now()
		}
		if _, said := errors.AsType[badText](err); said {
			st.bad = err
		}
		st.mu.Unlock()
	}
}

// fired returns the alerts that fired since then, and what is wrong with their texts.
func (st *stage) fired(since time.Time) (names []string, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for name, at := range st.seen {
		if at.After(since) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, st.bad
}

// badText is an alert whose text its template could not make.
type badText struct{ error }

// alert is one that Prometheus has found.
type alert struct {
	Labels      map[string]string
	Annotations map[string]string
	State       string
}

// firing returns the names of the alerts that fire. A text that its template could not make is an error.
func (st *stage) firing(ctx context.Context) (names []string, err error) {
	var found struct{ Alerts []alert }
	if err := st.query(ctx, "/api/v1/alerts", &found); err != nil {
		return nil, err
	}
	for _, a := range found.Alerts {
		if a.State != "firing" {
			continue
		}
		summary := a.Annotations["summary"]
		if summary == "" || strings.Contains(summary, "error expanding") || strings.Contains(summary, "<no value>") {
			return nil, badText{fmt.Errorf("%s says %q", a.Labels["alertname"], summary)}
		}
		if name := a.Labels["alertname"]; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// ctl is a step: it runs brokerctl.
func (st *stage) ctl(ctx context.Context, args ...string) { steps.Need(st.asked(ctx, args...)) }

// asked runs brokerctl and returns its output.
func (st *stage) asked(ctx context.Context, args ...string) (string, error) {
	var all []string
	for _, n := range st.c.Nodes {
		if n.Running() {
			all = append(all, "--addr", "http://"+n.HTTP)
		}
	}
	cmd := exec.CommandContext(ctx, st.o.ctl, append(all, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	st.note("brokerctl %s", strings.Join(args, " "))
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("brokerctl %s: %w: %s", strings.Join(args, " "), err, errs.Bytes())
	}
	return out.String(), nil
}

// again starts nodes and waits until all are ready and the topics are whole.
func (st *stage) again(ctx context.Context, these ...*nodes.Node) {
	for _, n := range these {
		steps.Must(n.Start())
	}
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, n := range st.c.Nodes {
		steps.Must(n.Ready(limited))
	}
	steps.Must(st.whole(ctx))
}

// whole waits until all replicas of the load's topic are in sync.
func (st *stage) whole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return nodes.Await(ctx, func() error {
		t, err := st.c.Topic(ctx, "work")
		if err != nil {
			return err
		}
		return t.Whole()
	})
}

// end stops all that runs.
func (st *stage) end() {
	if st.stopLoad != nil {
		st.stopLoad()
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		_ = st.client.Close(ctx) // what it has in flight is of no interest
		cancel()
	}
	if st.prometheus != nil && st.prometheus.Process != nil {
		_ = st.prometheus.Process.Kill() // it may have ended
		_ = st.prometheus.Wait()
	}
	if st.c != nil {
		st.c.Kill()
	}
	if st.mounted {
		_ = syscall.Unmount(st.file("n1"), 0) // nothing runs there
	}
}
