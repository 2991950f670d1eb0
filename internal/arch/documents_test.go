package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheArchitectureNamesEveryPackage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for dir := range floors {
		if !strings.Contains(string(page), "`"+dir+"`") {
			t.Errorf("docs/architecture.md does not speak of %s", dir)
		}
	}
}

func TestDecisionsHaveNumbersOfTheirOwn(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/adr/*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no records: %v", err)
	}
	taken := map[string]string{}
	for _, file := range files {
		name := filepath.Base(file)
		number, _, _ := strings.Cut(name, "-")
		if other := taken[number]; other != "" {
			t.Errorf("%s and %s have one number", other, name)
		}
		taken[number] = name
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if _, err := fmt.Sscanf(number, "%04d", &n); err != nil || !strings.HasPrefix(string(content), fmt.Sprintf("# %d. ", n)) {
			t.Errorf("%s does not begin with its number", name)
		}
	}
}
