package peer

import "fmt"

// EventKind is what happened to a connection.
type EventKind uint8

// The kinds of events.
const (
	EventUp       EventKind = iota + 1 // a session began
	EventDown                          // a session ended; Err says why
	EventRefused                       // the machine refused the connection: no process listens there
	EventFailed                        // dialling failed in another way
	EventRejected                      // the nodes do not talk to each other; Err is a *RefusedError
	EventBadHello                      // the other side did not introduce itself as a node
)

// String returns the kind's name.
func (k EventKind) String() string {
	switch k {
	case EventUp:
		return "up"
	case EventDown:
		return "down"
	case EventRefused:
		return "connection refused"
	case EventFailed:
		return "dial failed"
	case EventRejected:
		return "rejected"
	case EventBadHello:
		return "bad hello"
	}
	return fmt.Sprintf("event %d", uint8(k))
}

// Event tells what happened to a connection.
type Event struct {
	Kind    EventKind
	Node    Node   // the other node; "": unknown
	Class   Class  // 0: unknown
	Address string // the other side's
	Session uint64 // of EventUp and EventDown
	Inbound bool   // the other side dialled
	Err     error
}
