package arch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// linuxOnly are programs of the tests that use namespaces and mounts.
func linuxOnly() []string {
	return []string{module + "/test/alerts", module + "/test/cluster", module + "/test/network"}
}

// TestProgramsBuildOnMacOS: brokerctl and the tests of other programs, with pkg/brokertest, also run on
// laptops. It checks the types of all packages as a compiler for macOS would.
func TestProgramsBuildOnMacOS(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,ImportPath,GoFiles,ImportMap", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	c := checker{listed: map[string]*listedPackage{}, checked: map[string]*types.Package{}, fset: token.NewFileSet()}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listedPackage
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		c.listed[p.ImportPath] = &p
	}
	for path := range c.listed {
		if strings.HasPrefix(path, module+"/") && !slices.Contains(linuxOnly(), path) {
			_, _ = c.check(path) // the errors are in c
		}
	}
	for _, err := range c.errors {
		t.Error(err)
	}
	if len(c.checked) < 100 {
		t.Errorf("only %d packages were checked", len(c.checked))
	}
}

type listedPackage struct {
	Dir, ImportPath string
	GoFiles         []string
	ImportMap       map[string]string // of vendored packages of the standard library
}

// checker checks packages and all that they import, from their sources.
type checker struct {
	listed  map[string]*listedPackage
	checked map[string]*types.Package
	fset    *token.FileSet
	errors  []error // in packages of the module
}

// check returns a package. Function bodies of other modules are not checked.
func (c *checker) check(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if done := c.checked[path]; done != nil {
		return done, nil
	}
	p := c.listed[path]
	if p == nil {
		return nil, fmt.Errorf("package %s is not listed", path)
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	own := strings.HasPrefix(path, module+"/")
	config := types.Config{IgnoreFuncBodies: !own, FakeImportC: true, Importer: importerFor{c, p}, Error: func(err error) {
		if own {
			c.errors = append(c.errors, err)
		}
	}}
	checked, _ := config.Check(path, c.fset, files, nil) // Error gets what it returns
	c.checked[path] = checked
	return checked, nil
}

// importerFor is the importer of one package.
type importerFor struct {
	c *checker
	p *listedPackage
}

func (i importerFor) Import(path string) (*types.Package, error) {
	if vendored := i.p.ImportMap[path]; vendored != "" {
		path = vendored
	}
	return i.c.check(path)
}
