package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/test/model"
)

const root = "../.."

func listed(t *testing.T) []mistake {
	t.Helper()
	all, err := mistakes()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestParse(t *testing.T) {
	got, err := parse(strings.NewReader("# These are wrong.\n\nmistake one: it adds\nfile a/b.go\ntest ./a ./c -run A|B\n x\n-\ty\n+\n+\tz\n w\n\nmistake two\nfile c.go\ntest .\n-x\n"))
	want := []mistake{
		{name: "one: it adds", file: "a/b.go", old: "x\n\ty\nw\n", with: "x\n\n\tz\nw\n", tests: []string{"./a", "./c"}, run: "A|B"},
		{name: "two", file: "c.go", old: "x\n", tests: []string{"."}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for text, complaint := range map[string]string{
		"file a.go\n":                       "1: no mistake line",
		"mistake a\nfiel a.go\n":            "2: \"fiel a.go\" is not",
		"mistake a\nfile a.go\nfile b.go\n": "3: \"file b.go\" is not",
		"mistake a\n-x\nfile a.go\n":        "3: the lines of the change end",
		"mistake a\n-x\n\ty\n":              "3: the lines of the change end",
	} {
		if _, err := parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), complaint) {
			t.Errorf("%q: %v, want %q", text, err, complaint)
		}
	}
}

// TestEveryMistakeCanBePlanted checks that the list matches the sources.
func TestEveryMistakeCanBePlanted(t *testing.T) {
	names := map[string]bool{}
	for _, m := range listed(t) {
		if names[m.name] {
			t.Errorf("%q is listed twice", m.name)
		}
		names[m.name] = true
		source, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		changed, err := m.apply(string(source))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		} else if changed == string(source) {
			t.Errorf("%s changes nothing", m.name)
		}
		if len(m.tests) == 0 {
			t.Errorf("%s names no tests", m.name)
		}
	}
}

// TestEveryMistakeBuilds checks the types of each changed package, as the compiler does before the
// tests run. Without it, a mistake that does not build is found only when its part is planted.
func TestEveryMistakeBuilds(t *testing.T) {
	packages := loadPackages(t)
	for _, m := range listed(t) {
		dir := filepath.Dir(m.file)
		source, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Fatal(err)
		}
		changed, err := m.apply(string(source))
		if err != nil {
			continue // TestEveryMistakeCanBePlanted says so
		}
		if err := packages.check(dir, filepath.Base(m.file), changed); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// packages are those of the module, with the compiled form of all that they import.
type packages struct {
	files    map[string][]string // by directory of the package, relative to the module
	exports  map[string]string   // files of export data, by import path
	fset     *token.FileSet
	parsed   map[string]*ast.File // unchanged files, by path
	importer types.Importer
}

func loadPackages(t *testing.T) *packages {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles,Module", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	module, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	p := &packages{files: map[string][]string{}, exports: map[string]string{}, fset: token.NewFileSet(), parsed: map[string]*ast.File{}}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var listed struct {
			Dir, ImportPath, Export string
			GoFiles                 []string
		}
		if err := d.Decode(&listed); err != nil {
			t.Fatal(err)
		}
		p.exports[listed.ImportPath] = listed.Export
		if dir, err := filepath.Rel(module, listed.Dir); err == nil && filepath.IsLocal(dir) {
			p.files[dir] = listed.GoFiles
		}
	}
	p.importer = importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(p.exports[path]) })
	return p
}

// check checks the types of the package in dir whose file has the given text.
func (p *packages) check(dir, file, text string) error {
	all := p.files[dir]
	if !slices.Contains(all, file) {
		return fmt.Errorf("%s is not built on %s", filepath.Join(dir, file), runtime.GOOS)
	}
	var parsed []*ast.File
	for _, name := range all {
		path := filepath.Join(root, dir, name)
		f, source := p.parsed[path], any(nil)
		if name == file {
			f, source = nil, text
		}
		if f == nil {
			var err error
			if f, err = parser.ParseFile(p.fset, path, source, parser.SkipObjectResolution); err != nil {
				return err
			}
		}
		if name != file {
			p.parsed[path] = f
		}
		parsed = append(parsed, f)
	}
	_, err := (&types.Config{Importer: p.importer}).Check(dir, p.fset, parsed, nil)
	return err
}

