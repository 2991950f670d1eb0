// Package build reports the version, tag, commit and date that a program was built from.
//
// Sources, in order of precedence: values stamped by make at link time, the go command's VCS data,
// and the values that git writes into a source archive. A build without any of them knows only its
// release.
package build

import (
	"cmp"
	_ "embed"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
)

// release is the release that the sources lead to; the version of a build that no tag
// names.
const release = "0.1.0"

// Set by the linker: see STAMP in the Makefile.
var version, tag, commit, date = "", "", "", ""

// archived is replaced by `git archive`, as .gitattributes says.
//
//go:embed archived.txt
var archived string

// Origin is what a program was built from. Fields that are not known are "", except
// Version.
type Origin struct {
	Version  string // semantic version, without v
	Tag      string // the nearest tag, with how many commits follow it, as `git describe` has it
	Commit   string // of the sources
	Date     string // of the commit, RFC 3339
	Modified bool   // the sources were not those of the commit
}

// This returns the origin of the running program.
var This = sync.OnceValue(func() Origin {
	var settings []debug.BuildSetting
	if b, ok := debug.ReadBuildInfo(); ok {
		settings = b.Settings
	}
	return origin(Origin{Version: version, Tag: tag, Commit: commit, Date: date}, settings, archived)
})

// Version returns the version of the running program.
func Version() string { return This().Version }

// origin combines all sources, from the best to the worst. A later source
// that names another commit is ignored.
func origin(stamped Origin, settings []debug.BuildSetting, archive string) Origin {
	o := stamped
	if base, dirty := strings.CutSuffix(o.Tag, "-dirty"); dirty {
		o.Tag, o.Modified = base, true
	}
	if !strings.HasPrefix(o.Tag, "v") {
		o.Tag = "" // the commit's own name: no tag leads to it
	}
	var seen Origin
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			seen.Commit = s.Value
		case "vcs.time":
			seen.Date = s.Value
		case "vcs.modified":
			seen.Modified = s.Value == "true"
		}
	}
	for _, other := range []Origin{seen, ofArchive(archive)} {
		if o.Commit == "" || o.Commit == other.Commit {
			o.Commit, o.Date, o.Tag = other.Commit, cmp.Or(o.Date, other.Date), cmp.Or(o.Tag, other.Tag)
			o.Modified = o.Modified || other.Modified
		}
	}
	if o.Version == "" {
		o.Version = versionOf(o.Tag)
	}
	return o
}

// described is what `git describe --tags` prints.
var described = regexp.MustCompile(`^v(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)(?:-(\d+)-g([0-9a-f]+))?$`)

// versionOf returns the version that follows from a tag. With commits after the tag it sorts after
// the tag's version and before the next release.
func versionOf(tag string) string {
	m := described.FindStringSubmatch(tag)
	switch {
	case m == nil:
		return release
	case m[2] == "":
		return m[1]
	}
	return m[1] + "+" + m[2] + ".g" + m[3]
}

// ofArchive reads the three lines that git writes into an archive: commit, date, the
// nearest tag.
func ofArchive(text string) Origin {
	lines := strings.Split(text, "\n")
	if len(lines) < 3 || strings.Contains(text, "$Format") {
		return Origin{}
	}
	return Origin{Commit: lines[0], Date: lines[1], Tag: lines[2]}
}

// String lists the known fields, for people: "tag v1.2.3, commit 0123456789ab, 2026-01-02T03:04:05Z".
func (o Origin) String() string {
	var parts []string
	if o.Tag != "" {
		parts = append(parts, "tag "+o.Tag)
	}
	at := "commit unknown"
	if o.Commit != "" {
		at = "commit " + o.Commit[:min(len(o.Commit), 12)]
	}
	if o.Modified {
		at += " with changes"
	}
	parts = append(parts, at)
	if o.Date != "" {
		parts = append(parts, o.Date)
	}
	return strings.Join(parts, ", ")
}
