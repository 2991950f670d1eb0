package arch

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxText is the maximum size of a file that is read as text.
const maxText = 4 << 20

// texts calls f with every text file of the repository that is not generated
// by a package manager.
func texts(t *testing.T, f func(name, text string)) {
	t.Helper()
	err := walk(func(name string) error {
		switch path.Base(name) {
		case "go.sum", "package-lock.json", "LICENSE":
			return nil
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) || err == nil && (len(b) > maxText || strings.IndexByte(string(b), 0) >= 0) {
			return nil
		}
		if err == nil {
			f(name, string(b))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRepositoryNamesNoLocalHosts finds text that binds the repository to one machine or network:
// hosts of package registries, home directories.
func TestRepositoryNamesNoLocalHosts(t *testing.T) {
	forbidden := regexp.MustCompile(`\b(registry|proxy|mirror|sum)[.][a-z0-9-]+[.](org|com|io|dev)\b|` +
		`(^|[\s"'` + "`" + `(=])/(root|home|Users)/`)
	texts(t, func(name, text string) {
		for i, line := range strings.Split(text, "\n") {
			if m := forbidden.FindString(line); m != "" && name != "internal/arch/words_test.go" {
				t.Errorf("%s:%d: %q has no place here", name, i+1, m)
			}
		}
	})
}

// TestNoTODOs finds notes to oneself in comments.
func TestNoTODOs(t *testing.T) {
	note := regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				if s.dir != "internal/arch" && note.MatchString(c.Text) {
					t.Errorf("%s: %s", s.pos(c.Pos()), c.Text)
				}
			}
		}
	}
}

// TestTestsDoNotSleep finds tests that hope that something has happened by then.
func TestTestsDoNotSleep(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if pkg, name := qualified(n); pkg == "time" && name == "Sleep" && !inBubble(s) {
				t.Errorf("%s: time.Sleep in a test", s.pos(n.Pos()))
			}
			return true
		})
	}
}

// inBubble reports whether the file runs its tests with virtual time, where
// sleeping takes no real time. All simulations do.
func inBubble(s source) bool {
	if s.dir == "test/sim" || strings.HasPrefix(s.dir, "test/sim/") {
		return true
	}
	return slices.Contains(s.imports(), "testing/synctest")
}

// TestAtomicsAreTyped finds the functions of sync/atomic that take a pointer.
func TestAtomicsAreTyped(t *testing.T) {
	raw := regexp.MustCompile(`^(Add|And|CompareAndSwap|Load|Or|Store|Swap)(Int|Uint|Pointer)`)
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if pkg, name := qualified(n); pkg == "atomic" && raw.MatchString(name) {
				t.Errorf("%s: atomic.%s: use a typed atomic", s.pos(n.Pos()), name)
			}
			return true
		})
	}
}

// qualified returns p and Name of a call's p.Name.
func qualified(n ast.Node) (pkg, name string) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", ""
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return id.Name, sel.Sel.Name
}

// TestFormatsHaveGoldenFiles wants every description of a format to name the
// golden files that hold it to its word.
func TestFormatsHaveGoldenFiles(t *testing.T) {
	named := regexp.MustCompile("`([^`\\s]*testdata/[^`\\s]+)`")
	files, err := filepath.Glob(filepath.Join(root, "docs/format/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if filepath.Base(file) == "README.md" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := named.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names no golden file", filepath.Base(file))
		}
		for _, m := range found {
			hits, err := filepath.Glob(filepath.Join(root, m[1]))
			if err != nil || len(hits) == 0 {
				t.Errorf("%s names %s, which is not there", filepath.Base(file), m[1])
			}
		}
	}
}

// TestLinksResolve follows the links of our documents to our files.
func TestLinksResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	texts(t, func(name, text string) {
		if path.Ext(name) != ".md" {
			return
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, path.Dir(name), m[1])); err != nil {
				t.Errorf("%s: link to %s leads nowhere", name, m[1])
			}
		}
	})
}

// maxMarkdown is how many characters a line of a document may have. Tables and what
// people copy, between fences, may be wider.
const maxMarkdown = 120

// TestLinesOfDocumentsAreShort measures the lines of all Markdown files.
func TestLinesOfDocumentsAreShort(t *testing.T) {
	texts(t, func(name, text string) {
		if path.Ext(name) != ".md" {
			return
		}
		fenced := false
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if n := utf8.RuneCountInString(line); n > maxMarkdown && !fenced && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d: %d characters, over %d", name, i+1, n, maxMarkdown)
			}
		}
	})
}

// replaced are words in strings that the glossary replaces. Words that also have another meaning
// are not listed.
var replaced = regexp.MustCompile(`(?i)\b(any more|by (it|them)sel(f|ves)|of late|come again|cut short|hand(s|ed|ing)? (over|out)|` +
	`looks? at|on the move|passed over|put back|tried again|try again|what became of|whose data)\b`)

// replacedNouns are nouns that the glossary replaced and that documents use in no other sense.
var replacedNouns = regexp.MustCompile(`(?i)\b(outlets?|inlets?|feeds?|parcels?)\b`)

// TestDocumentsUseTheNounsOfTheGlossary reads all Markdown files except the glossary.
func TestDocumentsUseTheNounsOfTheGlossary(t *testing.T) {
	texts(t, func(name, text string) {
		if path.Ext(name) != ".md" || path.Base(name) == "glossary.md" {
			return
		}
		for i, line := range strings.Split(text, "\n") {
			if m := replacedNouns.FindString(line); m != "" {
				t.Errorf("%s:%d: %q is replaced by another word in docs/glossary.md", name, i+1, m)
			}
		}
	})
}

// TestMessagesUseTheWordsOfTheGlossary reads printable text: strings of more than one word.
func TestMessagesUseTheWordsOfTheGlossary(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !strings.HasPrefix(s.path, "pkg/") && !strings.HasPrefix(s.path, "cmd/") && !strings.HasPrefix(s.path, "internal/config/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				if m := replaced.FindString(lit.Value); m != "" {
					t.Errorf("%s: %s: %q is not a word of docs/glossary.md", s.pos(lit.Pos()), lit.Value, m)
				}
			}
			return true
		})
	}
}
