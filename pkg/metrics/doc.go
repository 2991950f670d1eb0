// Package metrics is what a node tells Prometheus.
//
// It knows the names, labels and buckets of the metrics, and how to keep their
// number bounded. It refuses to know where a number comes from: it reads plain
// values from the functions of Sources whenever it is scraped, and is told of
// durations through Histograms. It is the only package that imports Prometheus.
//
// Invariants:
//
//   - No label has a client, an address, a message or its id in it. Those of other
//     nodes are their names, of which a cluster has few.
//   - Topics and channels come from one snapshot per scrape, so the series of a
//     deleted one end by themselves, and those that this node does not lead are
//     not there: sums over nodes are exact.
//   - Topics and channels beyond Options.MaxObjects are summed into one of the
//     name _other, and ephemeral ones into one of the name #ephemeral, however
//     many there are.
//   - Recording a publish or a sync allocates nothing.
package metrics
