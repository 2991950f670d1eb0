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

// TestRestoreWithoutTheRightsChangesNothing: topics were created, and stayed incomplete.
func TestRestoreWithoutTheRightsChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, backups := filepath.Join(dir, "data"), filepath.Join(dir, "backups")
	n := startNodeOn(t, data)
	n.ctl(0, "topic", "create", "plain")
	n.ctl(0, "message", "pub", "plain", "one")
	n.ctl(0, "topic", "create", "dead", "--ext")
	n.post("/v1/topics/dead/messages", `{"messages":[{"text":"x","headers":{"dead_letter":{"topic":"t","channel":"c"}}}]}`)
	n.ctl(0, "backup", "create", backups)
	first, ops := filepath.Join(data, "first-administrator"), filepath.Join(dir, "ops")
	n.ctl(0, "--token-file", first, "user", "create", "ops", "--admin")
	n.ctl(0, "--token-file", first, "token", "create", "ops", "--out", ops)
	token := map[string]string{"ops": ops}
	for user, grant := range map[string]string{"manager": "subscribe *", "restorer": "publish *"} {
		token[user] = filepath.Join(dir, user)
		n.ctl(0, "--token-file", ops, "user", "create", user, "--grant", "read", "--grant", "manage *", "--grant", grant)
		n.ctl(0, "--token-file", ops, "token", "create", user, "--out", token[user])
	}
	n.ctl(0, "--token-file", ops, "access", "enable", "--new-cluster-secret")
	for _, x := range []struct {
		user, topic, says string
		code              int
	}{
		{"manager", "plain", "no rule for publish plain-2", 5},
		{"restorer", "plain", "", 0},
		{"restorer", "dead", "only an administrator", 5},
		{"ops", "dead", "", 0},
	} {
		for _, dry := range []string{"--dry-run=true", "--dry-run=false"} {
			if out := n.ctl(x.code, "--token-file", token[x.user], "backup", "restore", backups, "--topic", x.topic, "--as", x.topic+"-2", dry); !strings.Contains(out, x.says) {
				t.Errorf("%s, %s, %s: %s", x.user, x.topic, dry, out)
			}
		}
		if x.code != 0 {
			n.ctl(3, "--token-file", ops, "topic", "describe", x.topic+"-2")
		}
	}
}
