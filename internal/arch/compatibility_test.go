package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCompatibilityIsShownByTests checks that each row of docs/compatibility.md names existing
// tests.
func TestCompatibilityIsShownByTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testsByName(t)
	named := regexp.MustCompile("`([a-z/]+:(?:Test|Fuzz)[A-Za-z0-9]+)`")
	rows := 0
	for line := range strings.SplitSeq(string(page), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.HasSuffix(line, "| test |") {
			continue
		}
		rows++
		found := named.FindAllStringSubmatch(line, -1)
		if len(found) == 0 {
			t.Errorf("no test shows this: %s", line)
		}
		for _, m := range found {
			if !tests[m[1]] {
				t.Errorf("there is no %s", m[1])
			}
		}
	}
	if rows < 60 {
		t.Errorf("found only %d rows", rows)
	}
}
