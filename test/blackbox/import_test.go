package blackbox

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// queueRecord returns one message as stored in a disk queue of nsqd: size, timestamp, attempts, id,
// body.
func queueRecord(body string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(26+len(body)))
	b = binary.BigEndian.AppendUint64(b, 1700000000000000000)
	b = binary.BigEndian.AppendUint16(b, 1)
	return string(b) + "0123456789abcdef" + body
}

// queueFiles writes a disk queue of nsqd in files of the given number of messages.
func queueFiles(t *testing.T, dir, name string, perFile int, bodies ...string) {
	t.Helper()
	file, at := 0, 0
	var content strings.Builder
	flush := func() {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s.diskqueue.%06d.dat", name, file)), []byte(content.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, body := range bodies {
		if i > 0 && i%perFile == 0 {
			flush()
			content.Reset()
			file++
		}
		content.WriteString(queueRecord(body))
		at = content.Len()
	}
	flush()
	meta := fmt.Sprintf("%d\n0,0\n%d,%d\n", len(bodies), file, at)
	if err := os.WriteFile(filepath.Join(dir, name+".diskqueue.meta.dat"), []byte(meta), 0o600); err != nil {
		t.Fatal(err)
	}
}

func numbered(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return all
}

// nsqdData creates a data path of nsqd: a topic with two channels with different backlogs, one of
// them paused, and messages that have reached no channel yet; and a paused topic.
func nsqdData(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	const metadata = `{"topics":[{"name":"t","paused":false,"channels":[{"name":"a","paused":false},{"name":"b","paused":true}]},` +
		`{"name":"held","paused":true,"channels":[{"name":"c","paused":false}]}],"version":"1.3.0"}`
	if err := os.WriteFile(filepath.Join(dir, "nsqd.dat"), []byte(metadata), 0o600); err != nil {
		t.Fatal(err)
	}
	queueFiles(t, dir, "t", 7, numbered("topic", n)...)
	queueFiles(t, dir, "t:a", 3, numbered("a", n)...)
	queueFiles(t, dir, "t:b", 100, numbered("b", 2*n)...)
	queueFiles(t, dir, "held", 100, numbered("held", n)...)
	queueFiles(t, dir, "held:c", 100, numbered("c", n)...)
	return dir
}

// standIn starts brokerd in place of an nsqd.
func standIn(t *testing.T, dir string, args ...string) *node {
	t.Helper()
	n := newNode(t, "nsqd", append([]string{"--data-path=" + dir, "--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0", "--broadcast-address=127.0.0.1"}, args...)...)
	n.serveAsNsqd()
	return n
}

func (n *node) serveAsNsqd() {
	n.t.Helper()
	n.launch()
	at := listening(n)
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.Copy(n.addresses, at)
}

// imported checks the messages that wait after an import of nsqdData(n).
func (n *node) imported(count int64) {
	n.t.Helper()
	for _, want := range []struct {
		topic, channel string
		depth          int64
		paused         bool
	}{{"t", "a", 2 * count, false}, {"t", "b", 3 * count, true}, {"held", "c", count, false}} {
		if got := n.channel(want.topic, want.channel); got.Depth != want.depth || got.Paused != want.paused {
			n.t.Errorf("%s/%s: %+v, want %d messages, paused %v", want.topic, want.channel, got, want.depth, want.paused)
		}
	}
	if held, _ := n.topic("held"); !held.Paused || held.Depth != count {
		n.t.Errorf("held: %+v", held)
	}
}

