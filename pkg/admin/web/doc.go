// Package web holds what a node's HTTP interfaces share: the server with its timeouts, the checks
// before an endpoint (TLS, requested host, origin site), request bodies and their memory,
// publishing, and the error table.
//
// It does not know the interfaces: each one passes in how it answers and refuses. It owns no
// listener and starts no goroutine.
//
// Invariants:
//   - A body is charged for memory as its bytes arrive, not by its announced length, and all bodies
//     together stay within their budget.
//   - Every failure has one row in the table of errors.go, which gives its code on the NSQ endpoints
//     and on /v1. An error missing there is answered by its fate, which tells the client whether the
//     request may have been carried out.
package web
