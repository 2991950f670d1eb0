// Package checks says whether a cluster, a channel, disks, certificates or the metadata's agreement are
// as they should be, in the four states that monitoring programs know from the plugins of Nagios.
//
// It judges what it is given and asks nobody. It knows the forms in which monitoring programs take an
// answer; it does not know how a command prints.
//
// Invariants:
//
//  1. A check that could not look at everything is never OK.
//  2. The worst that was found is the state: Critical, then Unknown, then Warning.
//
// Start at Result.
package checks
