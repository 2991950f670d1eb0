// Package server serves NSQ clients over TCP: it accepts connections, runs one
// session for each, and turns commands into calls of a Broker and the Broker's
// answers into frames.
//
// It knows what a connection is doing: its state, what was negotiated, what it
// waits for. It refuses to know what a topic is, where a partition lives or
// when a message is due; it asks the Broker.
//
// A session is two goroutines. The reader owns the decoder and the state: it
// executes commands as they come and waits for no publish. The writer owns the
// output: it writes answers in the order of the commands, takes messages from
// the subscription, sends heartbeats and flushes when there is nothing more to
// send. Between them stands the answer queue.
//
// Invariants:
//
//  1. Every command that is answered has exactly one place in the answer queue,
//     taken before it is executed; frames of answers leave in that order.
//  2. A message is encoded only after the frames that were due before it, and
//     only after the answer to SUB.
//  3. What a connection can make the server hold is bounded: one command body,
//     the publishes that it may have under way, one output buffer and a message.
//  4. No lock is held while a socket, the Broker or a channel is waited for.
//
// Start at Server.Serve, then session.
package server
