package arch

import (
	"go/ast"
	"strings"
	"testing"
)

func TestEveryPackageIsDocumented(t *testing.T) {
	said := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		said[s.dir] = said[s.dir] || s.file.Doc != nil && len(strings.TrimSpace(s.file.Doc.Text())) > 0
	}
	for dir, ok := range said {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.file.Name.Name == "main" || s.generated() {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				recv := receiver(d)
				if d.Name.IsExported() && (recv == "" || ast.IsExported(recv)) && d.Doc == nil {
					t.Errorf("%s: %s is not documented", s.pos(d.Pos()), strings.TrimPrefix(recv+"."+d.Name.Name, "."))
				}
			case *ast.GenDecl:
				checkGenDecl(t, s, d)
			}
		}
	}
}

// checkGenDecl requires a comment for each exported type, and for each exported constant and
// variable or its group.
func checkGenDecl(t *testing.T, s source, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && spec.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
				t.Errorf("%s: type %s is not documented", s.pos(spec.Pos()), spec.Name.Name)
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() && spec.Doc == nil && spec.Comment == nil && d.Doc == nil {
					t.Errorf("%s: %s is not documented", s.pos(name.Pos()), name.Name)
				}
			}
		}
	}
}
