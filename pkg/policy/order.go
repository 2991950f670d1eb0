package policy

import "fmt"

// Order is the order in which a channel delivers the messages of a partition.
type Order string

// The orders.
const (
	Unordered Order = ""       // as consumers request them
	Strict    Order = "strict" // one at a time, in the order of the log
	ByKey     Order = "key"    // of those with one key, one at a time, in the order of the log
)

// ParseOrder reads an order as people write it; "" and "none" are Unordered.
func ParseOrder(text string) (Order, error) {
	switch o := Order(text); o {
	case Unordered, Strict, ByKey:
		return o, nil
	case "none":
		return Unordered, nil
	}
	return Unordered, fmt.Errorf("%w: order is %q, want none, strict or key", ErrInvalid, text)
}

// String returns the order as people write it.
func (o Order) String() string {
	if o == Unordered {
		return "none"
	}
	return string(o)
}

// Some reports whether there is any order: then a finish counts once every in-sync replica knows
// of it.
func (o Order) Some() bool { return o != Unordered }

// StrictIf returns Strict or Unordered.
func StrictIf(ordered bool) Order {
	if ordered {
		return Strict
	}
	return Unordered
}
