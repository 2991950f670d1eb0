package arch

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// maxFile is the maximum size of a tracked file in bytes. A program built at the root was committed
// once, with all its 17 MB.
const maxFile = 1 << 20

// TestNoBuiltProgramIsTracked checks the files of the last commit.
func TestNoBuiltProgramIsTracked(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-tree", "-r", "-l", "HEAD").Output()
	if err != nil {
		t.Skipf("no git history: %v", err)
	}
	for _, line := range oversized(string(out)) {
		t.Errorf("%s: larger than %d bytes; remove it from the commit, and add it to .gitignore if it is built", line, maxFile)
	}
}

// oversized returns the paths of a listing of git ls-tree -l that are over maxFile.
func oversized(listing string) (paths []string) {
	for line := range strings.Lines(listing) {
		about, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		fields := strings.Fields(about) // mode, type, object, size
		if len(fields) != 4 {
			continue
		}
		if size, err := strconv.ParseInt(fields[3], 10, 64); err == nil && size > maxFile {
			paths = append(paths, name)
		}
	}
	return paths
}

func TestOversizedFilesAreFound(t *testing.T) {
	const listing = "100644 blob e69de29 999999\ta.go\n100755 blob 9251638 17549023\tbrokerd\n160000 commit 1234567       -\tmodule\n"
	if got := oversized(listing); len(got) != 1 || got[0] != "brokerd" {
		t.Errorf("found %q, want brokerd", got)
	}
}
