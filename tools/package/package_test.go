package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPackageVersionsSortLikeReleases(t *testing.T) {
	for semantic, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3~rc.1", "1.2.3+4.gabc": "1.2.3+4.gabc", "1.2.3-rc-1+4-x": "1.2.3~rc.1+4.x",
	} {
		if got := packageVersion(semantic); got != want {
			t.Errorf("%s: got %s, want %s", semantic, got, want)
		}
	}
}

func TestPlatformsAreLinux(t *testing.T) {
	all, err := parsePlatforms("linux/amd64,linux/arm64")
	if err != nil || len(all) != 2 || all[1].arch != "arm64" {
		t.Errorf("%v %v", all, err)
	}
	for _, bad := range []string{"", "linux", "windows/amd64"} {
		if _, err := parsePlatforms(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestLicencesAreReadFromTheList(t *testing.T) {
	text, err := os.ReadFile("../../THIRD_PARTY.md")
	if err != nil {
		t.Fatal(err)
	}
	all := licences(string(text))
	if len(all) < 20 || all["github.com/spf13/cobra"] != "Apache-2.0" {
		t.Errorf("%d licences: %v", len(all), all)
	}
}

// Every module of the programs has its licence in what users get, whatever its file is called.
func TestLicencesOfModulesAreFound(t *testing.T) {
	dir := t.TempDir()
	var text bytes.Buffer
	if err := appendLicences(&text, "example.org/none v1", dir); err == nil {
		t.Error("a module without a licence is taken")
	}
	for name, content := range map[string]string{"LICENSE": "one\n", "COPYING.txt": "two", "NOTICE": "three", "license_test.go": "", "README": "four"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := appendLicences(&text, "example.org/m v1", dir); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"example.org/m v1: LICENSE\n\none\n", "COPYING.txt\n\ntwo", "NOTICE\n\nthree"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in %q", want, text.String())
		}
	}
	if strings.Contains(text.String(), "four") || strings.Contains(text.String(), "license_test.go") {
		t.Error("a file is taken for a licence")
	}
}
