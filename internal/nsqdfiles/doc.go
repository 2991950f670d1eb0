// Package nsqdfiles reads the data path of an nsqd: nsqd.dat, which lists topics, channels and
// pauses, and the disk queues with waiting messages. It follows nsqd 1.3.0 and writes nothing.
//
// It knows the files only; the importer decides what happens to a message.
//
// Invariants:
//   - Read checks every byte that holds messages before it returns: data that it accepts can be
//     imported completely.
//   - A message is skipped only where nsqd itself would not deliver it: files that nsqd set aside as
//     bad, and an incomplete last record. Each is reported in Notes.
//   - Everything else that may hold messages and cannot be read is an error.
package nsqdfiles
