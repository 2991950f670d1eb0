// Package once stores messages that have dedup ids once each, for one partition in one
// term. It stands between those who publish and the partition's log: what is stored
// already is not appended again, and what is being stored is waited for. It does not
// know where messages come from.
//
// Invariants: within the window an id is in the log at most once. A publish is answered
// with success when each of its messages is committed, by it or by an earlier one. One
// that is refused has stored nothing.
package once
