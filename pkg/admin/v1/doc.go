// Package v1 is the operator's HTTP interface to a node, which package api describes:
// topics, channels, messages, nodes, replicas, and the agreement on metadata.
//
// It knows paths, how requests are checked, and the shape of every answer; the arrays
// of an answer are [] when empty. It refuses to know how anything is carried out: that
// it asks of [Broker] and [Operator].
package v1
