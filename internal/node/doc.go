// Package node wires one node of a cluster: the cluster member, the broker, the servers for
// clients, and the metrics.
//
// It decides what each part is given and in which order parts start and stop. It does not know the
// process around it: command lines, signals, the service manager, exit codes and the data directory
// lock belong to cmd/brokerd. Several nodes may run in one process, as in tests.
//
// Invariants:
//   - Parts are stopped in the reverse order of their start.
//   - Nodes in one process share nothing.
//   - HTTP responds from the start; until the node is open, with "starting".
package node
