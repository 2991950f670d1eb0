// Package api defines the JSON types of brokerd's /v1 administration API, and a Go client. The
// server in pkg/admin and brokerctl both use these types.
//
// It defines names, units and the form of requests and responses, not how they are executed: of
// brokerd's packages it imports only pkg/units, pkg/failure and pkg/health.
//
// Invariants: fields may be added; they are never renamed, and their meaning never changes. An empty
// list is [], never null. A duration is a number of milliseconds in a field whose name ends in _ms,
// rounded away from 0, and additionally a string for units.ParseDuration in a field without that
// suffix; a request may use either. A time is RFC 3339. Sizes are in bytes. Names of ages and totals
// say so; totals of topics and channels count since the current leaders of the partitions took over.
//
// docs/http-api.md lists the endpoints with their requests and responses; each method of Client names
// what it asks for. Names in a path are percent-encoded if necessary ("#ephemeral" is). An unknown
// field of a request is refused. Every error is an ErrorAnswer with the status of its Code.
package api
