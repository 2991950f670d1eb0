package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// parse returns a source for a text.
func parse(t *testing.T, text string) source {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "x.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return source{path: "x.go", fset: fset, file: file}
}

// TestChangesOfPackageVariablesAreSeen holds the rule of state_test.go to what
// it is for.
func TestChangesOfPackageVariablesAreSeen(t *testing.T) {
	tests := []struct {
		name, body string
		own, want  bool
	}{
		{"assigned", "v = nil", true, true},
		{"an element assigned", "v[1] = 2", true, true},
		{"deleted from", "delete(v, 1)", true, true},
		{"counted", "v[1]++", true, true},
		{"its address taken", "_ = &v", true, true},
		{"read", "_ = v[1]", true, false},
		{"shadowed", "v := map[int]int{}; v[1] = 2", true, false},
		{"a field of that name", "var s struct{ v int }; s.v = 1", true, false},
		{"assigned in another file", "v = nil", false, true},
		{"shadowed in another file", "v := 1; v = 2; _ = v", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			declared := "package x\n\nvar v = map[int]int{}\n"
			vars := parse(t, declared)
			use := parse(t, "package x\n\nfunc f() { "+tt.body+" }\n")
			if tt.own {
				use = parse(t, declared+"\nfunc f() { "+tt.body+" }\n")
				vars = use
			}
			v := packageVars(vars)[0]
			if got := changes(use, v, tt.own) != token.NoPos; got != tt.want {
				t.Errorf("%q: changed %v, want %v", tt.body, got, tt.want)
			}
		})
	}
}

func TestEmbeddedFilesAndGroupsAreTold(t *testing.T) {
	s := parse(t, `package x

import _ "embed"

//go:embed x
var page []byte

var (
	a, b = 1, 2
	c    int
)
`)
	vars := packageVars(s)
	if len(vars) != 4 || !vars[0].embedded || vars[1].value == nil || vars[3].value != nil {
		t.Errorf("read %+v", vars)
	}
}

func TestReceiversAreNamedWithoutTheirPointersAndParameters(t *testing.T) {
	s := parse(t, "package x\n\nfunc (a *T[K]) f() {}\nfunc (T[K, V]) g() {}\nfunc (*T) h() {}\nfunc i() {}\n")
	want := []string{"T", "T", "T", ""}
	for i, d := range s.file.Decls {
		if got := receiver(d.(*ast.FuncDecl)); got != want[i] {
			t.Errorf("method %d belongs to %q, want %q", i, got, want[i])
		}
	}
}
