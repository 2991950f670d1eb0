// Package deadletter disposes of messages that used up their attempts: it publishes them to a
// dead-letter topic and finishes them, or only finishes them. On an operator's request it
// returns dead letters to the channel that failed.
//
// A dead letter is an ordinary message of an ordinary topic whose header names its origin (see
// Origin). It is published first and finished in its channel once that is acknowledged; on the
// way back it is appended first and then finished in the dead-letter topic's channel. An
// interruption never loses a message. It can duplicate one on the way back; on the way there
// the dedup id stores it once within the window.
//
// The package does not know who leads a partition or how a publish is routed.
package deadletter
