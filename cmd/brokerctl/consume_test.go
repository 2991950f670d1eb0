package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// withNSQ is a cluster of one whose only topic the fake NSQ broker serves.
func withNSQ(t *testing.T, nsq *fakeNSQ) *fakeBroker {
	t.Helper()
	b := newFakeBroker(t)
	b.set("GET /v1/topics/orders", api.Topic{Name: "orders", FirstID: "0000000000000000", Partitions: []api.Partition{{Leader: "n1"}}, Channels: []api.ChannelSummary{{Name: "c"}}})
	b.set("GET /v1/cluster", api.Cluster{Nodes: []api.Node{{ID: "n1", TCPAddress: nsq.address}, {ID: "n2", TCPAddress: "127.0.0.1:1"}}})
	b.set("GET /lookup", producersAt(t, nsq.address))
	return b
}

// producersAt returns a lookup's answer for a topic that one node leads.
func producersAt(t *testing.T, address string) any {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"channels": []string{}, "producers": []any{map[string]any{"broadcast_address": host, "tcp_port": n}}}
}

func TestTailingAChannelFinishesWhatItPrints(t *testing.T) {
	nsq := newFakeNSQ(t, "one", "two", "three", "four")
	r := withNSQ(t, nsq).brokerctl(t, "message", "tail", "orders/c", "-n", "3")
	if r.exit != exitOK || r.stdout != "one\ntwo\nthree\n" || r.stderr != "" {
		t.Errorf("exit %d, stdout %q, stderr %q", r.exit, r.stdout, r.stderr)
	}
	if _, finished, requeued := nsq.outcome(); finished != 3 || requeued != 0 {
		t.Errorf("finished %d, requeued %d, want 3 and none", finished, requeued)
	}
}

// A mistyped name creates a channel that keeps every message: the command reports that.
func TestTailOfMissingChannelIsReported(t *testing.T) {
	const notice = "channel orders/%s does not exist: it is created now, and keeps messages until it is deleted\n"
	for channel, want := range map[string]string{"invoce": fmt.Sprintf(notice, "invoce"), "x#ephemeral": ""} {
		if r := withNSQ(t, newFakeNSQ(t, "one")).brokerctl(t, "message", "tail", "orders/"+channel, "-n", "1"); r.exit != exitOK || r.stderr != want {
			t.Errorf("%s: exit %d, stderr %q, want %q", channel, r.exit, r.stderr, want)
		}
	}
	if r := withNSQ(t, newFakeNSQ(t, "one")).brokerctl(t, "-q", "message", "tail", "orders/invoce", "-n", "1"); r.exit != exitOK || r.stderr != "" {
		t.Errorf("quiet: exit %d, stderr %q", r.exit, r.stderr)
	}
}

func TestTailShowsMessageFields(t *testing.T) {
	nsq := newFakeNSQ(t, "one")
	b := withNSQ(t, nsq)
	if r := b.brokerctl(t, "message", "tail", "orders/c", "-n", "1", "-o", "wide"); r.stdout != "0/0  0000000000000000  2026-11-21T09:14:02.000Z  1  one\n" {
		t.Errorf("wide: %q, stderr %q", r.stdout, r.stderr)
	}
	second := withNSQ(t, newFakeNSQ(t, "one"))
	var m api.Peeked
	r := second.brokerctl(t, "message", "tail", "orders/c", "-n", "1", "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &m); err != nil || *m.Text != "one" || m.State != api.PeekInFlight {
		t.Errorf("json: %q, %v", r.stdout, err)
	}
}

// brokenPipe is a writer whose reader is gone.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestUnprintedMessagesAreRequeued(t *testing.T) {
	nsq := newFakeNSQ(t, "one")
	b := withNSQ(t, nsq)
	var stderr strings.Builder
	env := environment{getenv: addressOnly(b.URL), now: clock, stdin: strings.NewReader(""), stdout: brokenPipe{}, stderr: &stderr}
	if exit := run(t.Context(), []string{"message", "tail", "orders/c"}, env); exit != failure.ExitFailed || stderr.String() != "error: broken pipe\n" {
		t.Errorf("exit %d, stderr %q", exit, stderr.String())
	}
	if _, finished, requeued := nsq.outcome(); finished != 0 || requeued != 1 {
		t.Errorf("finished %d, requeued %d, want none and 1", finished, requeued)
	}
}

// interrupter cancels a context once something was printed.
type interrupter struct {
	strings.Builder
	interrupt func()
}

