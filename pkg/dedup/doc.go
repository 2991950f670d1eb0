// Package dedup records which publishers' ids a partition has stored, so that each is stored once.
// It does not know messages, logs or clocks: offsets and times are arguments.
//
// Invariants: an id is found during its window, unless more than the maximum number of ids arrived
// within it; then the oldest are dropped and counted. An id being stored has one claim; later
// publishes with the id wait for its outcome.
package dedup
