package build

import (
	"runtime/debug"
	"testing"
)

const (
	hash  = "0123456789abcdef0123456789abcdef01234567"
	other = "ffff456789abcdef0123456789abcdef01234567"
	day   = "2026-01-02T03:04:05Z"
	unset = "$Format:%H$\n$Format:%cI$\n$Format:%(describe)$\n"
)

func TestOriginIsTheBestKnown(t *testing.T) {
	vcs := []debug.BuildSetting{
		{Key: "vcs.revision", Value: hash}, {Key: "vcs.time", Value: day}, {Key: "vcs.modified", Value: "true"},
	}
	for _, c := range []struct {
		name     string
		stamped  Origin
		settings []debug.BuildSetting
		archive  string
		want     Origin
	}{
		{"nothing", Origin{}, nil, unset, Origin{Version: release}},
		{"a repository", Origin{}, vcs, unset, Origin{Version: release, Commit: hash, Date: day, Modified: true}},
		{"an archive", Origin{}, nil, hash + "\n" + day + "\nv1.2.3\n", Origin{Version: "1.2.3", Tag: "v1.2.3", Commit: hash, Date: day}},
		{"an archive without a tag", Origin{}, nil, hash + "\n" + day + "\n\n", Origin{Version: release, Commit: hash, Date: day}},
		{
			"a stamp",
			Origin{Tag: "v1.2.3-4-g0123456", Commit: hash, Date: day},
			nil, unset,
			Origin{Version: "1.2.3+4.g0123456", Tag: "v1.2.3-4-g0123456", Commit: hash, Date: day},
		},
		{
			"a stamp of changed sources",
			Origin{Tag: "v1.2.3-dirty", Commit: hash, Date: day},
			nil, unset,
			Origin{Version: "1.2.3", Tag: "v1.2.3", Commit: hash, Date: day, Modified: true},
		},
		{
			"a stamp of changed sources without a tag",
			Origin{Tag: "0123456-dirty", Commit: hash, Date: day},
			nil, unset,
			Origin{Version: release, Commit: hash, Date: day, Modified: true},
		},
		{"a stamped version", Origin{Version: "9.9.9", Commit: hash}, vcs, unset, Origin{Version: "9.9.9", Commit: hash, Date: day, Modified: true}},
		{"another commit", Origin{Commit: other}, vcs, unset, Origin{Version: release, Commit: other}},
	} {
		if got := origin(c.stamped, c.settings, c.archive); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestTagGivesAVersion(t *testing.T) {
	for tag, want := range map[string]string{
		"": release, "nightly": release, "v1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3-rc.1",
		"v1.2.3-4-gabcdef0": "1.2.3+4.gabcdef0", "v1.2.3-rc.1-4-gabcdef0": "1.2.3-rc.1+4.gabcdef0",
	} {
		if got := versionOf(tag); got != want {
			t.Errorf("%q: got %s, want %s", tag, got, want)
		}
	}
}

func TestOriginIsReadable(t *testing.T) {
	for want, o := range map[string]Origin{
		"commit unknown": {},
		"tag v1.2.3, commit 0123456789ab, " + day: {Tag: "v1.2.3", Commit: hash, Date: day},
		"commit 0123 with changes":                {Commit: "0123", Modified: true},
	} {
		if got := o.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
