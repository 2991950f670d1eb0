// Package nsqdfiles reads what an nsqd leaves in its data path: nsqd.dat, which names
// topics, channels and pauses, and the disk queues with the messages that wait. It
// follows nsqd 1.3.0 and writes nothing.
//
// It knows the files. It refuses to know what a broker is: who imports them decides
// what becomes of a message.
//
// Invariants:
//   - Read looks at every byte that holds messages before it returns: what it accepts
//     can be imported to its end.
//   - A message is passed over only where nsqd itself would not deliver it: what it set
//     aside as bad, and a record whose write never ended. Each is said in Notes.
//   - Anything else that may hold messages and cannot be read is an error.
package nsqdfiles
