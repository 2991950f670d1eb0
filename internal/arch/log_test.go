package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/golden"
)

const (
	logPage  = "docs/operations/log.md"
	listMark = "<!-- all lines -->\n"
	// minExplained is the minimum number of warnings and errors that the page explains.
	minExplained = 25
)

// logLine is a call that writes a line to the node's log.
type logLine struct{ room, level, text, attrs string }

// otherWords are the calls whose text is not a constant, and the reason.
var otherWords = map[string]string{
	"cmd/brokerd/nsqd.go":             "the stand-in writes the lines of nsqd",
	"cmd/brokerd/nsqlookupd.go":       "likewise those of nsqlookupd",
	"pkg/meta/raftstore/logger.go":    "passes on what the Raft library logs",
	"internal/complaint/complaint.go": "writes the constant of its caller",
}

// TestEveryLogLineIsOnItsPage compares the messages of all log lines with docs/operations/log.md:
// operators have alerts on them. After a change, rewrite the page with
//
//	go test ./internal/arch -run TestEveryLogLineIsOnItsPage -update
func TestEveryLogLineIsOnItsPage(t *testing.T) {
	lines := logLines(t)
	if len(lines) < 150 {
		t.Fatalf("found only %d log lines", len(lines))
	}
	raw, err := os.ReadFile(filepath.Join(root, logPage))
	if err != nil {
		t.Fatal(err)
	}
	explained, _, found := strings.Cut(string(raw), listMark)
	if !found {
		t.Fatalf("%s has no line %q", logPage, listMark)
	}
	golden.Compare(t, filepath.Join(root, logPage), explained+listMark+logList(lines))
	checkExplained(t, explained, lines)
}

// checkExplained checks that the table of explained messages names each by a beginning that no other has.
func checkExplained(t *testing.T, page string, lines []logLine) {
	t.Helper()
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\w+) \\| .{20,} \\| .{10,} \\|$").FindAllStringSubmatch(page, -1)
	for _, row := range rows {
		var texts []string
		for _, l := range lines {
			if strings.HasPrefix(l.text, row[1]) && strings.Contains(l.level, row[2]) && (row[2] == "warn" || row[2] == "error") {
				texts = append(texts, l.text)
			}
		}
		if slices.Sort(texts); len(slices.Compact(texts)) != 1 {
			t.Errorf("%s explains %s %q, with which %d warnings and errors begin: %q", logPage, row[2], row[1], len(texts), texts)
		}
	}
	if n := strings.Count(page, "\n| `"); len(rows) < minExplained || len(rows) != n {
		t.Errorf("%s explains %d messages in %d rows, want at least %d, each with a meaning and what to do", logPage, len(rows), n, minExplained)
	}
}

// logList is the generated part of the page: a table for each room.
func logList(lines []logLine) string {
	var b strings.Builder
	room := ""
	for _, l := range lines {
		if l.room != room {
			room = l.room
			fmt.Fprintf(&b, "\n### %s\n\n| level | message | attributes |\n| --- | --- | --- |\n", room)
		}
		open, end := "`", "`"
		if strings.Contains(l.text, "`") {
			open, end = "`` ", " ``"
		}
		fmt.Fprintf(&b, "| %s | %s%s%s | %s |\n", l.level, open, l.text, end, l.attrs)
	}
	return b.String()
}

// logLines lists the log lines of brokerd by room, the most severe first, each once.
func logLines(t *testing.T) []logLine {
	t.Helper()
	all := sources(t)
	constants := stringConstants(all)
	var lines []logLine
	for _, s := range all {
		part := s.dir == "cmd/brokerd" || strings.HasPrefix(s.dir, "pkg/") || strings.HasPrefix(s.dir, "internal/")
		if s.test || !part || strings.HasSuffix(s.dir, "test") {
			continue
		}
		for _, d := range s.file.Decls {
			for _, call := range logCalls(t, s, d) {
				text, known := constantText(call.args[0], s.dir, constants)
				switch {
				case known && call.levels == "":
					t.Errorf("%s: the level of the log line is not named in its function", call.at)
				case known:
					keys := slices.Concat(call.loggers, attributes(d, call.args[1:]))
					lines = append(lines, logLine{s.dir, call.levels, text, strings.Join(keys, ", ")})
				case otherWords[s.path] == "":
					t.Errorf("%s: the message of a log line is not a constant: put what varies into attributes", call.at)
				}
			}
		}
	}
	severity := []string{"debug", "info", "warn", "error"}
	slices.SortFunc(lines, func(a, b logLine) int {
		of := func(l logLine) int { return slices.Index(severity, l.level[strings.LastIndexByte(l.level, ' ')+1:]) }
		if a.room != b.room {
			return strings.Compare(a.room, b.room)
		}
		if of(a) != of(b) {
			return of(b) - of(a)
		}
		return strings.Compare(a.text+a.attrs, b.text+b.attrs)
	})
	return slices.Compact(lines)
}

// logCall is a call that logs: its arguments from the message on, and the attributes of its logger.
type logCall struct {
	at, levels string
	args       []ast.Expr
	loggers    []string
}

// logCalls returns the calls of a declaration that log. It reports what looks like one and is not understood.
func logCalls(t *testing.T, s source, decl ast.Decl) (calls []logCall) {
	t.Helper()
	called := map[ast.Expr]bool{}
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			called[fun] = true
			if c, ok := asLogCall(decl, fun, n.Args); ok {
				c.at = s.pos(n.Pos())
				calls = append(calls, c)
			} else if severe(fun) && len(n.Args) > 0 && nameOf(fun.X) != "http" {
				t.Errorf("%s: name the logger log or logger, so that this test knows a log line", s.pos(n.Pos()))
			}
		case *ast.SelectorExpr:
			if severe(n) && isLogger(n.X) && !called[n] {
				t.Errorf("%s: call the logger where the message is, so that this test finds it", s.pos(n.Pos()))
			}
		}
		return true
	})
	return calls
}

