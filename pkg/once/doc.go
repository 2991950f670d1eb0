// Package once stores messages with dedup ids exactly once, for one partition in one term. It sits
// between publishers and the partition's log: a message that is already stored is not appended
// again, and a publish of one that is being stored waits for that. It does not know where messages
// come from.
//
// Invariants: within the window an id is in the log at most once. A publish succeeds once each of
// its messages is committed, by this publish or by an earlier one. A refused publish has stored
// nothing.
package once
