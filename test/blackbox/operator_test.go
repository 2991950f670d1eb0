package blackbox

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// segments returns the paths of a topic's segments, in order.
func segments(t *testing.T, data, topic string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(data, "topics", topic+".*", "0", "*.log"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	return found
}

// fill publishes numbered messages of a kilobyte.
func fill(n *node, topic string, count int) {
	n.t.Helper()
	w := n.dial()
	for i := 0; i < count; i += 500 {
		var bodies []string
		for j := i; j < min(i+500, count); j++ {
			bodies = append(bodies, fmt.Sprintf("%06d%s", j, strings.Repeat("x", 1000)))
		}
		w.send(mpub(topic, bodies...))
		w.ok()
	}
}

// A segment is damaged in the middle, with intact data after it: only the damaged range is lost.
// The rest is served, and the node reports the damage.
func TestDamageIsSkipped(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	n := startNodeOn(t, data, "--segment-size", "1MiB")
	const count = 5000
	fill(n, "t", count)
	n.post("/channel/create?topic=t&channel=c", "")
	n.stop()
	all := segments(t, data, "t")
	if len(all) < 4 {
		t.Fatalf("%d segments", len(all))
	}
	path := all[1]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 16 {
		b[len(b)/2+i] ^= 0xff
	}
	if err := os.WriteFile(path, b, 0o640); err != nil {
		t.Fatal(err)
	}
	n.start()
	w := n.consumer("t", "c", 2500, "{}")
	seen := map[string]bool{}
	for {
		m, ok := w.messageWithin(2 * time.Second)
		if !ok {
			break
		}
		seen[m.body[:6]] = true
		w.fin(m)
	}
	if len(seen) == count || len(seen) < count-1100 || !seen[fmt.Sprintf("%06d", count-1)] || !seen["000000"] {
		t.Errorf("%d of %d messages served", len(seen), count)
	}
	if health := n.get("/v1/cluster/health"); !strings.Contains(health, `"degraded":true`) {
		t.Errorf("health: %s", health)
	}
	if m := n.get("/metrics"); !strings.Contains(m, "corrupt") {
		t.Errorf("metrics say nothing of it")
	}
	n.post("/pub?topic=t", "on it goes")
	if m := w.message(); m.body != "on it goes" {
		t.Errorf("%+v", m)
	}
	if code, _, _ := run(t, "brokerctl", "--addr", "http://"+n.address("HTTP"), "cluster", "health"); code != 11 {
		t.Errorf("cluster health: exit code %d, want 11", code)
	}
}

// An incomplete append at the end of a log is truncated after a crash, and what precedes it is
// kept. Acknowledged data that is missing at the end is no torn tail: its loss is reported.
func TestTornTailIsDistinguishedFromLostOne(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	n := startNodeOn(t, data)
	fill(n, "t", 1000)
	n.kill()
	path := segments(t, data, "t")[0]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := bytes.LastIndexByte(b, 'x') + 1
	behind := func(b, tail []byte) []byte {
		at := (end + 7) &^ 7 // batches are aligned
		return append(b[:at:at], tail...)
	}
	for _, damage := range []struct {
		name string
		do   func([]byte) []byte
		lost bool
	}{
		{"half a batch behind the last", func(b []byte) []byte { return behind(b, b[64:264]) }, false},
		{"garbage behind the last batch", func(b []byte) []byte { return behind(b, bytes.Repeat([]byte("garbage"), 50)) }, false},
		{"zeros", func(b []byte) []byte { clear(b[end-100 : end]); return b }, true},
		{"short", func(b []byte) []byte { return b[:end-100] }, true},
		{"garbage", func(b []byte) []byte {
			for i := end - 100; i < end; i++ {
				b[i] = byte(i * 7)
			}
			return b
		}, true},
	} {
		t.Run(damage.name, func(t *testing.T) {
			if err := os.WriteFile(path, damage.do(bytes.Clone(b)), 0o640); err != nil {
				t.Fatal(err)
			}
			code, _, _ := run(t, "brokerd", "log", "verify", filepath.Dir(path))
			if want := map[bool]int{false: 0, true: 1}[damage.lost]; code != want {
				t.Errorf("log verify: exit code %d, want %d", code, want)
			}
			n.start()
			if s, _ := n.topic("t"); s.Depth != 1000 {
				t.Errorf("%+v, want 1000 messages", s)
			}
			health := n.get("/v1/cluster/health")
			if healthy := strings.Contains(health, `"healthy":true`); healthy == damage.lost {
				t.Errorf("health: %s", health)
			}
			if told := strings.Contains(health, `"log_corrupt"`); told != damage.lost {
				t.Errorf("health: %s", health)
			}
			n.kill()
		})
	}
}

func TestOneProcessPerDirectory(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	n := startNodeOn(t, data)
	code, _, stderr := run(t, "brokerd", "--data-dir", data, "--tcp-address", "127.0.0.1:0", "--http-address", "",
		"--lookup-address", "", "--cluster-address", "127.0.0.1:0")
	if code != 75 || !strings.Contains(stderr, fmt.Sprint(n.cmd.Process.Pid)) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	n.alive()
}

func (n *node) alive() {
	n.t.Helper()
	n.post("/pub?topic=alive", "x")
}

func TestInvalidCommandLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "c.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	for _, tt := range []struct {
		name, config string
		args         []string
		code         int
		says         string
	}{
		{"unknown flag", "", []string{"--data-dirr", data}, 64, "data-dirr"},
		{"surplus word", "", []string{"serve", "now"}, 64, "now"},
		{"unknown key", "max_msg_sise = 1\n", []string{"--config", file}, 78, "max_msg_sise"},
		{"wrong type", "max_rdy_count = \"many\"\n", []string{"--config", file}, 78, "max_rdy_count"},
		{"no TOML", "= =\n", []string{"--config", file}, 78, "c.toml:1:"},
		{"no file", "", []string{"--config", filepath.Join(dir, "none")}, 78, "none"},
		{"bad name", "", []string{"--node-id", "a b"}, 64, "node-id"},
		{"bad address", "", []string{"--data-dir", data, "--tcp-address", "nonsense"}, 64, "tcp-address"},
		{"certificate without key", "", []string{"--data-dir", data, "--tls-cert", file}, 64, "tls-key"},
		{"config check", "max_msg_sise = 1\n", []string{"config", "check", file}, 78, "1:1"},
		{"config check without the file", "", []string{"config", "check", filepath.Join(dir, "none")}, 78, "none"},
		{"config check good", "max_msg_size = \"2MiB\"\n", []string{"config", "check", file}, 0, ""},
		{"address in use", "", []string{"--data-dir", data, "--tcp-address", occupied(t)}, 75, "address already in use"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(tt.config)
			code, _, stderr := run(t, "brokerd", tt.args...)
			if code != tt.code || !strings.Contains(stderr, tt.says) {
				t.Errorf("exit code %d, want %d; said %q", code, tt.code, stderr)
			}
		})
	}
}

