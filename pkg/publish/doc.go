// Package publish takes a publish to whoever leads its partition: to a term of this node, to
// another node through a forward queue, or, while nobody leads, to whoever does next.
//
// It decides which partition a publish goes to, in which order publishes are appended
// whatever the leadership does meanwhile, and what is tried again. It does not know who
// publishes, nor what a log is.
//
// The two ends of the way to another node are the queue, here, and the receiver, at the
// leader: a queue numbers its publishes in rounds, and a receiver takes nothing of a round
// behind something that it refused.
//
// Invariants:
//
//  1. What one caller publishes to one partition, one after the other, is appended in that
//     order, wherever the leader is.
//  2. What may have been appended is never sent twice: its outcome is uncertain, and said.
//  3. What was refused without anything having been done is kept, and tried for as long as
//     PublishTimeout.
//  4. A publish to a partition that is led here, and for which nothing waits, touches no
//     queue: one atomic load.
//  5. What waits is bounded, by partition and in all.
//
// Start at Router.Publish, then queue.retry and receiver.serve.
package publish
