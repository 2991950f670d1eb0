package traffic

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/wire"
)

// How much a producer sends at a time.
const (
	maxBurst = 4  // commands before it reads the answers
	maxBatch = 10 // messages in an MPUB
	maxDelay = 1500 * time.Millisecond
)

// Producer is one publisher through all its connections. It never sends a message
// twice: a second copy in the broker is the broker's.
type Producer struct {
	Book *Book
	RNG  *rand.Rand
	Name int
	Next int          // number of the next message
	Conn *wire.Client // nil: none
	// Answered is called with each answer, under the book's lock. data is nil if there was none.
	Answered func(now time.Duration, o audit.Outcome, data []byte)
}

// Burst sends some commands and reads their answers. If the connection breaks, the outcomes of
// unanswered commands are unknown.
func (p *Producer) Burst() {
	if p.Conn.Ended() { // as a client sees that reads while it has nothing to send
		p.drop()
		return
	}
	var sent [][]audit.Key // by command
	for range 1 + p.RNG.IntN(maxBurst) {
		sent = append(sent, p.command())
	}
	broken := p.Conn.Flush() != nil
	for _, keys := range sent {
		var kind int
		var data []byte
		if !broken {
			var err error
			kind, data, err = p.Conn.Answer()
			broken = err != nil
		}
		p.settle(keys, kind, data)
	}
	if broken {
		p.drop()
	}
}

func (p *Producer) drop() {
	p.Conn.Close()
	p.Conn = nil
}

// command buffers one PUB, MPUB or DPUB and returns the messages in it.
func (p *Producer) command() []audit.Key {
	n, delay := 1, time.Duration(0)
	switch dice := p.RNG.IntN(10); {
	case dice < 4:
		n = 2 + p.RNG.IntN(maxBatch-1)
	case dice == 4:
		delay = time.Duration(1+p.RNG.Int64N(maxDelay.Milliseconds())) * time.Millisecond
	}
	keys := make([]audit.Key, n)
	bodies := make([][]byte, n)
	for i := range keys {
		keys[i] = audit.Key{Producer: p.Name, Seq: p.Next}
		bodies[i] = wire.MakeBody(p.RNG, p.Book.Seed, keys[i])
		p.Next++
	}
	p.Book.Tell(func(a *audit.Audit, now time.Duration) {
		notBefore := time.Duration(0)
		if delay > 0 {
			notBefore = now + delay
		}
		for i, k := range keys {
			a.Publish(k, wire.Sum(bodies[i]), notBefore)
		}
	})
	if n > 1 {
		p.Conn.MPub(p.Book.Topic, bodies)
	} else {
		p.Conn.Pub(p.Book.Topic, delay, bodies[0])
	}
	return keys
}

// settle reports the answer to a command; no data: none.
func (p *Producer) settle(keys []audit.Key, kind int, data []byte) {
	outcome := OutcomeOf(kind, data)
	p.Book.Tell(func(a *audit.Audit, now time.Duration) {
		p.Answered(now, outcome, data)
		if kind == wire.FrameError && Wrong(data) {
			a.Complain(now, fmt.Sprintf("to a right publish: %s", data))
		}
		for _, k := range keys {
			a.Settle(now, k, outcome)
		}
	})
}

// OutcomeOf returns the outcome for a message: an error means that nothing is stored, unless it
// says that the outcome is unknown.
func OutcomeOf(kind int, data []byte) audit.Outcome {
	switch {
	case kind == wire.FrameResponse && string(data) == "OK":
		return audit.Acknowledged
	case kind == wire.FrameError && !bytes.Contains(data, []byte(", outcome unknown: ")):
		return audit.Rejected
	}
	return audit.Open
}