// severe reports whether a method has the name of a level.
func severe(fun *ast.SelectorExpr) bool {
	return slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, strings.TrimSuffix(fun.Sel.Name, "Context"))
}

// isLogger reports whether an expression has the name of a logger.
func isLogger(e ast.Expr) bool {
	name := strings.ToLower(nameOf(e))
	return name == "log" || name == "slog" || strings.HasSuffix(name, "logger")
}

// asLogCall interprets a call of a logger or of a complaint.Book, which has the logger as argument.
func asLogCall(decl ast.Decl, fun *ast.SelectorExpr, args []ast.Expr) (logCall, bool) {
	level, skipped, logger := "", 0, fun.X
	byBook := !isLogger(fun.X) && len(args) > 2 && isLogger(args[0])
	if byBook {
		skipped, logger = 2, args[0]
	}
	switch name := fun.Sel.Name; {
	case !byBook && !isLogger(fun.X):
		return logCall{}, false
	case severe(fun):
		level = strings.ToLower(strings.TrimSuffix(name, "Context"))
		if level != strings.ToLower(name) {
			skipped++
		}
	case (name == "Log" || name == "LogAttrs" || name == "Writer" && byBook) && len(args) > 2:
		level = levelsOf(decl, args[1])
		if skipped = 2; byBook && name == "Log" {
			skipped = 3
		}
	default:
		return logCall{}, false
	}
	if len(args) <= skipped {
		return logCall{}, false
	}
	return logCall{levels: level, args: args[skipped:], loggers: loggerAttributes(decl, logger)}, true
}

// loggerAttributes lists the attributes that the function of a call gives to its logger by With.
func loggerAttributes(decl ast.Decl, logger ast.Expr) []string {
	if id, ok := logger.(*ast.Ident); ok {
		logger = assigned(decl, id)
	}
	if call, ok := logger.(*ast.CallExpr); ok {
		if fun, ok := call.Fun.(*ast.SelectorExpr); ok && fun.Sel.Name == "With" {
			return slices.Concat(loggerAttributes(decl, fun.X), attributes(decl, call.Args))
		}
	}
	return nil
}

// assigned returns what a declaration first assigns to a variable, or nil.
func assigned(decl ast.Decl, name *ast.Ident) (value ast.Expr) {
	ast.Inspect(decl, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && value == nil && a.Tok == token.DEFINE && nameOf(a.Lhs[0]) == name.Name {
			value = a.Rhs[0]
		}
		return true
	})
	return value
}

// nameOf returns the last name of an expression such as x.o.Logger or x.log.With("a", b).
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		if fun, ok := e.Fun.(*ast.SelectorExpr); ok && (fun.Sel.Name == "With" || fun.Sel.Name == "WithGroup") {
			return nameOf(fun.X)
		}
	}
	return ""
}

// levelsOf returns the level that an expression names, or those that its function assigns to it.
func levelsOf(decl ast.Decl, level ast.Expr) string {
	var found []string
	add := func(in ast.Node) {
		ast.Inspect(in, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && nameOf(s.X) == "slog" && strings.HasPrefix(s.Sel.Name, "Level") {
				found = append(found, strings.ToLower(strings.TrimPrefix(s.Sel.Name, "Level")))
			}
			return true
		})
	}
	if add(level); len(found) == 0 {
		ast.Inspect(decl, func(n ast.Node) bool {
			if a, ok := n.(*ast.AssignStmt); ok && nameOf(a.Lhs[0]) == nameOf(level) {
				add(a.Rhs[0])
			}
			return true
		})
	}
	return strings.Join(found, " or ")
}

// attributes lists the keys of a line's attributes, and "..." for those that are not known.
func attributes(decl ast.Decl, args []ast.Expr) (keys []string) {
	if len(args) == 1 {
		if id, ok := args[0].(*ast.Ident); ok {
			if list, ok := assigned(decl, id).(*ast.CompositeLit); ok {
				args = list.Elts
			}
		}
	}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if call, ok := arg.(*ast.CallExpr); ok && len(call.Args) > 0 {
			arg = call.Args[0] // slog.String("key", value)
		} else {
			i++
		}
		key, ok := constantText(arg, "", nil)
		if !ok {
			return append(keys, "...")
		}
		keys = append(keys, "`"+key+"`")
	}
	return keys
}

// stringConstants returns the string constants by directory and name.
func stringConstants(all []source) map[string]string {
	known := map[string]string{}
	for _, s := range all {
		ast.Inspect(s.file, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST || s.test {
				return true
			}
			for _, spec := range d.Specs {
				v := spec.(*ast.ValueSpec)
				for i := range min(len(v.Names), len(v.Values)) {
					if text, ok := constantText(v.Values[i], s.dir, nil); ok {
						known[s.dir+"."+v.Names[i].Name] = text
					}
				}
			}
			return true
		})
	}
	return known
}

// constantText returns the value of a string constant: literals, their sums, and names of the package.
func constantText(e ast.Expr, dir string, constants map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		a, ok := constantText(e.X, dir, constants)
		b, also := constantText(e.Y, dir, constants)
		return a + b, ok && also
	case *ast.ParenExpr:
		return constantText(e.X, dir, constants)
	case *ast.Ident:
		text, ok := constants[dir+"."+e.Name]
		return text, ok
	}
	return "", false
}