// A file is checked with the environment in which it will be used.
func TestConfigCheckUsesEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(file, []byte("zone = \"a\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROKERD_SYNC", "interval")
	code, stdout, stderr := run(t, "brokerd", "config", "check", file)
	if code != 0 || !strings.Contains(stdout, ": ok, with BROKERD_SYNC of the environment") {
		t.Errorf("exit code %d; said %q, %q", code, stdout, stderr)
	}
	t.Setenv("BROKERD_SYNC", "sometimes")
	if code, _, stderr = run(t, "brokerd", "config", "check", file); code != 78 || !strings.Contains(stderr, "environment BROKERD_SYNC") {
		t.Errorf("exit code %d; said %q", code, stderr)
	}
}

func occupied(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// Limits that nsqd accepts are accepted. A node refuses the data of another one.
func TestUnusualCommandLines(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	n := startNodeOn(t, data, "--max-msg-size", "8MiB")
	n.post("/pub?topic=t", strings.Repeat("x", 8<<20))
	w := n.dial()
	w.send(pub("t", strings.Repeat("y", 8<<20)))
	w.ok()
	c := n.consumer("t", "c", 2, "{}")
	for range 2 {
		if m := c.message(); len(m.body) != 8<<20 {
			t.Errorf("%d bytes", len(m.body))
		}
	}
	n.stop()
	code, _, stderr := run(t, "brokerd", "--data-dir", data, "--node-id", "n2", "--tcp-address", "127.0.0.1:0",
		"--http-address", "", "--lookup-address", "", "--cluster-address", "127.0.0.1:0")
	if code != 78 || !strings.Contains(stderr, `"n1"`) {
		t.Errorf("as another node: exit code %d: %s", code, stderr)
	}
}

// A reload of an invalid file changes nothing; a valid one is applied.
func TestReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("max_msg_size = \"1KiB\"\n")
	n := startNode(t, "--config", file)
	n.want(413, "POST", "/pub?topic=t", strings.Repeat("x", 1025))
	reload := func(says string) {
		t.Helper()
		before := strings.Count(n.logged(), says)
		if err := n.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, says, func() bool { return strings.Count(n.logged(), says) > before })
	}
	write("nonsense = 1\n")
	reload("nonsense")
	n.alive()
	n.want(413, "POST", "/pub?topic=t", strings.Repeat("x", 1025))
}

func TestSystemdIsNotified(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := l.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	n := newNode(t, "brokerd", "--data-dir", data, "--tcp-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0",
		"--lookup-address", "", "--cluster-address", "127.0.0.1:0", "--log-format", "json")
	n.env = []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=400000"}
	n.start()
	expect := func(what string) {
		t.Helper()
		b := make([]byte, 4096)
		for {
			k, err := l.Read(b)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if strings.Contains(string(b[:k]), what) {
				return
			}
		}
	}
	expect("READY=1")
	expect("WATCHDOG=1")
	expect("WATCHDOG=1")
	if err := n.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	expect("RELOADING=1")
	expect("READY=1")
	n.stop()
	expect("STOPPING=1")
}
