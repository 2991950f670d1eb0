// Package removal deletes topic data from a node's disk.
//
// Invariants:
//
//  1. Data is deleted only because of a committed command: one deleted the topic and another
//     purged it, or one moved the replica to another node. A directory unknown to the metadata
//     is kept and reported.
//  2. Data of a topic in the metadata's trash (meta.Trash) stays in place, so that a restored
//     topic finds it.
//  3. Data is first moved aside atomically and then deleted in the background. A deletion
//     interrupted by a crash continues at the next start.
//
// Start reading at Remover.
package removal
