// Package commitlog is the log of one replica of one partition: an append-only
// sequence of batches in segment files.
//
// It knows batches (bytes, checksums, epochs, offsets), files, and what is durable and
// committed. It does not know the network, the meaning of records, schedules (timestamps and
// ages are arguments), or who leads.
//
// DESIGN.md numbers the invariants and says where to start.
package commitlog
