package commitlog

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// A single copy has no other to be compared with: its digest alone says whether it is complete.
func TestDigestOfALogWithoutASegmentFails(t *testing.T) {
	disk := vfs.NewMem()
	l, _ := mustOpen(t, disk, smallOptions())
	w := mustWriter(t, l, 1)
	for range 30 {
		mustAppend(t, w, 3)
	}
	l.Commit(l.End())
	end := l.End()
	digest := func(from, end seq.Offset) (string, error) {
		c := NewChecker(l, from)
		defer c.Close()
		return c.Digest(t.Context(), end)
	}
	if _, err := digest(3, end); err != nil {
		t.Fatal(err)
	}
	if _, err := digest(3, end+1); err == nil {
		t.Error("a message beyond the end is not missed")
	}
	mustClose(t, l)
	names, err := disk.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	logs := slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	if len(logs) < 3 {
		t.Fatalf("only %q", logs)
	}
	if err := disk.Remove(filepath.Join(testDir, logs[1])); err != nil {
		t.Fatal(err)
	}
	l, _ = mustOpen(t, disk, smallOptions())
	defer mustClose(t, l)
	if sum, err := digest(0, end); err == nil {
		t.Errorf("digest %s of a log without %s", sum, logs[1])
	}
	var first seq.Offset // of the segment that is gone
	if _, err := fmt.Sscanf(logs[1], "%d.log", &first); err != nil {
		t.Fatal(err)
	}
	if sum, err := digest(0, first+1); err == nil {
		t.Errorf("digest %s of a range that ends in the gap", sum)
	}
	if _, err := digest(0, first); err != nil {
		t.Errorf("before the gap: %v", err)
	}
}
