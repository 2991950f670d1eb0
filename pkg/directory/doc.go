// Package directory changes topics and channels: it has the metadata say what should be,
// and has this node and the topic's leaders apply it before it returns.
//
// It decides where the replicas of a new topic go, what a topic is created with, and when a
// channel counts as created. It does not know who publishes or consumes.
//
// Invariants:
//
//  1. When the creation of a channel returns, the place where it starts is on the disk of
//     every in-sync replica: nothing that is acknowledged later is skipped.
//  2. A change is of the topic that was meant, not of another that has its name now.
//  3. What whoever asks may create is counted, and given back where nothing was created.
//
// Start at Directory.CreateTopic, then leaders.settle.
package directory
