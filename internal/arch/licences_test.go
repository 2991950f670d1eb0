package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryModuleIsListedWithItsLicence compares go.mod with THIRD_PARTY.md.
func TestEveryModuleIsListedWithItsLicence(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(filepath.Join(root, "THIRD_PARTY.md"))
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`(?m)^(?:require )?\s+(\S+\.\S+/?\S*) v\d`).FindAllStringSubmatch(string(mod), -1)
	if len(required) < 10 {
		t.Fatalf("found only %d modules in go.mod", len(required))
	}
	for _, m := range required {
		if !strings.Contains(string(list), "| "+m[1]+" | ") {
			t.Errorf("THIRD_PARTY.md does not list %s", m[1])
		}
	}
}
