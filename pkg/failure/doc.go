// Package failure is the registry of what can go wrong and reach someone: a client over the NSQ
// protocol, a program over HTTP, an operator at brokerctl, or another node.
//
// It decides how each failure is called on each of these ways, and nothing else: who fails
// returns a row of the registry, and every report of it reads the row.
//
// Invariants:
//
//  1. A failure is one row, a Kind: its text, what it means for the data, and its names.
//  2. A Kind has a number between nodes that is never given to another one.
//  3. What the row does not say follows from its Code: the HTTP status, brokerctl's exit code,
//     and whether another attempt may succeed.
//  4. An error of no Kind has the generic one of its fate.
//
// Start at Kind; kinds.go has the rows, code.go the codes of /v1, wire.go NSQ's.
package failure
