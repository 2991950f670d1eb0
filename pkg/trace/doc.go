// Package trace records what happened to messages (published, committed, delivered and so on until
// finished) with times and clients. Messages are identified by position; bodies are not recorded.
// Events are collected in frames (pure), frames in segment files of bounded size, and the oldest
// segments are deleted.
//
// Traces are diagnostic. Nothing waits for them: events that cannot be stored are dropped and
// counted, and damaged files lose events only.
package trace
