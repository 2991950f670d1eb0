// Package stats is what is counted of topics, channels and connections: the figures of
// one node, and their sums over several.
//
// It decides how figures of several nodes add up, and nothing else: it knows neither
// who counts nor how the figures are shown.
//
// Invariants:
//
//  1. A partition counts once: of two nodes that say they lead it, the one of the later
//     epoch counts.
//  2. A connection counts once, however many leaders list it.
//  3. What a node did not answer is missing in the sums, and the node is named.
//
// Start at Topic, then Merge.
package stats
