package client

import "time"

// Hooks tell a program what its client does, for metrics. They are called by the client's
// own goroutines, some of them often: they must not block and may be called by many at once.
// A hook that is nil is not called.
type Hooks struct {
	// Connected: a connection to a broker stands. Disconnected: one has ended; err is nil
	// where the client closed it.
	Connected    func(address string)
	Disconnected func(address string, err error)
	// Published: a publish of so many messages has ended, after how long; err as its caller
	// gets it.
	Published func(topic string, messages int, took time.Duration, err error)
	// Retried: a publish is tried again, and why.
	Retried func(topic string, why error)
	// Received: a message has arrived. Answered: it was finished (true) or requeued.
	Received func(topic, channel string, m *Message)
	Answered func(topic, channel string, finished bool)
	// BackedOff: a consumer takes nothing for so long, after failures of its handler.
	BackedOff func(topic, channel string, pause time.Duration)
}
