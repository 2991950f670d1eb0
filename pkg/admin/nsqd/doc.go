// Package nsqd is nsqd's HTTP interface of a node: publishing, topics and channels, statistics,
// options, and statistics pushed to statsd.
//
// It knows paths, parameters, the order of request checks, and the shape of every answer. [Broker]
// carries the requests out.
//
// Invariants:
//   - The bytes of a published body are copied once after they were read: by the broker, into its
//     log.
//   - Arrays in answers are [] when empty. Where NSQ clients distinguish null from [] (stats), the
//     difference is kept and tested.
package nsqd
