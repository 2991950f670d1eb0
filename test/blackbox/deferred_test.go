package blackbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// After a kill, cancelled messages do not reappear and advanced ones are not deferred again. An
// export is imported once, however often the command runs; for a damaged file the error names the
// position of the damage.
func TestDeferredMessagesAndExportsOnTheBuiltBinary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNodeOn(t, filepath.Join(dir, "data"))
	n.ctl(0, "topic", "create", "t")
	n.ctl(0, "channel", "create", "t/c")
	n.ctl(0, "channel", "create", "t/other")
	for i := range 6 {
		n.ctl(0, "message", "pub", "t", "--delay", fmt.Sprintf("%dm", 10+i), fmt.Sprintf("m%d", i))
	}
	list := func(channel string, args ...string) string {
		t.Helper()
		out := n.ctl(0, append([]string{"message", "deferred", "t/" + channel, "-o", "go-template={{range .messages}}{{.seq}} {{end}}"}, args...)...)
		return strings.TrimSpace(out)
	}
	if got := list("c", "--until", "14m30s"); got != "0 1 2 3 4" {
		t.Fatalf("deferred: %s", got)
	}
	n.ctl(2, "message", "cancel", "t/c", "--all") // without confirmation
	n.ctl(0, "message", "cancel", "0/0", "0/3", "--topic", "t", "--channel", "c", "--reason", "sent twice")
	n.ctl(3, "message", "cancel", "0/0", "--topic", "t", "--channel", "c")
	n.ctl(0, "message", "advance", "t/c", "--until", "12m30s", "--yes")
	n.kill()
	n.start()
	if got := list("c"); got != "4 5" {
		t.Errorf("after a kill: %s", got)
	}
	if got := list("other"); got != "0 1 2 3 4 5" {
		t.Errorf("the other channel: %s", got)
	}
	w := n.consumer("t", "c", 5, "{}")
	a, b := w.message(), w.message()
	if a.body+b.body != "m1m2" {
		t.Errorf("advanced: %s, %s", a.body, b.body)
	}
	if out := n.ctl(0, "audit", "log", "--object", "t"); !strings.Contains(out, "/deferred/cancel") || !strings.Contains(out, "sent twice") {
		t.Errorf("audit log:\n%s", out)
	}

	w.req(a, 10*time.Minute) // its copy, for this channel alone, is not exported
	eventually(t, "the message has a copy", func() bool { return list("c") == "6 4 5" })

	file, bad := filepath.Join(dir, "t.ndjson"), filepath.Join(dir, "bad.ndjson")
	n.ctl(0, "message", "pub", "t", "--key", "k", "now")
	n.ctl(0, "message", "export", "t", "-f", file)
	n.ctl(2, "message", "export", "t", "-f", file) // it exists already
	n.ctl(0, "topic", "create", "copy")
	n.ctl(0, "channel", "create", "copy/c")
	for range 2 {
		if out := n.ctl(0, "message", "import", "copy", "-f", file, "--once"); !strings.Contains(out, "7 messages published") {
			t.Error(out)
		}
	}
	if c := n.channel("copy", "c"); c.Depth != 1 || c.Deferred != 6 {
		t.Errorf("imported twice: %+v", c)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad, raw[:len(raw)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	if out := n.ctl(7, "message", "import", "copy", "-f", bad); !strings.Contains(out, "up to line 6, then: line 7") || !strings.Contains(out, "--from-line 7") {
		t.Error(out)
	}
	if out := n.ctl(0, "message", "import", "copy", "-f", file, "--from-line", "7", "--dry-run"); !strings.Contains(out, "1 message would be published") {
		t.Error(out)
	}
	n.ctl(2, "message", "import", "copy", "-f", bad, "--dry-run")
}
