package client

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/golden"
)

// example matches a block of the guide and the name of the function shown in it.
var example = regexp.MustCompile("(?ms)^<!-- (Example\\w*) -->\n```go\n(.*?)^```\n")

// TestGuideShowsWhatTheExamplesDo compares each block of docs/guide/client.md with the named
// example, which go test runs. With -update it writes the blocks.
func TestGuideShowsWhatTheExamplesDo(t *testing.T) {
	const page = "../../docs/guide/client.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	bodies := exampleBodies(t)
	seen := 0
	after := example.ReplaceAllStringFunc(string(text), func(block string) string {
		m := example.FindStringSubmatch(block)
		body, ok := bodies[m[1]]
		if !ok {
			t.Errorf("there is no %s", m[1])
			return block
		}
		seen++
		if m[2] != body && !golden.Update() {
			t.Errorf("%s differs from what the guide shows; run the test with -update", m[1])
		}
		return "<!-- " + m[1] + " -->\n```go\n" + body + "```\n"
	})
	if seen < 5 {
		t.Errorf("the guide shows %d examples", seen)
	}
	if golden.Update() {
		if err := os.WriteFile(page, []byte(after), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// exampleBodies returns the statements of each example, with the usual address.
func exampleBodies(t *testing.T) map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "example_test.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(f.Name.Name, "Example") {
			continue
		}
		var out bytes.Buffer
		node := &printer.CommentedNode{Node: f.Body, Comments: file.Comments}
		if err := (&printer.Config{Mode: printer.UseSpaces, Tabwidth: 4}).Fprint(&out, fset, node); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		for i, l := range lines {
			lines[i] = strings.TrimPrefix(l, "    ")
		}
		body := strings.Join(lines[1:len(lines)-1], "\n") + "\n" // without the braces
		bodies[f.Name.Name] = strings.ReplaceAll(body, "address()", `"127.0.0.1:4150"`)
	}
	return bodies
}
