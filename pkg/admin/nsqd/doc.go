// Package nsqd is nsqd's HTTP interface to a node: publishing, topics and channels,
// statistics, options, and the statistics that are pushed to a statsd.
//
// It knows paths, parameters, the order in which requests are checked, and the
// shape of every answer. It refuses to know how anything is carried out: that it
// asks of [Broker].
//
// Invariants:
//
//   - The bytes of a published body are copied once more after they were read:
//     by the broker, into its log.
//   - The arrays of an answer are [] when empty. Where a client of NSQ tells null
//     from [] (stats), the difference is kept and tested.
package nsqd
