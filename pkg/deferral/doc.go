// Package deferral lets operators list, cancel and advance the deferred messages of a channel, on
// the node that leads the partition.
//
// It knows the channel's state and, to report message sizes, the log. It does not know who leads or
// where a request comes from. A change is on this node's disk and on every in-sync replica before
// the call returns.
package deferral
