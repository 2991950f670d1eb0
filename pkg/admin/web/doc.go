// Package web holds what a node's HTTP interfaces share: the server with its timeouts, the checks
// before an endpoint (TLS, requested host, origin site), request bodies and their memory,
// publishing, and the error table.
//
// It does not know the interfaces: each one passes in how it answers and refuses. It owns no
// listener and starts no goroutine.
//
// DESIGN.md numbers the invariants and says where to start.
package web
