package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
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
		{25, maxMethods, ceiling{}, false, ""},
		{26, maxMethods, ceiling{}, false, "26, over 25"},
		{30, maxMethods, ceiling{30, "why"}, true, ""},
		{31, maxMethods, ceiling{30, "why"}, true, "31, over its ceiling of 30, which only falls"},
		{29, maxMethods, ceiling{30, "why"}, true, "29: lower its ceiling of 30 to 29"},
		{25, maxMethods, ceiling{30, "why"}, true, "25, within 25: take its ceiling away"},
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

func TestEmbeddedMethodsAreCounted(t *testing.T) {
	s := parse(t, `package x

type A struct{}
func (A) a() {}
func (*A) b() {}
type B struct{ *A; C }
func (B) a() {}
func (B) d() {}
type C struct{}
func (*C) c() {}
type I interface{ e(); f() }
type J interface{ I; f(); g() }
type K struct{ I }
type G[T any] struct{ A; t T }
func (G[T]) h() {}
type alias = B
type N B
type E interface{ error; e() }
`)
	p, err := (&types.Config{}).Check(module+"/x", s.fset, []*ast.File{s.file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"A": 2, "B": 4, "C": 1, "I": 2, "J": 3, "K": 2, "G": 3, "N": 3, "E": 1}
	if got := methodSets(p); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}
