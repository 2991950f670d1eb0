// Package channel decides what one channel delivers next from one partition,
// to whom, and until when.
//
// A State is a pure value: the time and the committed end are arguments, and decisions are
// results. It knows offsets, consumers as numbers, attempts and deadlines, but no messages,
// logs, clocks, sockets, disks or goroutines; its owner guards it with a lock.
//
// A channel is a cursor over the partition's log plus a list of exceptions. Every offset is in
// exactly one of these places:
//
//	0 ──── finished ──── floor ── finished, in flight, ready, deferred ── cursor ── fresh ── end
//
// DESIGN.md numbers the invariants and says where to start.
package channel
