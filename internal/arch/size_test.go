package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// Size limits. Something larger needs to be split, or a line in large with the reason.
const (
	maxFileLines    = 600
	maxFuncLines    = 70
	maxPackageLines = 5000
)

// ceiling is the maximum size of something over a limit, and the reason. It is the current size,
// for packages rounded up to hundreds, and only decreases.
type ceiling struct {
	n   int
	why string
}

// large lists everything over a limit: "path lines" for a file, "path:Func lines" for a function,
// "dir lines" for a package.
var large = map[string]ceiling{
	"cmd/brokerctl lines": {7000, "the commands"},
}

// within reports everything over its limit or ceiling, and ceilings that can be lower.
func within(t *testing.T, name string, n, limit int) {
	t.Helper()
	c, known := large[name]
	if complaint := judge(n, limit, c, known); complaint != "" {
		t.Errorf("%s: %s", name, complaint)
	}
}

func judge(n, limit int, c ceiling, known bool) string {
	now := n
	if limit == maxPackageLines {
		now = (n + 99) / 100 * 100
	}
	switch {
	case !known && n > limit:
		return fmt.Sprintf("%d, over %d", n, limit)
	case known && n <= limit:
		return fmt.Sprintf("%d, within %d: take its ceiling away", n, limit)
	case known && now > c.n:
		return fmt.Sprintf("%d, over its ceiling of %d, which only falls", n, c.n)
	case known && now < c.n:
		return fmt.Sprintf("%d: lower its ceiling of %d to %d", n, c.n, now)
	}
	return ""
}

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		within(t, s.path+" lines", s.lines, maxFileLines)
		if s.test {
			continue // a table may be long
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
				within(t, s.path+":"+f.Name.Name+" lines", n, maxFuncLines)
			}
		}
	}
}

func TestPackagesStaySmall(t *testing.T) {
	lines := map[string]int{}
	for _, s := range sources(t) {
		if !s.test && !s.generated() {
			lines[s.dir] += s.lines
		}
	}
	for dir := range lines {
		within(t, dir+" lines", lines[dir], maxPackageLines)
	}
}

// TestEveryCeilingIsInUse finds exceptions for things that do not exist.
func TestEveryCeilingIsInUse(t *testing.T) {
	there := map[string]bool{}
	for _, s := range sources(t) {
		there[s.path], there[s.dir] = true, true
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				there[s.path+":"+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if named, ok := spec.(*ast.TypeSpec); ok {
						there[s.dir+"."+named.Name.Name] = true
					}
				}
			}
		}
	}
	for name, c := range large {
		if thing, _, _ := strings.Cut(name, " "); !there[thing] || c.why == "" {
			t.Errorf("%s: there is nothing of that name, or no reason", name)
		}
	}
}

// receiver returns the name of the type that f is a method of, or "".
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return ""
	}
	expr := f.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

func TestNoGoto(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if b, ok := n.(*ast.BranchStmt); ok && b.Tok == token.GOTO {
				t.Errorf("%s: goto", s.pos(b.Pos()))
			}
			return true
		})
	}
}
