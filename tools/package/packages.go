package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packageVersion returns a semantic version as packages have it: a prerelease sorts
// before its release, and has no hyphen, which would begin the package's own revision.
func packageVersion(semantic string) string {
	base, meta, has := strings.Cut(semantic, "+")
	base = strings.Replace(base, "-", "~", 1)
	base = strings.ReplaceAll(base, "-", ".")
	if !has {
		return base
	}
	return base + "+" + regexp.MustCompile(`[^0-9A-Za-z.]`).ReplaceAllString(meta, ".")
}

// zshDirs are the distributions' directories for completions of zsh.
var zshDirs = map[string]string{"deb": "/usr/share/zsh/vendor-completions", "rpm": "/usr/share/zsh/site-functions"}

// packages writes the .deb and the .rpm of a platform.
func (r *release) packages(p platform, binaries, share string) error {
	for _, packager := range []string{"deb", "rpm"} {
		if err := r.pack(packager, p, binaries, share); err != nil {
			return fmt.Errorf("%s for %s: %w", packager, p.arch, err)
		}
	}
	return nil
}

func (r *release) pack(packager string, p platform, binaries, share string) (err error) {
	vars := map[string]string{
		"ARCH": p.arch, "VERSION": packageVersion(r.version), "BINARIES": binaries, "SHARE": share, "ZSH": zshDirs[packager],
	}
	if err := os.Chdir(r.root); err != nil { // nfpm finds the files from there
		return err
	}
	text, err := os.ReadFile("deploy/package/nfpm.yaml")
	if err != nil {
		return err
	}
	config, err := nfpm.Parse(strings.NewReader(os.Expand(string(text), func(name string) string { return vars[name] })))
	if err != nil {
		return err
	}
	info, err := config.Get(packager)
	if err != nil {
		return err
	}
	info.MTime = r.date
	if packager == "rpm" {
		info.Description = strings.ReplaceAll(info.Description, "\n.\n", "\n\n")
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.Validate(info); err != nil {
		return err
	}
	made, err := nfpm.Get(packager)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, made.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return made.Package(info, f)
}

// debianChangelog is the entry that every Debian package has, and points at ours.
func (r *release) debianChangelog() string {
	return fmt.Sprintf("brokerd (%s-1) unstable; urgency=medium\n\n  * What is new is in changelog.gz in this directory.\n\n"+
		" -- The brokerd developers <brokerd@users.noreply.github.com>  %s\n", packageVersion(r.version), r.date.Format(time.RFC1123Z))
}
