package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenceFile is the name of the file with the licences of the modules, beside the programs.
const licenceFile = "THIRD_PARTY_LICENCES.txt"

// licenceName matches the names of the files in a module that its licence requires to be passed on.
var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-._].*)?$`)

// writeLicences writes the full texts of the licences of Go and of the modules that the programs in a directory were
// built from. A module without one is an error.
func (r *release) writeLicences(binaries string) error {
	modules, _, err := modulesOf(binaries)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	root, err := r.run("go", "env", "GOROOT")
	if err != nil {
		return err
	}
	if err := appendLicences(&text, "Go", root); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		dir, err := r.run("go", "list", "-m", "-f", "{{.Dir}}", path)
		if err != nil {
			return err
		}
		if err := appendLicences(&text, path+" "+modules[path].Version, dir); err != nil {
			return err
		}
	}
	return write(filepath.Join(binaries, licenceFile), text.Bytes())
}

// run returns the output of a command in the root of the repository.
func (r *release) run(name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir, c.Stderr = r.root, os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// appendLicences appends the licences in the directory of a module.
func appendLicences(text *bytes.Buffer, module, dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", module, err)
	}
	found := false
	for _, f := range files {
		if !f.Type().IsRegular() || filepath.Ext(f.Name()) == ".go" || !licenceName.MatchString(f.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return fmt.Errorf("licence of %s: %w", module, err)
		}
		found = true
		fmt.Fprintf(text, "%s\n%s: %s\n\n%s\n\n", strings.Repeat("=", 80), module, f.Name(), bytes.TrimSpace(content))
	}
	if !found {
		return fmt.Errorf("%s contains no licence of %s", dir, module)
	}
	return nil
}
