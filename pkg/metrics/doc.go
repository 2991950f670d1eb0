// Package metrics exports a node's metrics to Prometheus.
//
// It defines names, labels and buckets, and bounds their number. It does not know where values
// come from: at each scrape it reads plain Values, and durations are reported through Histograms.
// Detailed serves on demand what a scrape leaves out: each partition, replica and client, and all
// topics and channels. It is the only package that imports Prometheus.
//
// Invariants:
//
//   - Except in Detailed, no label contains a client, an address, a message or a message id. Peers are labelled
//     with node names, of which a cluster has few.
//   - Topics and channels come from one snapshot per scrape, so the series of a deleted one end
//     by themselves, and partitions led elsewhere are absent: sums over nodes are exact.
//   - Topics and channels beyond Options.MaxObjects are aggregated under the name _other, and
//     ephemeral ones under #ephemeral, regardless of their number.
//   - Recording a publish or a sync allocates nothing.
package metrics
