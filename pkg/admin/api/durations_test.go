package api

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every duration also has a number of milliseconds, under the same name with _ms.
func TestEveryDurationHasANumber(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	field := regexp.MustCompile("(?m)^\t\\w+ +\\*?Duration +`json:\"([a-z_]+)[\",]")
	found := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for block := range strings.SplitSeq(string(text), "\n}\n") {
			for _, m := range field.FindAllStringSubmatch(block, -1) {
				if found++; !strings.Contains(block, `json:"`+m[1]+`_ms`) {
					t.Errorf("%s: %s has no %s_ms beside it", f, m[1], m[1])
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d durations", found)
	}
}