// TestReplacesNsqd: an nsqd's data is imported once, each message for the channels in which it
// waited. nsqd's files are kept, and the node can become one of several.
func TestReplacesNsqd(t *testing.T) {
	t.Parallel()
	const count = 25
	dir := nsqdData(t, count)
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := standIn(t, dir)
	n.imported(count)
	w := n.consumer("t", "a", 2*count, "{}")
	for _, want := range append(numbered("a", count), numbered("topic", count)...) {
		m := w.message()
		if m.body != want {
			t.Errorf("channel a: got %q, want %q", m.body, want)
		}
		w.fin(m)
	}
	eventually(t, "channel a is empty", func() bool {
		c := n.channel("t", "a")
		return c.Depth == 0 && c.InFlight == 0
	})
	n.post("/topic/unpause?topic=held", "")
	eventually(t, "the channel has what the pause held back", func() bool { return n.channel("held", "c").Depth == 2*count })
	if code := n.signal(syscall.SIGTERM); code != 0 {
		t.Fatalf("ended with %d", code)
	}
	for _, e := range before {
		if _, err := os.Stat(filepath.Join(dir, e.Name())); err != nil {
			t.Error(err)
		}
	}
	// Start again, now as the first node of a cluster: nothing is imported twice.
	n = standIn(t, dir, "--cluster-address=127.0.0.1:0")
	if got := n.logged(); !strings.Contains(got, "already imported") || !strings.Contains(got, "CLUSTER: listening on") {
		t.Errorf("log: %s", got)
	}
	if a, b := n.channel("t", "a"), n.channel("t", "b"); a.Depth != 0 || b.Depth != 3*count {
		t.Errorf("after a restart: %+v %+v", a, b)
	}
	_, cluster, _ := strings.Cut(n.logged(), "CLUSTER: listening on ")
	cluster, _, _ = strings.Cut(cluster, "\n")
	second := startNode(t, "--node-id", "n2", "--join", cluster)
	second.post("/pub?topic=t", "from the second")
	eventually(t, "what a member publishes comes to the channel", func() bool { return n.channel("t", "a").Depth == 1 })
	if got := second.get("/v1/nodes"); !strings.Contains(got, `"n2"`) || !strings.Contains(got, `"nsqd"`) {
		t.Errorf("nodes: %s", got)
	}
}

// TestKilledImport restarts a killed import: no message is lost or duplicated.
func TestKilledImport(t *testing.T) {
	t.Parallel()
	const count = 3000
	dir := nsqdData(t, count)
	for _, line := range []string{"importing nsqd data", "nsqd channel imported", "nsqd topic imported", "ready node="} {
		n := newNode(t, "nsqd", "--data-path="+dir, "--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0")
		n.launch()
		eventually(t, line, func() bool { // or the previous kill came too late
			return strings.Contains(n.logged(), line) || strings.Contains(n.logged(), "already imported")
		})
		n.kill()
	}
	standIn(t, dir).imported(count)
}

// TestUnimportableNsqdFiles: the node does not start, and nothing is stored.
func TestUnimportableNsqdFiles(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(dir string) (says string){
		"a damaged file": func(dir string) string {
			if err := os.WriteFile(filepath.Join(dir, "t:a.diskqueue.000002.dat"), []byte("damaged as can be"), 0o600); err != nil {
				t.Error(err)
			}
			return "corrupt"
		},
		"a queue of no channel": func(dir string) string {
			queueFiles(t, dir, "t:unknown", 10, "x")
			return "does not name its topic or channel"
		},
		"a join": func(string) string { return "start once without --join" },
	} {
		dir := nsqdData(t, 10)
		says := harm(dir)
		args := []string{"--data-path=" + dir, "--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0"}
		if name == "a join" {
			args = append(args, "--cluster-address=127.0.0.1:0", "--join=127.0.0.1:1")
		}
		if code, _, stderr := run(t, "nsqd", args...); code == 0 || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, "brokerd-data")); err == nil {
			t.Errorf("%s: there is data", name)
		}
	}
	dir := nsqdData(t, 10)
	n := standIn(t, dir)
	if code := n.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("ended with %d", code)
	}
	queueFiles(t, dir, "t:a", 3, "written", "by", "an", "nsqd", "meanwhile")
	if code, _, stderr := run(t, "nsqd", n.args...); code == 0 || !strings.Contains(stderr, "nsqd has written to") {
		t.Errorf("files that changed: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := run(t, "brokerd", "--data-dir", dir, "--tcp-address=127.0.0.1:0"); code != 78 || !strings.Contains(stderr, "is the data path of an nsqd") {
		t.Errorf("brokerd itself: exit code %d, %s", code, stderr)
	}
}