// TestEveryMistakeHasATest: if tests have moved to another package, a pattern would match none of
// them, and the mistake would not be found.
func TestEveryMistakeHasATest(t *testing.T) {
	named := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	inDir := map[string][]string{} // names of tests, by directory
	testsIn := func(dir string) []string {
		if all, known := inDir[dir]; known {
			return all
		}
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		all := []string{}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range named.FindAllStringSubmatch(string(source), -1) {
				all = append(all, m[1])
			}
		}
		inDir[dir] = all
		return all
	}
	for _, m := range listed(t) {
		top, _, _ := strings.Cut(m.run, "/")
		pattern, err := regexp.Compile(top)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if !slices.ContainsFunc(m.tests, func(dir string) bool { return slices.ContainsFunc(testsIn(dir), pattern.MatchString) }) {
			t.Errorf("%s: no test of %v matches %q", m.name, m.tests, m.run)
		}
	}
}

// TestEveryRuleIsDropped: each rule of the model has a mistake, or is listed as one that no line of
// code can drop.
func TestEveryRuleIsDropped(t *testing.T) {
	dropped := map[string]bool{}
	for _, m := range listed(t) {
		rule, _, _ := strings.Cut(m.name, ":")
		dropped[rule] = true
	}
	for _, rule := range model.RuleNames() {
		_, excused := structural()[rule]
		if dropped[rule] == excused {
			t.Errorf("rule %s: dropped by a mistake %v, excused %v", rule, dropped[rule], excused)
		}
	}
}

func TestEveryMistakeIsInOnePart(t *testing.T) {
	parts := map[string]int{}
	for _, part := range []string{"1/4", "2/4", "3/4", "4/4"} {
		chosen, err := (&options{part: part}).choose(listed(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range chosen {
			parts[m.name]++
		}
	}
	for _, m := range listed(t) {
		if parts[m.name] != 1 {
			t.Errorf("%q is in %d parts", m.name, parts[m.name])
		}
	}
	for _, part := range []string{"", "0/4", "5/4", "1/0", "1"} {
		if _, err := (&options{part: part}).choose(listed(t)); err == nil {
			t.Errorf("part %q is taken", part)
		}
	}
}

// TestVerdicts runs the command on a separate module with three mistakes: one that a test finds,
// one that none finds, and one that does not build.
func TestVerdicts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module example.com/m\n\ngo 1.26\n",
		"add/add.go":    "package add\n\n// Sum adds.\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n\n// Zero is not tested.\nfunc Zero() int {\n\treturn 0\n}\n",
		"add/a_test.go": "package add\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		old, with string
		want      outcome
		detail    string
	}{
		{"\treturn a + b\n", "\treturn a - b\n", outcomeFound, "TestSum"},
		{"\treturn 0\n", "\treturn 1\n", outcomeMissed, "./add"},
		{"\treturn 0\n", "\treturn x\n", outcomeBroken, "undefined: x"},
		{"}\n", "", outcomeBroken, "2 times"},
		{"return 0\n", "", outcomeBroken, "0 times"},
	} {
		m := mistake{name: "m", file: "add/add.go", old: tc.old, with: tc.with, tests: []string{"./add"}}
		if v := m.plant(t.Context(), dir); v.outcome != tc.want || !strings.Contains(v.detail, tc.detail) {
			t.Errorf("%s to %s: %s%s", tc.old, tc.with, v.outcome, v.detail)
		}
	}
	source, err := os.ReadFile(filepath.Join(dir, "add/add.go"))
	if err != nil || !bytes.Contains(source, []byte("a + b")) {
		t.Errorf("the work tree was changed: %s, %v", source, err)
	}
	if err := summary([]verdict{{outcome: outcomeFound}}); err != nil {
		t.Error(err)
	}
	for _, bad := range []outcome{outcomeMissed, outcomeBroken} {
		if summary([]verdict{{outcome: outcomeFound}, {outcome: bad}}) == nil {
			t.Errorf("%s is no failure", bad)
		}
	}
}
