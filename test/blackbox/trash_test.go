package blackbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A topic that an NSQ client deleted by mistake is restored completely after the node was killed. A
// purged topic is removed from disk.
func TestDeletedTopicIsRestored(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	n := startNodeOn(t, data)
	depth := func() string {
		t.Helper()
		return strings.TrimSpace(n.ctl(0, "channel", "lag", "t/c", "-o", "go-template={{range .channels}}{{.depth}} {{.in_flight}}{{end}}"))
	}
	fill(n, "t", 2000)
	n.post("/channel/create?topic=t&channel=c", "")
	w := n.consumer("t", "c", 1, "{}")
	w.fin(w.message())
	w.fin(w.message())
	w.Close()
	n.post("/topic/delete?topic=t", "")
	n.ctl(3, "topic", "describe", "t")
	n.kill()
	n.start()
	if out := n.ctl(0, "topic", "list", "--deleted", "-o", "name"); out != "t\n" {
		t.Fatalf("deleted topics: %q", out)
	}
	fill(n, "t", 10) // a client that continues to publish creates another topic
	if out := n.ctl(4, "topic", "restore", "t"); !strings.Contains(out, "name already in use") {
		t.Errorf("beside a namesake: %s", out)
	}
	namesake := strings.TrimSpace(n.ctl(0, "events", "-o", "ndjson"))
	if !strings.Contains(namesake, `"kind":"topic_deleted"`) {
		t.Errorf("events:\n%s", namesake)
	}
	n.ctl(0, "topic", "delete", "t", "--yes")
	n.ctl(3, "topic", "restore", "t", "--incarnation", "1")
	if out := n.ctl(0, "topic", "list", "--deleted", "-o", "name"); out != "t\nt\n" {
		t.Errorf("deleted topics: %q", out)
	}
	if out := n.ctl(4, "topic", "restore", "t"); !strings.Contains(out, "2 deleted topics are named t") {
		t.Errorf("restored one of two: %s", out)
	}
	first := incarnations(n)[1] // the most recently deleted is first
	n.ctl(0, "topic", "restore", "t", "--incarnation", first)
	if got := depth(); got != "1998 0" {
		t.Errorf("depth and in flight: %s", got)
	}
}

// With an incarnation, a purge applies to the current topic of the name, and not to the one deleted
// before.
func TestDeletedTopicSurvivesItsSuccessor(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	n := startNodeOn(t, data)
	fill(n, "t", 2000)
	n.post("/channel/create?topic=t&channel=c", "")
	n.ctl(0, "topic", "delete", "t", "--yes")
	first := incarnations(n)[0]
	fill(n, "t", 10)
	n.ctl(0, "topic", "delete", "t", "--yes")
	n.ctl(0, "topic", "restore", "t", "--incarnation", first)
	if got := strings.TrimSpace(n.ctl(0, "channel", "lag", "t/c", "-o", "go-template={{range .channels}}{{.depth}}{{end}}")); got != "2000" {
		t.Errorf("depth %s", got)
	}
	n.kill()
	n.start()
	w := n.consumer("t", "c", 10, "{}")
	for range 2000 {
		w.fin(w.message())
	}
	w.Close()
	n.ctl(0, "topic", "delete", "t", "--purge", "--yes", "--incarnation", first)
	n.ctl(3, "topic", "delete", "t", "--purge", "--yes") // a repetition does not affect the other one
	n.ctl(0, "topic", "delete", "t", "--purge", "--yes", "--incarnation", incarnations(n)[0])
	n.stop()
	left, err := os.ReadDir(filepath.Join(data, "topics"))
	if err != nil || len(left) > 0 {
		t.Errorf("left on the disk: %v, %v", left, err)
	}
}

// incarnations returns the incarnations of the deleted topics, most recently deleted first.
func incarnations(n *node) []string {
	n.t.Helper()
	return strings.Fields(n.ctl(0, "topic", "list", "--deleted", "-o", "go-template={{range .deleted}}{{.incarnation}} {{end}}"))
}

// A node is not removed with the only copy of a deleted topic, which does not move to other nodes, unless that is
// confirmed. Restored, it moves.
func TestTheOnlyCopyOfADeletedTopicStays(t *testing.T) {
	t.Parallel()
	n := threeMachines(t, nil)
	n.ctl("topic create orders --partitions 1 --replicas 1")
	n.ctl("channel create orders/invoice")
	n.ctl("message pub orders one two three")
	node := strings.TrimSpace(n.ctl("partition describe orders/0 -o 'go-template={{.leader}}'"))
	n.ctl("topic delete orders --yes")
	if out := n.ctl("node decommission " + node + " --wait --yes"); !strings.Contains(out, "Without it these are lost: orders") {
		t.Errorf("decommission: %s", out)
	}
	for _, flag := range []string{"--dry-run", "--yes"} {
		if out, err := n.shell("brokerctl node remove " + node + " " + flag); exitCode(err) != 4 || !strings.Contains(out, "orders") || !strings.Contains(out, "--lose-deleted") {
			t.Errorf("remove %s: %v %s", flag, err, out)
		}
	}
	n.ctl("node undrain " + node)
	n.ctl("topic restore orders")
	n.ctl("node decommission " + node + " --wait --yes")
	n.ctl("node remove " + node + " --yes")
	eventually(t, "the topic has moved", func() bool {
		out, err := n.shell("brokerctl channel lag orders/invoice -o 'go-template={{range .channels}}{{.depth}}{{end}}'")
		return err == nil && strings.TrimSpace(out) == "3"
	})
}
