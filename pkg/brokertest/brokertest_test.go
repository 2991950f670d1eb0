package brokertest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brokerd/brokerd/internal/logtest"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/brokertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func post(t *testing.T, url, body string) (status int, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func publish(t *testing.T, n *brokertest.Node, topic, body string) {
	t.Helper()
	if status, text := post(t, n.URL()+"/pub?topic="+topic, body); status != http.StatusOK {
		t.Fatalf("publish: %d %s", status, text)
	}
}

// describe returns a topic as a node sees it.
func describe(t *testing.T, n *brokertest.Node, topic string) api.Topic {
	t.Helper()
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(n.URL() + "/v1/topics/" + topic)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var d api.Topic
	if err := json.NewDecoder(res.Body).Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOneNodeKeepsWhatItAcknowledgedWhenItIsKilled(t *testing.T) {
	for name, with := range map[string][]brokertest.Option{
		"files": nil, "memory": {brokertest.InMemory()}, "directory": {brokertest.In(t.TempDir())},
	} {
		t.Run(name, func(t *testing.T) {
			b := brokertest.Start(t, with...)
			publish(t, b, "orders", "one")
			for _, end := range []func(){b.Kill, b.Stop, b.Kill} {
				end()
				if b.Running() {
					t.Error("runs after its end")
				}
				if c, err := net.Dial("tcp", b.Addr()); err == nil {
					c.Close()
					t.Error("accepts connections after its end")
				}
				b.Restart()
			}
			publish(t, b, "orders", "two")
			if d := describe(t, b, "orders"); d.Partitions[0].CommittedEnd != 2 {
				t.Errorf("%+v, want both messages", d.Partitions)
			}
		})
	}
}

// TestRestartWaitsForItsPorts: while a node does not run, the system may give its port to another test.
func TestRestartWaitsForItsPorts(t *testing.T) {
	b := brokertest.Start(t, brokertest.InMemory())
	b.Stop()
	other, err := net.Listen("tcp", b.Addr())
	if err != nil {
		t.Skip("another program has it already: ", err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = other.Close() })
	b.Restart()
	publish(t, b, "orders", "one")
}

func TestClusterContinuesWithoutLeader(t *testing.T) {
	c := brokertest.Cluster(t, 3, brokertest.InMemory())
	publish(t, c[0], "orders", "one")
	leader := c.Named(describe(t, c[0], "orders").Partitions[0].Leader)
	if leader == nil {
		t.Fatal("no leader")
	}
	other := c[0]
	if leader == other {
		other = c[1]
	}
	leader.Kill()
	publish(t, other, "orders", "two")
	leader.Restart()
	publish(t, leader, "orders", "three")
	if d := describe(t, other, "orders"); d.Partitions[0].CommittedEnd != 3 || len(d.Partitions[0].Replicas) != 3 {
		t.Errorf("%+v, want three messages on three replicas", d.Partitions)
	}
	if len(c.Addrs()) != 3 || c.Named("n4") != nil {
		t.Errorf("%v", c.Addrs())
	}
}

func TestPausedNodeIsSilentUntilResumed(t *testing.T) {
	b := brokertest.Start(t, brokertest.InMemory())
	conn, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b.Pause()
	if _, err := io.WriteString(conn, "  V2PUB t\n\x00\x00\x00\x01x"); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 10)
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(answer); err == nil || n > 0 {
		t.Errorf("a paused node answered %q, %v", answer[:n], err)
	}
	b.Resume()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer[8:]) != "OK" {
		t.Errorf("%q, %v, want OK", answer, err)
	}
	b.Pause()
	b.Stop() // a test may end so
}

func TestSettingsMatchCommandLine(t *testing.T) {
	b := brokertest.Start(t, brokertest.Set("max-msg-size", "4"))
	if status, text := post(t, b.URL()+"/pub?topic=t", "12345"); status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", status, text)
	}
}

// failing notes what fails a test instead of failing it.
type failing struct {
	testing.TB
	said bytes.Buffer
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	fmt.Fprintf(&f.said, format, args...)
	panic(f)
}

func TestMistakesFailTheTest(t *testing.T) {
	tests := map[string]func(t testing.TB){
		"a setting that there is not": func(t testing.TB) { brokertest.Start(t, brokertest.Set("no-such", "1")) },
		"no nodes":                    func(t testing.TB) { brokertest.Cluster(t, 0) },
		"restarted while it runs":     func(t testing.TB) { brokertest.Start(t).Restart() },
		"killed twice":                func(t testing.TB) { n := brokertest.Start(t); n.Kill(); n.Kill() },
		"paused when it is stopped":   func(t testing.TB) { n := brokertest.Start(t); n.Stop(); n.Pause() },
		"resumed when it is stopped":  func(t testing.TB) { n := brokertest.Start(t); n.Stop(); n.Resume() },
	}
	for name, mistake := range tests {
		t.Run(name, func(t *testing.T) {
			f := &failing{TB: t}
			defer func() {
				if r := recover(); r != f {
					t.Errorf("it passed: %v", r)
				}
				if !strings.Contains(f.said.String(), "brokertest: ") {
					t.Errorf("said %q", f.said.String())
				}
			}()
			mistake(f)
		})
	}
}

func TestNodesNameThemselvesInLogs(t *testing.T) {
	var out logtest.Journal
	log := slog.New(slog.NewTextHandler(&out, nil))
	dir := t.TempDir()
	brokertest.Start(t, brokertest.Log(log), brokertest.In(dir)).Stop()
	if !out.Has("node=n1") {
		t.Errorf("log: %s", out.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "n1")); err != nil {
		t.Error(err)
	}
}
