package client

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/golden"
)

// TestAPIIsGolden compares the exported declarations with testdata/api.golden. An addition is a
// promise; a removal or a change breaks programs and needs a line in CHANGELOG.md.
func TestAPIIsGolden(t *testing.T) {
	got := strings.Join(exported(t, "."), "\n") + "\n"
	golden.Compare(t, filepath.Join("testdata", "api.golden"), got)
}

// exported returns the exported declarations of a package, sorted.
func exported(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0) // without comments
		if err != nil {
			t.Fatal(err)
		}
		ast.FileExports(file)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				d.Body = nil
				if line := text(t, fset, d); !ofUnexported.MatchString(line) {
					all = append(all, line)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if _, imported := s.(*ast.ImportSpec); !imported {
						all = append(all, text(t, fset, &ast.GenDecl{Tok: d.Tok, Specs: []ast.Spec{s}}))
					}
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// ofUnexported matches a method of an unexported type.
var ofUnexported = regexp.MustCompile(`^func \(\w+ \*?[a-z]`)

func text(t *testing.T, fset *token.FileSet, node any) string {
	t.Helper()
	var out bytes.Buffer
	if err := (&printer.Config{Mode: printer.RawFormat}).Fprint(&out, fset, node); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n\t")
}
