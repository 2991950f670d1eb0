// Package lookup is nsqlookupd's HTTP interface of a node, which is its own lookup: it answers
// where topics are from the cluster's metadata, and carries out what an admin page requests. It
// knows the shapes of the answers, tombstones, and recently deleted topics. Nodes do not register
// here; its requests to the node are those of [Broker].
package lookup
