// Package lookupd is the lookup daemon of the NSQ family: an in-memory directory of which node
// serves which topic, filled by nodes over TCP (protocol V1) and read over HTTP. It also contains
// the client side, the Announcer, with which a broker registers at such daemons.
//
// It knows names, addresses and when a node was last heard of. It does not know messages, brokers
// or clusters: a clustered broker answers the same HTTP requests from its metadata, in
// pkg/admin/lookup.
//
// Invariants:
//   - A registration ends with its connection; names of topics and channels stay known unless they
//     are ephemeral.
//   - The Directory takes the time as an argument and does no I/O.
//   - Everything that a client can make the daemon hold is bounded by named limits.
package lookupd
