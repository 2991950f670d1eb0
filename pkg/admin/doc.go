// Package admin is what a node says over HTTP: the endpoints of nsqd, those of
// nsqlookupd (a node is its own lookup), health, metrics, and the /v1 interface
// that brokerctl uses.
//
// It knows paths, parameters, the order in which requests are checked, and the
// shape of every answer. It refuses to know how anything is carried out: all
// that it does, it asks of the small interfaces in broker.go. It owns no
// listener and starts no goroutine; whoever has a listener serves Handler or
// LookupHandler on it.
//
// Invariants:
//
//   - Parameters come from the query string alone. A body is data.
//   - A body takes memory as its bytes arrive, never as they are announced, and
//     all bodies together take no more than Options.Memory.
//   - The bytes of a published body are copied once more after they were read:
//     by the broker, into its log.
//   - Every failure has one row in the table of errors.go, which gives its code
//     on the NSQ endpoints and on /v1. One that the table does not know is
//     answered by its fate, so that a client is told whether something may
//     have happened.
//   - The arrays of an answer are [] when empty. Where a client of NSQ tells null
//     from [] (stats), the difference is kept and tested.
package admin
