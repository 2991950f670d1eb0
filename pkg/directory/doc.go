// Package directory creates, changes and deletes topics and channels: it proposes the change to
// the metadata, and returns once this node and the topic's leaders have applied it.
//
// It decides the placement and configuration of a new topic, and when a channel counts as
// created. It does not know who publishes or consumes.
//
// Invariants:
//
//  1. When the creation of a channel returns, its start position is on the disk of every
//     in-sync replica: no message acknowledged later is skipped.
//  2. A change applies to the incarnation it was made for, never to a later topic of the same name.
//  3. Creations are charged to the requester's limit, and refunded if nothing was created.
//
// Start at Directory.CreateTopic, then leaders.converge.
package directory
