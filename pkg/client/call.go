package client

import (
	"sync"
	"sync/atomic"
	"time"
)

// Outgoing is a message to publish with all its options. Topic and either Body or Bodies are
// required.
type Outgoing struct {
	Topic string
	// Body must not change before the publish has ended.
	Body []byte
	// Bodies, instead of Body, is a batch of messages published to one partition, all or none.
	// A batch cannot have a Delay.
	Bodies [][]byte
	// Delay defers the first delivery, in units of ms.
	Delay time.Duration
	// Partition is the target partition; by default the broker picks one.
	Partition Partition

	// The fields below require an existing topic: a message that uses one of them does not create
	// it.

	// Key is a text of up to 255 bytes. It determines the partition, and channels may deliver
	// the messages of a key in order.
	Key string
	// DedupID is a text of up to 64 bytes: the broker stores the message once within the
	// topic's window, however often it is published. In a batch, /0, /1 and so on are appended
	// to it.
	DedupID string
	// TTL is the time to live of the message; 0 means unlimited.
	TTL time.Duration
	// Headers are sent with the message, on extended topics.
	Headers map[string]string
}

// Partition selects a partition of a topic. The zero value leaves the choice to the broker.
type Partition struct{ plusOne int }

// InPartition selects a partition by its number, from 0.
func InPartition(n int) Partition { return Partition{n + 1} }

func (p Partition) number() (int, bool) { return p.plusOne - 1, p.plusOne > 0 }

// States of a call. The waiting caller and the goroutine that sends the call synchronize on them.
const (
	callHeld      uint32 = iota // not sent: cannot have been published
	callOnWire                  // sent: may have been published, or may still be
	callEnded                   // its outcome is known
	callAbandoned               // by the waiting caller; the goroutine that ends it recycles it
)

// call is one publish in progress, from the caller to its last answer. At any time it is owned by
// the caller's goroutine, a connection, or the retries.
type call struct {
	out   Outgoing
	done  func(error)
	bytes int64 // of the budget

	producer string // "": the client assigns no dedup id
	sequence uint64 // of the first message

	attempts int       // accepted by a connection
	failures int       // failed attempts, and failures to find a connection
	tainted  bool      // an attempt may have published it
	deadline time.Time // of retries; zero: no attempt has failed
	notUntil time.Time // earliest time of the next attempt
	last     error     // of the last attempt
	started  time.Time // zero: not measured

	state   atomic.Uint32
	outcome chan error // capacity 1; for a waiting caller
}

// callOverhead is the size of a message in the budget in addition to its body.
const callOverhead = 64

// callPool holds calls for reuse. Each client has its own, because a channel created in one bubble
// of testing/synctest cannot be used in another.
type callPool struct{ pool sync.Pool }

// get returns a zero call with a channel for its outcome.
func (p *callPool) get() *call {
	if c, ok := p.pool.Get().(*call); ok {
		return c
	}
	return &call{outcome: make(chan error, 1)}
}

// put returns a call that is no longer referenced.
func (p *callPool) put(c *call) {
	outcome := c.outcome
	*c = call{outcome: outcome}
	p.pool.Put(c)
}

func (c *call) messages() int {
	if len(c.out.Bodies) > 0 {
		return len(c.out.Bodies)
	}
	return 1
}

// size returns the bytes that the call uses of the budget.
func (c *call) size() int64 {
	n := int64(len(c.out.Body)) + callOverhead
	for _, b := range c.out.Bodies {
		n += int64(len(b)) + 4
	}
	return n
}

// toWire is called before a connection sends a call. It returns false if the call was abandoned.
func (c *call) toWire() bool {
	return c.state.CompareAndSwap(callHeld, callOnWire) || c.state.Load() == callOnWire
}

// end is called when the outcome is known. It returns false if the call was abandoned.
func (c *call) end() bool {
	return c.state.CompareAndSwap(callOnWire, callEnded) || c.state.CompareAndSwap(callHeld, callEnded)
}

// abandon is called when the caller stops waiting. It returns ErrRefused or ErrUncertain, or nil
// if the outcome has just become known.
func (c *call) abandon() error {
	for {
		switch {
		case c.state.CompareAndSwap(callHeld, callAbandoned):
			return ErrRefused
		case c.state.CompareAndSwap(callOnWire, callAbandoned):
			return ErrUncertain
		case c.state.Load() == callEnded:
			return nil
		}
	}
}

// fail returns the error for the caller.
func (c *call) fail(err error, refused bool) error {
	fate := ErrUncertain
	if refused && !c.tainted {
		fate = ErrRefused
	}
	return &PublishError{Topic: c.out.Topic, Messages: c.messages(), Attempts: c.attempts, Fate: fate, Err: err}
}
