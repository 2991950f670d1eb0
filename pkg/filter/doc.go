// Package filter selects messages by an expression over their metadata: header, key, tag,
// partition, timestamp, attempts and size.
//
//	header.type == "order" && key != ""
//
// The language is that of github.com/expr-lang/expr without its loops, ranges, variables
// and closures, so that what an evaluation costs is bounded by the lengths of the expression
// and of the header.
//
// The package knows the language and the variables of a message. It does not know what happens
// to filtered messages, or where expressions are stored.
//
// Invariants: compiling the same text gives the same selection everywhere; a message on which
// the evaluation fails is not selected.
package filter
