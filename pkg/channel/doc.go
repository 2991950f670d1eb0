// Package channel decides what one channel delivers next from one partition,
// to whom, and until when.
//
// A State is a pure value: time and the committed end come in as arguments,
// answers go out. It knows offsets, consumers as numbers, attempts and
// deadlines. It refuses to know messages, logs, clocks, locks, sockets, disks
// and goroutines; whoever holds a State guards it.
//
// A channel is a cursor over the partition's log and the list of exceptions to
// it. Every offset is in exactly one of these places:
//
//	0 ──── finished ──── floor ── finished, in flight, ready, deferred ── cursor ── fresh ── end
//
// Invariants (check in the tests):
//
//  1. floor <= cursor; everything below the floor is finished, the floor is not.
//  2. An offset between floor and cursor is either finished or tracked.
//  3. A tracked message is in flight with one consumer, or held (finished once
//     others know), or ready, or deferred, or barred (waits for its key): never two of them. An offset beyond the cursor is tracked or finished
//     only if it was known to be deferred before the cursor came to it.
//  4. An ordered channel has at most one message newly in flight, and that
//     message was the floor when it was taken.
//  5. In a channel that orders by key, at most one message of a key is newly in flight, and that
//     message was the first of its key that was not finished.
//  6. A message in flight with a consumer has a deadline; a held one has none; a
//     deferred one has a due time.
//
// Start at State in state.go.
package channel
