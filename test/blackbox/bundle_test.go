package blackbox

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// unpacked returns the files of an archive.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", path, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	found := map[string]string{}
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, name)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A bundle of a cluster with a dead node contains the files of all other nodes and names what is
// missing. It contains no message and no secret.
func TestDebugBundle(t *testing.T) {
	t.Parallel()
	c, addresses, ctl := threeNodes(t)
	ctl("topic", "create", "orders", "--ext")
	ctl("channel", "create", "orders/bill")
	publishTo(t, addresses, "/pub?topic=orders&key=visible-key", "the secret body of a message")
	if err := c.Nodes[2].End(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "night.tar.gz")
	code, out, errs := run(t, "brokerctl", "--addr", "http://"+addresses[0], "--timeout", "30s", "debug", "bundle", file, "--profile", "1s")
	if code != 7 || !strings.Contains(out, "missing: "+c.Nodes[2].ID+"/metrics.txt") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	files := unpacked(t, file)
	for name, want := range map[string]string{
		"cluster/health.json": `"healthy"`, "cluster/info.json": c.Nodes[1].ID, "cluster/raft.json": `"term"`, "cluster/topics.json": `"orders"`,
		"cluster/channels.json": `"bill"`, "cluster/events.json": "topic_created", "cluster/audit.json": "orders",
		c.Nodes[0].ID + "/diagnosis.json": "goroutine profile", c.Nodes[1].ID + "/metrics.txt": "brokerd_build_info",
		c.Nodes[1].ID + "/ready.json": `"ok": true`, c.Nodes[0].ID + "/stats.json": "orders", c.Nodes[2].ID + "/node.json": `"silent"`,
		"index.json": "/metrics.txt",
	} {
		if !strings.Contains(files["night/"+name], want) {
			t.Errorf("%s has no %q: %.300s", name, want, files["night/"+name])
		}
	}
	if !strings.Contains(files["night/"+c.Nodes[0].ID+"/diagnosis.json"], `data_dir = `) {
		t.Error("no configuration")
	}
	for name, text := range files {
		if strings.Contains(text, "the secret body of a message") {
			t.Errorf("%s has a message", name)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if code, _, errs := run(t, "brokerctl", "--addr", "http://"+addresses[0], "debug", "bundle", file); code != 2 || !strings.Contains(errs, "exists") {
		t.Errorf("over a file that exists: exit %d: %s", code, errs)
	}
	if code, _, _ := run(t, "brokerctl", "--addr", "http://"+addresses[0], "debug", "bundle", file+"2", "--node", "n9"); code != 3 {
		t.Errorf("of an unknown node: exit %d", code)
	}
}
