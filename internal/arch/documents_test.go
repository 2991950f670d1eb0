package arch

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestArchitectureNamesEveryPackage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for dir := range floors {
		if !strings.Contains(string(page), "`"+dir+"`") {
			t.Errorf("docs/architecture.md does not speak of %s", dir)
		}
	}
}

// TestEveryStepOfAMessageExists checks the files and functions of the walk in docs/architecture.md.
func TestEveryStepOfAMessageExists(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, walk, _ := strings.Cut(string(page), "\n## One message's life\n")
	walk, _, _ = strings.Cut(walk, "\n## ")
	steps := regexp.MustCompile("(?m)^\\|.*\\| `(\\S+\\.go)` \\| `(\\w+)\\.(\\w+)` \\|$").FindAllStringSubmatch(walk, -1)
	if rows := strings.Count(walk, "\n| "); len(steps) == 0 || len(steps) != rows-1 {
		t.Errorf("%d of %d rows name a file and a method", len(steps), rows-1)
	}
	for _, step := range steps {
		file, err := os.ReadFile(filepath.Join(root, step[1]))
		if err != nil {
			t.Error(err)
		} else if !regexp.MustCompile(`(?m)^func \(\w+ \*?` + step[2] + `\) ` + step[3] + `\(`).Match(file) {
			t.Errorf("%s has no method %s.%s", step[1], step[2], step[3])
		}
	}
}

// statusOf matches the third line of a record: its status, and the records that amend it.
var statusOf = regexp.MustCompile(`^Status: (accepted(, amended by \S.*)?|superseded by \S.*)$`)

func TestDecisionsAreNumberedAndHaveAStatus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/adr/*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no records: %v", err)
	}
	numbers := map[string]string{}
	for _, file := range files { // the template is number 0
		name := filepath.Base(file)
		number, _, _ := strings.Cut(name, "-")
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || len(number) != 4 {
			t.Fatalf("%s does not begin with a number of four digits", name)
		}
		if other := numbers[number]; other != "" {
			t.Errorf("%s has the number of %s", name, other)
		}
		numbers[number] = name
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitN(string(content), "\n", 4)
		if !strings.HasPrefix(lines[0], fmt.Sprintf("# %d. ", n)) {
			t.Errorf("%s does not begin with its number", name)
		}
		if n > 0 && (len(lines) < 4 || !statusOf.MatchString(lines[2])) {
			t.Errorf("%s does not say its status in its third line", name)
		}
	}
}

// TestEveryLessonHasItsTests checks that docs/lessons.md names existing tests.
func TestEveryLessonHasItsTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/lessons.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testsByName(t)
	named := regexp.MustCompile("`([a-z/]+:(?:Test|Fuzz)[A-Za-z]+)`")
	n := 0
	for line := range strings.SplitSeq(string(page), "\n") {
		if !strings.HasPrefix(line, fmt.Sprintf("| %d |", n+1)) {
			continue
		}
		n++
		found := named.FindAllStringSubmatch(line, -1)
		if len(found) == 0 {
			t.Errorf("lesson %d has no test", n)
		}
		for _, m := range found {
			if !tests[m[1]] {
				t.Errorf("lesson %d: there is no %s", n, m[1])
			}
		}
	}
	if n < 40 {
		t.Errorf("found only %d lessons", n)
	}
}

// testsByName returns every test as package:name.
func testsByName(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				tests[s.dir+":"+f.Name.Name] = true
			}
		}
	}
	return tests
}
