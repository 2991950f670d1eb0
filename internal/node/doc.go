// Package node is one node of a cluster with its parts wired together: the member, the
// broker on its disk, the servers that clients reach it by, and its metrics.
//
// It knows which part is given what, in which order they come up, and how they go down.
// It refuses to know the process around it: command lines, signals, the service manager,
// exit codes and the lock of the data directory. Several nodes may run in one process,
// as tests want them.
//
// Invariants:
//   - What comes up in order goes down in reverse.
//   - Nothing of a node is shared with another of the same process.
//   - HTTP answers from the first moment: until the node is open, that it is not.
package node
