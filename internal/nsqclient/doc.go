// Package nsqclient is a small client of the NSQ protocol V2, made for the
// command line: one connection that publishes, consumes, or both.
//
// It knows how commands are written and frames are read, pairs answers with
// commands first in, first out, and answers heartbeats. It refuses to know about
// lookup, reconnecting, retries, TLS and compression: a connection that fails
// is over.
//
// Invariants: every publish that was accepted is answered exactly once, by the
// broker or by the end of the connection; what is queued for the broker is
// bounded by the window of publishes and the ready count.
package nsqclient
