// Package filter chooses messages by an expression over what is known of them besides
// their body: header, key, tag, partition, timestamp, attempts and size.
//
//	header.type == "order" && key != ""
//
// The language is that of github.com/expr-lang/expr without its loops, ranges, variables
// and closures, so that what an evaluation costs is bounded by the lengths of the expression
// and of the header.
//
// The package knows the language and what a message offers to it. It refuses to know what
// becomes of messages that are not chosen, and where expressions are kept.
//
// Invariants: whoever compiles the same text gets the same choice; a message on which the
// evaluation fails is not chosen.
package filter
