package blackbox

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestBackupGoesToAnotherCluster backs up a broker with the command line, kills it, and restores
// into a new one twice: restoring over an existing topic is refused, under another name it is not.
func TestBackupGoesToAnotherCluster(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "backups")
	n := startNodeOn(t, filepath.Join(t.TempDir(), "data"))
	fill(n, "t", 300)
	n.post("/channel/create?topic=t&channel=c", "")
	w := n.consumer("t", "c", 3, "{}")
	first := w.message()
	second, third := w.message(), w.message()
	w.fin(third) // the two previous ones stay in flight
	w.fin(second)
	w.Close()
	_ = first
	n.ctl(0, "backup", "create", dir, "-q")
	pending := n.ctl(0, "message", "peek", "t/c", "-n", "1000", "-o", "go-template={{range .messages}}{{.text}} {{end}}")
	n.kill()
	other := startNodeOn(t, filepath.Join(t.TempDir(), "data"))
	other.ctl(0, "backup", "verify", dir)
	other.ctl(0, "backup", "restore", dir, "--dry-run")
	other.ctl(3, "topic", "describe", "t")
	other.ctl(0, "backup", "restore", dir)
	if out := other.ctl(4, "backup", "restore", dir); !strings.Contains(out, "topic exists") {
		t.Errorf("over itself: %s", out)
	}
	other.ctl(0, "backup", "restore", dir, "--topic", "t", "--as", "beside")
	other.restart(other.kill)
	for _, topic := range []string{"t", "beside"} {
		if got := other.ctl(0, "message", "peek", topic+"/c", "-n", "1000", "-o", "go-template={{range .messages}}{{.text}} {{end}}"); got != pending {
			t.Errorf("%s: pending %q, want %q", topic, got, pending)
		}
		if got := other.channel(topic, "c").Depth; got != 298 {
			t.Errorf("%s: depth %d", topic, got)
		}
	}
}
