// Package nsq is the codec of the NSQ TCP protocol, version 2: bytes to typed
// commands, answers and messages to frames, the IDENTIFY negotiation, and the
// error codes with their fatality.
//
// It knows the shape of what goes over the wire and the limits that a reader
// must keep. It refuses to know what a connection is doing: which command is
// allowed when, what a topic is, who may use it, when to flush. It starts no
// goroutine and reads no clock.
//
// Invariants:
//
//   - No memory is taken because a peer announced a length: a body's buffer grows
//     with the bytes that have arrived, to at most twice their number.
//   - Parameters of a command live in a buffer of their own, so that reading the
//     command's body cannot change them.
//   - A slice that a Reader hands out is valid until its next call of Next.
package nsq
