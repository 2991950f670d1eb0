// Package nsqclient is a small client of the NSQ protocol V2, made for the
// command line: one connection that consumes, to the message exactly as many as it
// is told to. Whoever publishes, or wants a consumer that comes back by itself, takes
// pkg/client.
//
// It knows how commands are written and frames are read, and answers heartbeats. It
// refuses to know about lookup, reconnecting, TLS and compression: a connection that
// fails is over.
//
// Invariants: commands reach the broker in the order of the calls; what is queued for
// it is bounded by the ready count.
package nsqclient
