// Package golden compares what tests produce with files in testdata. With the flag -update a
// test rewrites its files.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Update reports whether golden files are to be rewritten.
func Update() bool { return *update }

// Compare fails the test if a file does not hold what the test got.
func Compare[T ~string | ~[]byte](t testing.TB, file string, got T) {
	t.Helper()
	write(t, file, string(got))
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := difference(string(want), string(got)); diff != "" {
		t.Errorf("%s differs; regenerate it with -update (-want +got):\n%s", file, diff)
	}
}

// difference describes the difference of texts line by line, of other content as a whole.
func difference(want, got string) string {
	if utf8.ValidString(want) && utf8.ValidString(got) {
		return cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
	}
	return cmp.Diff([]byte(want), []byte(got))
}

// write writes a file if golden files are to be rewritten.
func write(t testing.TB, file, content string) {
	t.Helper()
	if !*update {
		return
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil { //nolint:gosec // a file of the repository
		t.Fatal(err)
	}
}

// Scripts runs each script that matches a pattern as a subtest: run returns the script with its
// results, which must equal the file.
func Scripts(t *testing.T, pattern string, run func(t *testing.T, text string) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file) //nolint:gosec // a name from testdata
			if err != nil {
				t.Fatal(err)
			}
			Compare(t, file, run(t, string(text)))
		})
	}
}
