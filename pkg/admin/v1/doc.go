// Package v1 is the operator's HTTP interface of a node, described by package api: topics,
// channels, messages, nodes, replicas, and the metadata.
//
// It knows paths, request checks and the shape of every answer; arrays in answers are [] when
// empty. [Broker] and [Operator] carry the requests out.
package v1
