// Package web is what the HTTP interfaces of a node have in common: the server with
// its timeouts, the checks that a request passes before it comes to an endpoint (TLS,
// the host that it asks for, the site that sends it), bodies and what they may take
// of the memory, how messages are published, and the table of failures.
//
// It refuses to know the interfaces: whoever serves one hands in how it answers and
// how it refuses. It owns no listener and starts no goroutine.
//
// Invariants:
//
//   - A body takes memory as its bytes arrive, never as they are announced, and
//     all bodies together take no more than their budget.
//   - Every failure has one row in the table of errors.go, which gives its code
//     on the NSQ endpoints and on /v1. One that the table does not know is
//     answered by its fate, so that a client is told whether something may
//     have happened.
package web
