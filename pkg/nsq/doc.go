// Package nsq is the codec of the NSQ TCP protocol, version 2: bytes to typed
// commands, answers and messages to frames, the IDENTIFY negotiation, and the
// error codes with their fatality.
//
// It knows the wire format and the limits that a reader must enforce. It does not know the
// state of a connection: which command is allowed when, what a topic is, who may use it, or
// when to flush. It starts no goroutine and reads no clock.
//
// Invariants:
//
//   - An announced length allocates no memory: a body's buffer grows with the bytes received,
//     to at most twice their number.
//   - Parameters of a command have their own buffer, so reading the command's body cannot
//     overwrite them.
//   - A slice returned by a Reader is valid until the next call of Next.
package nsq
