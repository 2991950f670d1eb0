// Package removal takes the data of topics off a node's disk.
//
// What it holds to:
//
//  1. Data leaves the disk only because a committed command says so: one deleted its
//     topic and another purged it, or one gave the replica to another node. A directory
//     of which the metadata knows neither stays, and is reported.
//  2. The data of a topic that is in the trash of the metadata (meta.Trash) stays where it
//     is, so that a restored topic finds it.
//  3. What goes is first moved aside in one step, so that a topic is there or not, and
//     then deleted in the background. A deletion that a crash interrupted goes on at the
//     next start.
//
// Start reading at Remover.
package removal
