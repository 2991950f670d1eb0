package seq

import "math/bits"

// MaxAttempts is where the count of a message's deliveries saturates: clients read it as a signed 16-bit
// number, and the extension framing keeps the top bits clear.
const MaxAttempts = 4000

const (
	sharedShift = 12 // of the shared failures in Attempts; the deliveries are below
	maxShared   = 1<<(16-sharedShift) - 1
)

// Attempts is how often a channel has delivered a message, and how many of these deliveries were shared
// failures: they ended by a lost connection or a time-out while their consumer had other messages too, so
// that it is unknown which of them failed. The zero value is no delivery. Its value is also its stored form;
// without shared failures, that is the number of deliveries.
type Attempts uint16

// Deliveries returns the number of deliveries, at most MaxAttempts.
func (a Attempts) Deliveries() uint16 { return uint16(a) & (1<<sharedShift - 1) }

// Shared returns how many of them were shared failures, at most 15: further ones are charged.
func (a Attempts) Shared() uint16 { return uint16(a) >> sharedShift }

// Charged returns how many deliveries count against the message.
func (a Attempts) Charged() uint16 { return a.Deliveries() - min(a.Shared(), a.Deliveries()) }

// Delivered counts a delivery.
func (a Attempts) Delivered() Attempts {
	if a.Deliveries() >= MaxAttempts {
		return a
	}
	return a + 1
}

// Undelivered undoes the last Delivered: the message was not sent. A message without a delivery keeps none.
func (a Attempts) Undelivered() Attempts {
	switch {
	case a.Deliveries() == 0:
		return a
	case a.Charged() == 0: // the last delivery was a shared failure, too
		return a - 1 - 1<<sharedShift
	}
	return a - 1
}

// Share records that the last delivery was a shared failure.
func (a Attempts) Share() Attempts {
	if a.Shared() == maxShared || a.Charged() == 0 {
		return a
	}
	return a + 1<<sharedShift
}

// Later returns the later of two counts of one message.
func (a Attempts) Later(b Attempts) Attempts {
	if bits.RotateLeft16(uint16(b), 16-sharedShift) > bits.RotateLeft16(uint16(a), 16-sharedShift) {
		return b
	}
	return a
}

// Valid reports whether a stored value is one.
func (a Attempts) Valid() bool { return a.Deliveries() <= MaxAttempts && a.Shared() <= a.Deliveries() }
