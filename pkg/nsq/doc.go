// Package nsq is the codec of the NSQ TCP protocol, version 2: bytes to typed
// commands, answers and messages to frames, the IDENTIFY negotiation, and the
// error codes with their fatality.
//
// It knows the wire format and the limits that a reader must enforce. It does not know the
// state of a connection: which command is allowed when, what a topic is, who may use it, or
// when to flush. It starts no goroutine and reads no clock.
//
// DESIGN.md numbers the invariants and says where to start.
package nsq
