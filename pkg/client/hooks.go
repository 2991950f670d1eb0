package client

import "time"

// Hooks report the client's activity, for metrics. They are called by the client's goroutines,
// some of them often and concurrently, and must not block. Nil hooks are not called.
type Hooks struct {
	// Connected: a connection to a broker was opened. Disconnected: one has ended; err is nil if
	// the client closed it.
	Connected    func(address string)
	Disconnected func(address string, err error)
	// Published: a publish has ended; err is the error returned to its caller.
	Published func(topic string, messages int, took time.Duration, err error)
	// Retried: a publish is retried because of why.
	Retried func(topic string, why error)
	// Received: a message has arrived. Answered: it was finished (true) or requeued.
	Received func(topic, channel string, m *Message)
	Answered func(topic, channel string, finished bool)
	// BackedOff: a consumer pauses after handler failures.
	BackedOff func(topic, channel string, pause time.Duration)
}
