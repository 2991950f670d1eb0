// Package trace keeps what happened to messages: published, committed, delivered and so on
// until they were finished, each with its time and its client. It knows messages by
// their places, and no bodies. What is noted goes into frames (pure), frames into segment
// files of a bounded size, and the oldest go.
//
// A trace is for people who look for what became of a message. Nothing waits for it: what
// cannot be stored is dropped and counted, and damaged files lose events and nothing else.
package trace
