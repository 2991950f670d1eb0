// Package checks judges the state of a cluster, a channel, disks, certificates or the metadata's
// agreement, with the four states of Nagios plugins that monitoring programs know.
//
// It judges the values that it is given and makes no requests. It knows the output formats of
// monitoring programs; it does not know how a command prints.
//
// Invariants:
//
//  1. A check that could not look at everything is never OK.
//  2. The worst that was found is the state: Critical, then Unknown, then Warning.
//
// Start at Result.
package checks
