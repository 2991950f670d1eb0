// Package deadletter takes the messages out of channels that have had all their attempts:
// it publishes them to a dead-letter topic and finishes them, or only that, and brings them
// back to the channel that failed when an operator asks for it.
//
// A dead letter is an ordinary message of an ordinary topic, whose header says where it
// comes from: see Origin. It is published first, and finished in its channel once that is
// acknowledged; on the way back it is appended first, and finished in the dead-letter
// topic's channel then. What stops in between never loses one. It leaves a message twice on the
// way back; on the way there the letter has a dedup id, and is stored once within the window.
//
// The package knows how a message goes from one place to the other. It refuses to know who
// leads what, and how a publish finds its way.
package deadletter
