// Command package builds a release: for each platform the programs, a .deb, an .rpm, an archive and
// a list of the modules in them, and checksums of all files.
//
// It needs only Go. Its output depends only on the sources and their commit, not on when or where
// it runs. `make dist` runs it.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// platform is what the programs run on.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// release is what one run makes.
type release struct {
	root    string // of the repository
	out     string // where the results go
	ldflags string
	version string // semantic
	date    time.Time
	notes   []byte // CHANGELOG.md
}

// programs are what is built.
var programs = []string{"brokerd", "brokerctl"}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

func run() error {
	syscall.Umask(0o022) // file modes in the package do not depend on the user who packs
	root := flag.String("root", "../..", "root of the repository")
	out := flag.String("out", "", "directory of the results; emptied first (default ROOT/dist)")
	stamp := flag.String("stamp", "", "linker flags of all programs")
	on := flag.String("platforms", "linux/amd64,linux/arm64", "what to build for")
	flag.Parse()
	platforms, err := parsePlatforms(*on)
	if err != nil {
		return err
	}
	r := &release{ldflags: *stamp}
	if r.root, err = filepath.Abs(*root); err != nil {
		return err
	}
	if r.out = *out; r.out == "" {
		r.out = filepath.Join(r.root, "dist")
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	return r.make(platforms)
}

func parsePlatforms(list string) ([]platform, error) {
	var all []platform
	for _, name := range strings.Split(list, ",") {
		system, arch, ok := strings.Cut(name, "/")
		if !ok || system != "linux" {
			return nil, fmt.Errorf("platform %q is not linux/ARCHITECTURE", name)
		}
		all = append(all, platform{system, arch})
	}
	return all, nil
}

// make writes everything into r.out.
func (r *release) make(platforms []platform) error {
	stage := filepath.Join(r.out, ".stage")
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(stage, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	var err error
	if r.notes, err = os.ReadFile(filepath.Join(r.root, "CHANGELOG.md")); err != nil {
		return err
	}
	if err := r.identify(stage); err != nil {
		return err
	}
	share := filepath.Join(stage, "share")
	if err := r.share(filepath.Join(stage, "host"), share); err != nil {
		return err
	}
	for _, p := range platforms {
		binaries := filepath.Join(stage, p.String())
		for _, program := range programs {
			if err := r.build(program, binaries, "GOOS="+p.os, "GOARCH="+p.arch); err != nil {
				return err
			}
		}
		if err := r.writeBOM(binaries); err != nil {
			return err
		}
		if err := r.writeLicences(binaries); err != nil {
			return err
		}
		if err := r.packages(p, binaries, share); err != nil {
			return err
		}
		if err := r.archive(p, binaries, share); err != nil {
			return err
		}
	}
	return r.sums()
}

// build builds one program into a directory.
func (r *release) build(program, into string, env ...string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w "+r.ldflags, "-o", into+"/", "./cmd/"+program)
	cmd.Dir = r.root
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return nil
}

// identify builds the programs for this machine and runs them to learn their versions.
func (r *release) identify(stage string) error {
	host := filepath.Join(stage, "host")
	for _, program := range programs {
		if err := r.build(program, host); err != nil {
			return err
		}
	}
	said, err := exec.Command(filepath.Join(host, "brokerctl"), "version", "-o", "json").Output()
	if err != nil {
		return fmt.Errorf("ask brokerctl for its version: %w", err)
	}
	var is struct{ Version, Date string }
	if err := json.Unmarshal(said, &is); err != nil {
		return fmt.Errorf("version of brokerctl: %w", err)
	}
	r.version = is.Version
	if r.date, err = time.Parse(time.RFC3339, is.Date); err != nil {
		r.date = time.Unix(0, 0) // sources without a commit: any date, but the same in each run
	}
	r.date = r.date.UTC()
	return nil
}

// share makes what is the same on every platform: manual pages, completions, the
// changelogs.
func (r *release) share(host, into string) error {
	for program, pages := range map[string][]string{"brokerd": {"man-pages"}, "brokerctl": {"generate", "man-pages"}} {
		if out, err := exec.Command(filepath.Join(host, program), append(pages, filepath.Join(into, "pages"))...).CombinedOutput(); err != nil {
			return fmt.Errorf("manual pages of %s: %w\n%s", program, err, out)
		}
		for shell, name := range map[string]string{"bash": program, "fish": program + ".fish", "zsh": "_" + program} {
			script, err := exec.Command(filepath.Join(host, program), "completion", shell).Output()
			if err != nil {
				return fmt.Errorf("completion of %s for %s: %w", program, shell, err)
			}
			if err := write(filepath.Join(into, "completions", shell, name), script); err != nil {
				return err
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join(into, "pages", "*"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		section := strings.TrimPrefix(filepath.Ext(page), ".")
		if err := writeGzip(filepath.Join(into, "man", "man"+section, filepath.Base(page)+".gz"), text); err != nil {
			return err
		}
	}
	return errors.Join(
		writeGzip(filepath.Join(into, "doc", "changelog.gz"), r.notes),
		writeGzip(filepath.Join(into, "doc", "changelog.Debian.gz"), []byte(r.debianChangelog())),
	)
}
