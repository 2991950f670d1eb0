// Package publish routes a publish to the leader of its partition: to a local term, through a
// forward queue to another node, or, while there is no leader, into the queue until there is
// one.
//
// It decides the partition of a publish, the order of appends across leadership changes, and
// what is retried. It does not know the publisher or the log.
//
// A forwarded publish passes the queue here and the receiver at the leader: a queue numbers its
// publishes in rounds, and a receiver accepts nothing of a round after one that it refused.
//
// Invariants:
//
//  1. Sequential publishes of one caller to one partition are appended in that order, wherever
//     the leader is.
//  2. A publish that may have been appended is never sent again: its outcome is reported as uncertain.
//  3. A publish that was refused without effect is kept and retried until PublishTimeout.
//  4. A publish to a partition led here with an empty queue bypasses the queue: it costs one
//     atomic load.
//  5. Queued publishes are bounded per partition and in total.
//
// Start at Router.Publish, then queue.retry and receiver.serve.
package publish