func (i *interrupter) Write(b []byte) (int, error) {
	i.interrupt()
	return i.Builder.Write(b)
}

func TestInterruptedTailFinishesWhatItPrinted(t *testing.T) {
	nsq := newFakeNSQ(t, "one")
	b := withNSQ(t, nsq)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout := &interrupter{interrupt: cancel}
	env := environment{getenv: addressOnly(b.URL), now: clock, stdin: strings.NewReader(""), stdout: stdout, stderr: stdout}
	if exit := run(ctx, []string{"message", "tail", "orders/c"}, env); exit != exitOK || stdout.String() != "one\n" {
		t.Errorf("exit %d, output %q", exit, stdout.String())
	}
	if _, finished, _ := nsq.outcome(); finished != 1 {
		t.Errorf("finished %d, want 1", finished)
	}
}

func TestConsumingFailsWithAReason(t *testing.T) {
	b := withNSQ(t, newFakeNSQ(t))
	tests := []struct {
		args   []string
		exit   int
		stderr string
	}{
		{[]string{"message", "tail", "order/c"}, failure.ExitNotFound, `topic "order" not found (did you mean "orders"?)`},
		{[]string{"message", "tail", "orders/c", "--tcp", "nowhere"}, failure.ExitUsage, `"nowhere" is not HOST:PORT`},
		{[]string{"message", "tail", "orders/c", "--tcp", "127.0.0.1:1"}, failure.ExitUnavailable, "no NSQ connection to 127.0.0.1:1"},
		{[]string{"message", "tail", "orders/c", "--tcp", strings.TrimPrefix(b.URL, "http://")}, failure.ExitUnavailable, "this is an HTTP address"},
		{[]string{"message", "tail", "orders/c", "--from", "start"}, failure.ExitUsage, "--from applies to topics only"},
		{[]string{"message", "tail", "orders", "--from", "x"}, failure.ExitUsage, `--from "x" is not a valid position`},
		{[]string{"bench", "pub", "orders", "--tcp", "127.0.0.1:1", "--timeout", "2s"}, failure.ExitUnavailable, "no broker is reachable"},
		{[]string{"bench", "pub", "orders", "--tcp", "nowhere"}, failure.ExitUsage, `"nowhere" is not HOST:PORT`},
		{[]string{"message", "tail", "orders/c", "--filter", "size > 1"}, failure.ExitUsage, "--filter applies to topics only; a channel has its own"},
		{[]string{"channel", "alter", "orders/c", "--on-expired", "block"}, failure.ExitUsage, `--on-expired "block": must be dead-letter, drop or default`},
		{[]string{"message", "tail", "orders/c", "--tag", "a b"}, failure.ExitUsage, `--tag is "a b", must be`},
		{[]string{"bench", "pub", "orders", "--size", "0"}, failure.ExitUsage, "--size must be at least 1"},
		{[]string{"bench", "e2e", "orders", "--size", "15"}, failure.ExitUsage, "--size must be at least 16"},
		{[]string{"bench", "sub", "orders", "--idle", "0s"}, failure.ExitUsage, "--idle, --consumers and --window must be above 0"},
		{[]string{"bench", "e2e", "orders", "--idle", "0s"}, failure.ExitUsage, "--idle must be above 0"},
		{[]string{"bench", "e2e", "orders", "--channel", ""}, failure.ExitUsage, "--channel must not be empty"},
		{[]string{"bench", "pub", "orders", "--size", "65MiB"}, failure.ExitUsage, "--size must be at most 64MiB"},
		{[]string{"bench", "pub", "orders", "--rate", "NaN"}, failure.ExitUsage, "--rate must not be below 0"},
		{[]string{"bench", "pub", "orders", "--rate", "Inf"}, failure.ExitUsage, "--rate must not be below 0"},
		{[]string{"bench", "pub", "orders", "--messages", "-5", "--duration", "1s"}, failure.ExitUsage, "--messages must not be below 0"},
		{[]string{"bench", "sub", "order"}, failure.ExitNotFound, `topic "order" not found`},
	}
	for _, tc := range tests {
		if r := b.brokerctl(t, tc.args...); r.exit != tc.exit || !strings.Contains(r.stderr, tc.stderr) {
			t.Errorf("%q: exit %d, stderr %q, want %d, %q", tc.args, r.exit, r.stderr, tc.exit, tc.stderr)
		}
	}
}

