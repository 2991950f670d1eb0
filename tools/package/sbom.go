package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// bom is a bill of materials in the form of CycloneDX 1.5.
type bom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   bomMetadata `json:"metadata"`
	Components []component `json:"components"`
}

type bomMetadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type     string     `json:"type"`
	Name     string     `json:"name"`
	Version  string     `json:"version"`
	PURL     string     `json:"purl"`
	Licences []licence  `json:"licenses,omitempty"`
	Notes    []property `json:"properties,omitempty"`
}

type licence struct {
	License struct {
		Name string `json:"name"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// modulesOf returns the modules that the programs in a directory were built from, as recorded in the programs, by path,
// and the version of Go.
func modulesOf(binaries string) (modules map[string]*debug.Module, toolchain string, err error) {
	modules = map[string]*debug.Module{}
	for _, program := range programs {
		is, err := buildinfo.ReadFile(filepath.Join(binaries, program))
		if err != nil {
			return nil, "", fmt.Errorf("modules of %s: %w", program, err)
		}
		toolchain = is.GoVersion
		for _, m := range is.Deps {
			modules[m.Path] = m
		}
	}
	return modules, toolchain, nil
}

// writeBOM lists the modules that the programs in a directory were built from, as recorded in the
// programs, with the licences that THIRD_PARTY.md names.
func (r *release) writeBOM(binaries string) error {
	text, err := os.ReadFile(filepath.Join(r.root, "THIRD_PARTY.md"))
	if err != nil {
		return err
	}
	modules, toolchain, err := modulesOf(binaries)
	if err != nil {
		return err
	}
	named := licences(string(text))
	found := map[string]component{}
	for _, m := range modules {
		c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version}
		c.Notes = append(c.Notes, property{"go:sum", m.Sum})
		name, ok := named[m.Path]
		if !ok {
			return fmt.Errorf("THIRD_PARTY.md does not list %s, which is in the programs", m.Path)
		}
		var l licence
		l.License.Name = name
		c.Licences = append(c.Licences, l)
		found[c.PURL] = c
	}
	std := component{Type: "library", Name: "stdlib", Version: strings.TrimPrefix(toolchain, "go"), PURL: "pkg:golang/std@" + strings.TrimPrefix(toolchain, "go")}
	found[std.PURL] = std
	list := bom{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: bomMetadata{
		Timestamp: r.date.Format(time.RFC3339),
		Component: component{Type: "application", Name: "brokerd", Version: r.version, PURL: "pkg:golang/github.com/brokerd/brokerd@v" + r.version},
	}}
	for _, c := range found {
		list.Components = append(list.Components, c)
	}
	slices.SortFunc(list.Components, func(a, b component) int { return cmp.Compare(a.PURL, b.PURL) })
	out, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	name := fmt.Sprintf("brokerd_%s_%s.cdx.json", r.version, filepath.Base(binaries))
	for _, path := range []string{filepath.Join(binaries, "sbom.cdx.json"), filepath.Join(r.out, name)} {
		if err := write(path, append(out, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// licences reads the tables of THIRD_PARTY.md: module to licence.
func licences(markdown string) map[string]string {
	named := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([^ |]+\.[^ |]+) \| ([^|]+) \|$`).FindAllStringSubmatch(markdown, -1) {
		named[m[1]] = m[2]
	}
	return named
}
