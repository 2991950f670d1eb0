// Package flow measures how many messages come into a channel and go out of it, over
// the last minute and the last 15 minutes, from totals that somebody notes now and then.
//
// It knows totals and times, which are arguments. It refuses to know channels, and it
// reads no clock. What changes nothing costs nothing: samples are kept only of what
// moved in the last 15 minutes.
package flow
