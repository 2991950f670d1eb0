package arch

import (
	"go/ast"
	"go/token"
	"testing"
)

// What may grow to where. Something larger wants the noun that is missing, or a
// line in large with the reason.
const (
	maxFileLines = 600
	maxFuncLines = 70
	maxMethods   = 25
)

// large lists what is over a limit: "path" for a file, "path:Func" for a
// function, "dir.Type" for a type, and why that is right.
var large = map[string]string{}

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	methods := map[string]int{}
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		if _, known := large[s.path]; s.lines > maxFileLines && !known {
			t.Errorf("%s has %d lines, over %d", s.path, s.lines, maxFileLines)
		}
		if s.test {
			continue // a table may be long
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if recv := receiver(f); recv != "" {
				methods[s.dir+"."+recv]++
			}
			n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
			if _, known := large[s.path+":"+f.Name.Name]; n > maxFuncLines && !known {
				t.Errorf("%s: %s has %d lines, over %d", s.pos(f.Pos()), f.Name.Name, n, maxFuncLines)
			}
		}
	}
	for name, n := range methods {
		if _, known := large[name]; n > maxMethods && !known {
			t.Errorf("%s has %d methods, over %d", name, n, maxMethods)
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
