// Package stats defines the statistics of topics, channels and connections on one node, and
// their sums over several.
//
// It decides only how figures of several nodes are merged; it neither counts nor displays them.
//
// Invariants:
//
//  1. A partition counts once: if two nodes claim to lead it, the one with the later epoch
//     counts.
//  2. A connection counts once, however many leaders list it.
//  3. Sums omit nodes that did not answer, and name them.
//
// Start at Topic, then Merge.
package stats
