package client

import (
	"encoding/hex"
	"sync/atomic"
	"time"
)

// messageID identifies a message on one connection.
type messageID = [16]byte

// Message is a delivered message. It is in flight until it is finished or requeued, or until
// the message timeout passes and the broker redelivers it. Its methods may be called from any
// goroutine, also after the handler has returned.
type Message struct {
	// ID identifies the message to the broker; use String for text.
	ID ID
	// Body may be kept and changed.
	Body []byte
	// Header is a JSON object with the headers of the message, if the consumer was created
	// WithHeaders; nil if none.
	Header []byte
	// Timestamp is the time of the publish.
	Timestamp time.Time
	// Attempts counts the deliveries, including this one.
	Attempts int
	// Node is the address of the broker that delivered the message.
	Node string

	conn     *conn
	answer   atomic.Bool
	answered func(m *Message, finished bool) // may be nil
}

// ID identifies a message to the broker that delivered it.
type ID [16]byte

// String returns the id as 16 hexadecimal digits. Consumers with headers or a tag receive it in 8
// bytes, followed by 8 bytes of the trace id.
func (id ID) String() string {
	for _, c := range id {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return hex.EncodeToString(id[:8])
		}
	}
	return string(id[:])
}

// Finish finishes the message; it is not redelivered. The broker does not confirm it.
// ErrAnswered: already finished or requeued; ErrConnectionLost: the connection has ended, and
// the message will be redelivered.
func (m *Message) Finish() error {
	return m.answerBy(true, func() bool { return m.conn.queue(command{name: cmdFIN, id: m.ID}) })
}

// Requeue returns the message for redelivery after a delay. Errors are those of Finish.
func (m *Message) Requeue(delay time.Duration) error {
	return m.answerBy(false, func() bool { return m.conn.queue(command{name: cmdREQ, id: m.ID, delay: max(delay, 0)}) })
}

// Touch restarts the message timeout. Errors are those of Finish.
func (m *Message) Touch() error {
	switch {
	case m.answer.Load():
		return ErrAnswered
	case !m.conn.queue(command{name: cmdTOUCH, id: m.ID}):
		return ErrConnectionLost
	}
	return nil
}

// Answered reports whether the message was finished or requeued.
func (m *Message) Answered() bool { return m.answer.Load() }

func (m *Message) answerBy(finished bool, send func() bool) error {
	if !m.answer.CompareAndSwap(false, true) {
		return ErrAnswered
	}
	sent := send()
	if m.answered != nil {
		m.answered(m, finished)
	}
	if !sent {
		return ErrConnectionLost
	}
	return nil
}
