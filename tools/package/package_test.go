package main

import (
	"os"
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
