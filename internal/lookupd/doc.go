// Package lookupd is the lookup daemon of the NSQ family: a directory in memory
// of which node serves which topic, filled by nodes over TCP (protocol V1) and
// read over HTTP. It also holds the other side, the Announcer, by which a
// broker makes itself known to such daemons.
//
// It knows names, addresses and when a node was last heard of. It refuses to
// know messages, brokers and clusters: a clustered broker answers the same
// HTTP questions from its replicated metadata, elsewhere.
//
// Invariants:
//   - A registration lives no longer than the connection that made it; names
//     of topics and channels stay known, unless they are ephemeral.
//   - The Directory takes the time as an argument and does no I/O.
//   - What a stranger can make the daemon hold is bounded by named limits.
package lookupd
