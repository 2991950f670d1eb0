// Package policy says what becomes of messages that consumers do not finish: how often
// and how fast a channel delivers, and what it does with a message that has had all its
// attempts.
//
// A Policy is a pure value, and so is a Bucket; a Limit is one behind a lock, for all
// partitions of a channel. What a channel leaves open its topic decides, then the
// cluster: see Effective. The package knows attempts, delays and rates. It refuses to
// know messages, logs and clocks.
package policy
