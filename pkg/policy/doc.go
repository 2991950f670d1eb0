// Package policy describes how a channel treats messages that consumers do not finish: how often
// and how fast it delivers, and what happens to a message that used up its attempts.
//
// A Policy and a Bucket are pure values; a Limit is a Bucket behind a lock, shared by all
// partitions of a channel. Settings that a channel leaves open come from its topic, then from the
// cluster: see Effective. The package does not know messages, logs or clocks.
package policy
