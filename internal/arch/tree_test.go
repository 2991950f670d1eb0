package arch

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/brokerd/brokerd"
)

// source is one Go file of the module.
type source struct {
	path  string // from the root of the repository, with slashes
	dir   string // the same of its directory
	test  bool   // *_test.go
	fset  *token.FileSet
	file  *ast.File
	lines int
}

// pos returns the position of a node, for messages.
func (s source) pos(p token.Pos) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(p).Line)
}

// imports lists the import paths of the file.
func (s source) imports() []string {
	var paths []string
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// generated reports whether a program wrote the file.
func (s source) generated() bool { return ast.IsGenerated(s.file) }

// skipDir names the directories that are not ours or not sources.
func skipDir(name string) bool {
	return name == "bin" || name == "testdata" || name == "node_modules" ||
		name == "brokerd-data" || strings.HasPrefix(name, ".") && name != "." && name != ".ci"
}

// walk calls f for every file of the repository that is neither built nor fetched, with its path
// from the root. Nested modules are included.
func walk(f func(name string) error) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != root && skipDir(d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type()&fs.ModeSymlink != 0 {
			return nil // its target is a file of the repository, or not ours
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		return f(filepath.ToSlash(rel))
	})
}

var parseAll = sync.OnceValues(func() ([]source, error) {
	var all []source
	fset := token.NewFileSet()
	err := walk(func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed since the listing
		}
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{
			path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
			fset: fset, file: file, lines: strings.Count(string(text), "\n"),
		})
		return nil
	})
	return all, err
})

// sources returns every Go file of the repository, parsed once.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parseAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("found only %d Go files: looking in the wrong place", len(all))
	}
	return all
}