// report runs a bench and returns its report.
func report(t *testing.T, b *fakeBroker, args ...string) benchReport {
	t.Helper()
	r := b.brokerctl(t, append(args, "-o", "json")...)
	var got benchReport
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.exit != exitOK || r.stderr != "" {
		t.Fatalf("exit %d, stdout %q, stderr %q, %v", r.exit, r.stdout, r.stderr, err)
	}
	return got
}

func TestBenchPublishesRequestedLoad(t *testing.T) {
	nsq := newFakeNSQ(t)
	got := report(t, withNSQ(t, nsq), "bench", "pub", "orders", "--messages", "1001", "--batch", "10", "--producers", "3", "--size", "16")
	stored, _, _ := nsq.outcome()
	if stored != 1001 || got.Publish.Messages != 1001 || got.Publish.Bytes != 16*1001 || got.Publish.Failed != 0 || got.PubToAck == nil {
		t.Errorf("stored %d, report %+v", stored, got.Publish)
	}
}

func TestBenchKeepsItsRate(t *testing.T) {
	nsq := newFakeNSQ(t)
	start := time.Now()
	got := report(t, withNSQ(t, nsq), "bench", "pub", "orders", "--messages", "11", "--batch", "1", "--rate", "100")
	if took := time.Since(start); took < 100*time.Millisecond || got.Publish.Messages != 11 {
		t.Errorf("%d messages in %s, want 11 in 100 ms or more", got.Publish.Messages, took)
	}
}

func TestBenchReportsRefusals(t *testing.T) {
	for said, want := range map[string]struct {
		exit   int
		stderr string
	}{
		"E_PUB_FAILED PUB failed disk full":          {failure.ExitUnavailable, "outcome unknown: "}, // of nsqd, which does not report it
		"E_PUB_FAILED PUB failed, refused: it is so": {failure.ExitRefused, "refused: "},
		"E_BAD_TOPIC PUB topic name is not valid":    {failure.ExitUsage, "refused: "},
		"E_UNAUTHORIZED AUTH failed":                 {failure.ExitForbidden, "refused: "},
		"E_SOMETHING_NEW at the other end":           {failure.ExitFailed, "refused: "},
	} {
		nsq := newFakeNSQ(t)
		nsq.refuse = said
		r := withNSQ(t, nsq).brokerctl(t, "bench", "pub", "orders", "--messages", "10", "--batch", "1", "--timeout", "2s")
		if r.exit != want.exit || r.stderr != "error: publish message to orders: "+want.stderr+said+"\n" {
			t.Errorf("exit %d, stdout %q, stderr %q", r.exit, r.stdout, r.stderr)
		}
	}
}

func TestBenchConsumesRequestedLoad(t *testing.T) {
	nsq := newFakeNSQ(t, make([]string, 50)...)
	b := withNSQ(t, nsq)
	if got := report(t, b, "bench", "sub", "orders", "--messages", "20", "--window", "5"); got.Consume.Messages != 20 || got.Channel != "bench" {
		t.Errorf("report %+v", got.Consume)
	}
	if _, finished, _ := nsq.outcome(); finished != 20 {
		t.Errorf("finished %d, want 20", finished)
	}
	rest := newFakeNSQ(t, make([]string, 30)...)
	if got := report(t, withNSQ(t, rest), "bench", "sub", "orders", "--idle", "20ms", "--consumers", "2"); got.Consume.Messages != 30 {
		t.Errorf("until idle: %+v", got.Consume)
	}
}

func TestBenchMeasuresEndToEnd(t *testing.T) {
	nsq := newFakeNSQ(t, "an older message", strings.Repeat("another one", 10))
	got := report(t, withNSQ(t, nsq), "bench", "e2e", "orders", "--messages", "500", "--producers", "2", "--size", "16")
	if got.Publish.Messages != 500 || got.Consume.Messages != 500 || got.PubToDeliver == nil || got.PubToDeliver.Max <= 0 {
		t.Errorf("published %+v, consumed %+v, delays %+v", got.Publish, got.Consume, got.PubToDeliver)
	}
	if _, finished, _ := nsq.outcome(); finished != 502 {
		t.Errorf("finished %d, want 502", finished)
	}
	r := withNSQ(t, newFakeNSQ(t)).brokerctl(t, "bench", "e2e", "orders", "--messages", "10")
	for _, want := range []string{"published 10 in ", "consumed 10 in ", "LATENCY", "pub→ack", "pub→deliver"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("text %q lacks %q", r.stdout, want)
		}
	}
}
