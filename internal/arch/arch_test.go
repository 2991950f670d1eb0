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

// TestChangesOfPackageVariablesAreSeen tests the rule of state_test.go.
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

func TestEmbeddedFilesAndGroupsAreRecognized(t *testing.T) {
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

func TestCeilingsOnlyFall(t *testing.T) {
	for _, tt := range []struct {
		n, limit int
		c        ceiling
		known    bool
		want     string
	}{
		{600, maxFileLines, ceiling{}, false, ""},
		{601, maxFileLines, ceiling{}, false, "601, over 600"},
		{630, maxFileLines, ceiling{630, "why"}, true, ""},
		{631, maxFileLines, ceiling{630, "why"}, true, "631, over its ceiling of 630, which only falls"},
		{629, maxFileLines, ceiling{630, "why"}, true, "629: lower its ceiling of 630 to 629"},
		{600, maxFileLines, ceiling{630, "why"}, true, "600, within 600: take its ceiling away"},
		{5001, maxPackageLines, ceiling{}, false, "5001, over 5000"},
		{5101, maxPackageLines, ceiling{5200, "why"}, true, ""},
		{5200, maxPackageLines, ceiling{5200, "why"}, true, ""},
		{5201, maxPackageLines, ceiling{5200, "why"}, true, "5201, over its ceiling of 5200, which only falls"},
		{5100, maxPackageLines, ceiling{5200, "why"}, true, "5100: lower its ceiling of 5200 to 5100"},
	} {
		if got := judge(tt.n, tt.limit, tt.c, tt.known); got != tt.want {
			t.Errorf("%d of %d with %v: %q, want %q", tt.n, tt.limit, tt.c, got, tt.want)
		}
	}
}
