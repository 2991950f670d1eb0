package blackbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBackupUnit runs the commands of the systemd unit for backups, as systemd does: two nights that keep everything,
// and one that keeps one backup.
func TestBackupUnit(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "deploy", "systemd", "brokerd-backup.service"))
	if err != nil {
		t.Fatal(err)
	}
	n, dir := startNodeOn(t, filepath.Join(t.TempDir(), "data")), filepath.Join(t.TempDir(), "backups")
	fill(n, "t", 30)
	// Systemd replaces ${NAME} by one word, and $$ by a dollar sign.
	systemd := strings.NewReplacer("$$", "$", "${BROKERD_BACKUP_DIR}", dir, "/usr/bin/", programs+"/")
	for _, night := range []struct {
		keep string
		left int
	}{{"", 1}, {"", 2}, {"1", 1}} {
		commands := 0
		for line := range strings.Lines(string(raw)) {
			command, is := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=")
			if !is {
				continue
			}
			commands++
			n.shell(t.TempDir(), "BROKERD_BACKUP_DIR='"+dir+"' BROKERD_BACKUP_KEEP='"+night.keep+"' "+systemd.Replace(command))
		}
		if commands < 3 {
			t.Fatalf("found only %d commands", commands)
		}
		if got := strings.Fields(n.ctl(0, "backup", "list", dir, "-o", "name")); len(got) != night.left {
			t.Errorf("keep %q: backups %v, want %d", night.keep, got, night.left)
		}
	}
}
