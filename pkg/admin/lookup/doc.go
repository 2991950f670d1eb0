// Package lookup is nsqlookupd's HTTP interface to a node, which is its own lookup:
// where topics are, from the cluster's metadata, and what an admin page does to them
// there. It knows the shapes of the answers, tombstones, and what was deleted of
// late. Nodes do not register; what it asks of one is [Broker].
package lookup
