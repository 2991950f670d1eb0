package blackbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A channel is emptied by mistake and restored, and a message that no consumer can handle is
// finished. After a kill, all of that is still known, with who did it.
func TestOnCallChangesSurviveAKill(t *testing.T) {
	t.Parallel()
	n := startNodeOn(t, filepath.Join(t.TempDir(), "data"))
	fill(n, "t", 2000)
	n.post("/channel/create?topic=t&channel=c", "")
	lag := func() string {
		t.Helper()
		return strings.TrimSpace(n.ctl(0, "channel", "lag", "t/c", "-o", "go-template={{range .channels}}{{.depth}} {{.in_flight}}{{end}}"))
	}
	n.ctl(2, "channel", "seek", "t/c", "--to", "end") // it skips more than 1,000 messages, without confirmation
	n.ctl(0, "channel", "empty", "t/c", "--yes", "--reason", "wrong channel")
	if got := lag(); got != "0 0" {
		t.Fatalf("emptied: %s", got)
	}
	n.kill()
	n.start()
	n.ctl(0, "channel", "undo", "t/c")
	n.ctl(3, "channel", "undo", "t/c")
	w := n.consumer("t", "c", 1, "{}")
	m := w.message()
	if got := lag(); got != "1999 1" {
		t.Errorf("brought back, with one at a consumer: %s", got)
	}
	if out := n.ctl(0, "message", "finish", m.id, "--topic", "t", "--channel", "c"); !strings.Contains(out, "in_flight") {
		t.Errorf("finish says %q", out)
	}
	n.kill()
	n.start()
	if got := lag(); got != "1999 0" {
		t.Errorf("after a kill: %s", got)
	}
	if out := n.ctl(0, "audit", "log", "--object", "t"); !strings.Contains(out, "/empty") || !strings.Contains(out, "wrong channel") || !strings.Contains(out, "/finish") {
		t.Errorf("audit log:\n%s", out)
	}
	events := n.ctl(0, "events", "-o", "ndjson")
	for _, kind := range []string{"cluster_formed", "topic_created", "channel_created", "node_started"} {
		if !strings.Contains(events, `"kind":"`+kind+`"`) {
			t.Errorf("no %s in\n%s", kind, events)
		}
	}
}

// A node continues when its log is no longer read.
func TestNodeSurvivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	if err := n.stderr.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		n.post(fmt.Sprint("/topic/create?topic=t", i), "") // it logs
		n.post(fmt.Sprint("/pub?topic=t", i), "x")
	}
	n.stop()
}

// A node whose data directory is moved away would acknowledge what its next start does not find.
func TestNodeStopsWithoutItsDataDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	n := startNodeOn(t, dir)
	n.post("/pub?topic=t", "x")
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if code := n.wait(); code != 74 {
		t.Errorf("exit code %d", code)
	}
	if log := n.logged(); !strings.Contains(log, "was moved or removed") {
		t.Errorf("its log:\n%s", log)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("it made another directory")
	}
	if err := os.Rename(dir+".old", dir); err != nil {
		t.Fatal(err)
	}
	n.start()
	if m := n.consumer("t", "c", 1, "{}").message(); m.body != "x" {
		t.Errorf("%q", m.body)
	}
	n.stop()
}
