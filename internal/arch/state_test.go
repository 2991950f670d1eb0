package arch

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// globals lists the package-level variables that may change, with the reason: "dir.name".
var globals = map[string]string{}

// TestNoPackageLevelState allows a package-level variable to be an error, a table, a compiled
// expression, an embedded file, a pool or a proof that a type implements an interface: values that
// are set once, at their declaration.
func TestNoPackageLevelState(t *testing.T) {
	byDir := map[string][]source{}
	for _, s := range sources(t) {
		if !s.test {
			byDir[s.dir] = append(byDir[s.dir], s)
		}
	}
	for dir, files := range byDir {
		for _, s := range files {
			for _, v := range packageVars(s) {
				if _, known := globals[dir+"."+v.name.Name]; known || v.name.Name == "_" || v.embedded {
					continue
				}
				if v.value == nil {
					t.Errorf("%s: %s has no value of its own: state belongs in a type", s.pos(v.name.Pos()), v.name.Name)
					continue
				}
				for _, other := range files {
					if at := changes(other, v, other.path == s.path); at != token.NoPos {
						t.Errorf("%s: %s, a package-level variable, is changed", other.pos(at), v.name.Name)
					}
				}
			}
		}
	}
}

type packageVar struct {
	name     *ast.Ident
	value    ast.Expr
	embedded bool
}

// packageVars lists the variables that s declares outside functions.
func packageVars(s source) []packageVar {
	var vars []packageVar
	for _, d := range s.file.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, spec := range gen.Specs {
			spec := spec.(*ast.ValueSpec)
			embedded := embeds(gen.Doc) || embeds(spec.Doc)
			for i, name := range spec.Names {
				v := packageVar{name: name, embedded: embedded}
				switch {
				case i < len(spec.Values):
					v.value = spec.Values[i]
				case len(spec.Values) == 1:
					v.value = spec.Values[0]
				}
				vars = append(vars, v)
			}
		}
	}
	return vars
}

func embeds(doc *ast.CommentGroup) bool {
	if doc == nil {
		return false
	}
	for _, c := range doc.List {
		if strings.HasPrefix(c.Text, "//go:embed ") {
			return true
		}
	}
	return false
}

// changes finds assignments to v, to an element or a field of it, and uses of its address. The
// parser resolves names within one file: unresolved ones belong to another file of the package.
func changes(s source, v packageVar, own bool) token.Pos {
	open := map[*ast.Ident]bool{}
	for _, id := range s.file.Unresolved {
		open[id] = true
	}
	is := func(e ast.Expr) bool {
		id := rootName(e)
		if id == nil || id.Name != v.name.Name {
			return false
		}
		if own {
			return id.Obj != nil && id.Obj == v.name.Obj
		}
		return open[id]
	}
	at := token.NoPos
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, lhs := range n.Lhs {
				if n.Tok != token.DEFINE && is(lhs) {
					at = n.Pos()
				}
			}
		case *ast.IncDecStmt:
			if is(n.X) {
				at = n.Pos()
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND && is(n.X) {
				at = n.Pos()
			}
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.Ident)
			if ok && (f.Name == "delete" || f.Name == "clear") && len(n.Args) > 0 && is(n.Args[0]) {
				at = n.Pos()
			}
		}
		return at == token.NoPos
	})
	return at
}

// rootName returns x of x, x.f, x[i], *x and (x).
func rootName(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}
