package filter

import (
	"regexp/syntax"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
)

// maxPattern is the maximum size of all regular expressions of a filter together: characters and
// operators, where repeated parts count as often as they are repeated. A match takes at most that
// many steps per byte of text.
const maxPattern = 500

// patterns adds up the sizes of the regular expressions of an expression.
type patterns struct {
	size  int
	wrong *file.Error // the position at which they become too large
}

// Visit implements ast.Visitor.
func (p *patterns) Visit(node *ast.Node) {
	n, is := (*node).(*ast.BinaryNode)
	if !is || n.Operator != "matches" {
		return
	}
	text, constant := n.Right.(*ast.StringNode)
	if !constant {
		return // refused elsewhere
	}
	re, err := syntax.Parse(text.Value, syntax.Perl)
	if err != nil {
		return // it does not compile
	}
	if p.size += sizeOf(re); p.size > maxPattern && p.wrong == nil {
		p.wrong = &file.Error{Location: n.Location(), Message: "the regular expressions are too large: shorten them, or repeat less"}
	}
}

// sizeOf returns the size of a regular expression, up to slightly more than
// maxPattern.
func sizeOf(re *syntax.Regexp) int {
	n := max(len(re.Rune), 1) // the length of a literal, or twice the number of ranges of a class
	for _, part := range re.Sub {
		n = min(n+sizeOf(part), maxPattern+1)
	}
	if re.Op == syntax.OpRepeat {
		n = min(n*max(re.Min, re.Max, 1), maxPattern+1)
	}
	return n
}

// checkPatterns refuses an expression with large regular expressions before they are
// compiled. It leaves syntax errors to the compiler.
func checkPatterns(text string) error {
	tree, err := parser.Parse(text)
	if err != nil {
		return nil
	}
	p := &patterns{}
	ast.Walk(&tree.Node, p)
	if p.wrong != nil {
		return located(text, p.wrong)
	}
	return nil
}
