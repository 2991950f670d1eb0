// Package deferral is what operators do with the messages that a channel defers, on the node
// that leads the partition: it lists them by when they are due, cancels them, and has them
// delivered now.
//
// It knows the channel's state and, to say how large a message is, the log. It refuses to know
// who leads what, and how the request came. What it changes is on this node's disk and with
// every in-sync replica before it returns.
package deferral
