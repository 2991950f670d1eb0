package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a testing.TB that records failures.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestCompareReportsDifferences(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sub", "a.golden")
	compare := func(got string) bool {
		r := &recorder{TB: t}
		Compare(r, file, got)
		return r.failed
	}
	*update = true
	written := compare("one\n")
	*update = false
	if written || compare("one\n") || !compare("one") || !compare("one\nx") || !compare("\xff\xfe") {
		t.Error("Compare says the wrong thing")
	}
	if text, err := os.ReadFile(file); string(text) != "one\n" || err != nil {
		t.Errorf("the file has %q, %v", text, err)
	}
}

func TestScriptsRunsEachFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.txt", "b.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var seen []string
	Scripts(t, filepath.Join(dir, "*.txt"), func(_ *testing.T, text string) string {
		seen = append(seen, text)
		return text
	})
	if got := strings.Join(seen, " "); got != "a.txt b.txt" {
		t.Errorf("ran %s", got)
	}
}
