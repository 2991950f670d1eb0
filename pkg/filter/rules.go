package filter

import (
	"reflect"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
)

// rules refuse constructs whose evaluation is not bounded by the lengths of the
// expression and the message, and record which variables an expression uses.
type rules struct {
	uses  map[string]bool
	wrong *file.Error // the first violation
}

// Visit implements ast.Visitor.
func (r *rules) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == "$env" { // it would bypass the record of used variables
			r.refuse(n, "$env is not a variable of a filter")
		}
		r.uses[n.Value] = true
	case *ast.BinaryNode:
		r.binary(n)
	case *ast.VariableDeclaratorNode, *ast.SequenceNode:
		r.refuse(*node, "variables and sequences are not allowed in a filter")
	case *ast.PredicateNode, *ast.PointerNode:
		r.refuse(*node, "loops are not allowed in a filter")
	case *ast.CallNode:
		r.refuse(*node, "methods cannot be called in a filter")
	case *ast.SliceNode:
		r.refuse(*node, "slices are not allowed in a filter")
	case *ast.MemberNode:
		if n.Method {
			r.refuse(*node, "methods cannot be called in a filter")
		}
	}
}

func (r *rules) binary(n *ast.BinaryNode) {
	switch n.Operator {
	case "..":
		r.refuse(n, "ranges are not allowed in a filter: compare with >= and <=")
	case "matches":
		if _, constant := n.Right.(*ast.StringNode); !constant {
			r.refuse(n, "matches needs a regular expression in quotes")
		}
	case "+": // concatenation would build long texts
		if !numeric(n.Left) && !numeric(n.Right) {
			r.refuse(n, "+ needs a number on one side")
		}
	}
}

// numeric reports whether a node is a number for every message.
func numeric(n ast.Node) bool {
	t := n.Type()
	if t == nil {
		return false
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Float64:
		return true
	default:
		return false
	}
}

func (r *rules) refuse(n ast.Node, why string) {
	if r.wrong == nil {
		r.wrong = &file.Error{Location: n.Location(), Message: why}
	}
}

// broken returns the error of the first rule that the expression violates, or
// nil.
func (r *rules) broken() error {
	if r.wrong == nil {
		return nil
	}
	return r.wrong
}
