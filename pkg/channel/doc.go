// Package channel decides what one channel delivers next from one partition,
// to whom, and until when.
//
// A State is a pure value: the time and the committed end are arguments, and decisions are
// results. It knows offsets, consumers as numbers, attempts and deadlines. It does not know
// messages, logs, clocks, locks, sockets, disks or goroutines; its owner guards it with a lock.
//
// A channel is a cursor over the partition's log plus a list of exceptions. Every offset is in
// exactly one of these places:
//
//	0 ──── finished ──── floor ── finished, in flight, ready, deferred ── cursor ── fresh ── end
//
// Invariants (check in the tests):
//
//  1. floor <= cursor; everything below the floor is finished, the floor is not.
//  2. An offset between floor and cursor is either finished or tracked.
//  3. A tracked message is in exactly one state: in flight with one consumer, held (finished once
//     other replicas know), ready, deferred, or barred (waiting for its key). An offset beyond the
//     cursor is tracked or finished only if it was known to be deferred before the cursor reached
//     it.
//  4. An ordered channel has at most one message newly in flight, which was at the floor when
//     it was delivered.
//  5. In a channel ordered by key, at most one message of a key is newly in flight: the first
//     unfinished one of that key.
//  6. A message in flight with a consumer has a deadline; a held one has none; a
//     deferred one has a due time.
//
// Start at State in state.go.
package channel
