// Package deferral lets operators list, cancel and advance the deferred messages of a channel.
//
// List and Apply do so in one partition, on the node that leads it. They know the channel's state
// and, to report message sizes, the log. They do not know who leads or where a request comes from.
// A change is on this node's disk and on every in-sync replica before the call returns.
//
// Query and Change are the requests for a channel in all partitions: they say what to request from
// each partition, and what the answers mean together. Package operate asks the leaders.
package deferral
