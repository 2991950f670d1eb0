// Package server serves NSQ clients over TCP: it accepts connections, runs one session per
// connection, translates commands into calls of a Broker, and the results into frames.
//
// It knows the state of a connection, what was negotiated and what it waits for. It does not
// know what a topic is, where a partition is led or when a message is due; the Broker does.
//
// A session has two goroutines. The reader owns the decoder and the state: it executes commands
// as they arrive and does not wait for publishes. The writer owns the output: it writes answers
// in command order, takes messages from the subscription, sends heartbeats, and flushes when
// idle. The answer queue connects them.
//
// Invariants:
//
//  1. Every answered command has exactly one slot in the answer queue, reserved before it is
//     executed; answers are sent in that order.
//  2. A message is encoded only after all frames due before it, and only after the answer to
//     SUB.
//  3. Memory per connection is bounded: one command body, its publishes in progress, one output
//     buffer and one message.
//  4. No lock is held while waiting for a socket, the Broker or a channel.
//
// Start at Server.Serve, then session.
package server
