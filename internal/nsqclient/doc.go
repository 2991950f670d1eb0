// Package nsqclient is a minimal client of the NSQ protocol V2 for the command line: one connection
// that consumes exactly as many messages as requested. For publishing or automatic reconnection use
// pkg/client.
//
// It writes commands, reads frames and answers heartbeats. It does not support lookup,
// reconnection, TLS or compression: a failed connection stays failed.
//
// Invariants: commands are sent in call order; the receive queue is bounded by the ready count.
package nsqclient
