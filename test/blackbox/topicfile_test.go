package blackbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTopicsAreExportedAndImported moves the settings of topics to a cluster that has lost them.
func TestTopicsAreExportedAndImported(t *testing.T) {
	t.Parallel()
	_, _, ctl := threeNodes(t)
	file := filepath.Join(t.TempDir(), "topics.yaml")
	ctl("topic", "create", "orders", "--partitions", "3", "--min-isr", "2", "--retention", "72h", "--max-bytes", "1GiB", "--channel-max-attempts", "9")
	ctl("topic", "create", "clicks", "--ordered", "--replicas", "1")
	ctl("channel", "create", "orders/bill", "--max-attempts", "4", "--on-exhausted", "drop", "--filter", `header.kind == "a: 'b' #c"`)
	ctl("channel", "create", "orders/ship")
	ctl("channel", "pause", "orders/ship")
	before := ctl("topic", "export")
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := ctl("topic", "import", file); !strings.Contains(out, "0 changes") {
		t.Errorf("into the same cluster: %s", out)
	}
	ctl("topic", "delete", "orders", "--yes")
	ctl("topic", "alter", "clicks", "--retention", "1h")
	out := ctl("topic", "import", file, "--dry-run")
	for _, want := range []string{"dry run: 5 changes", "create topic", "orders/ship  pause", "retention: 1h0m0s -> "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out := ctl("topic", "list", "-o", "name"); strings.Contains(out, "orders") {
		t.Error("the dry run has created a topic")
	}
	ctl("topic", "import", file)
	eventually(t, "the settings are as they were", func() bool { return ctl("topic", "export") == before })
	if out := ctl("topic", "import", file); !strings.Contains(out, "0 changes") {
		t.Errorf("once more: %s", out)
	}
	if code, _, errs := run(t, "brokerctl", "topic", "import", file+"x"); code != 2 || !strings.Contains(errs, "no such file") {
		t.Errorf("no file: %d %s", code, errs)
	}
}
