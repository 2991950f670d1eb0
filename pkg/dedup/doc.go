// Package dedup knows which publisher's ids a partition has stored, so that each is
// stored once. It does not know messages, logs or clocks: offsets and times come in
// as arguments.
//
// Invariants: an id is found for as long as its window lasts, unless more than the
// most ids came within it; then the oldest are forgotten, and counted. An id that
// is being stored has one claim, and whoever comes with it meanwhile learns what
// becomes of that.
package dedup
