package manual

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func tree() *cobra.Command {
	root := &cobra.Command{Use: "tool", Short: "Do things", Run: func(*cobra.Command, []string) {}}
	root.Flags().Int("depth", 7, "how deep")
	root.AddCommand(&cobra.Command{Use: "dig", Short: "Dig a hole", Run: func(*cobra.Command, []string) {}})
	return root
}

func TestEveryCommandHasAPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "below")
	if err := Write(tree(), SectionAdmin, dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tool.8", "tool-dig.8"} {
		if !slices.Contains(files, filepath.Join(dir, want)) {
			t.Errorf("no %s among %v", want, files)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "tool.8"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Do things", "depth", "how deep", `"8"`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("tool.8 does not have %q:\n%s", want, page)
		}
	}
}

func TestUncreatableDirectoryIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(tree(), SectionUser, filepath.Join(file, "below")); err == nil {
		t.Error("no error")
	}
}
