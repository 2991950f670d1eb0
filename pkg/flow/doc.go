// Package flow measures the rate of messages into and out of a channel over the last minute and the
// last 15 minutes, from totals sampled by the caller.
//
// It is pure: totals and times are arguments. Channels without traffic cost nothing: samples are
// kept only if something changed in the last 15 minutes.
package flow
