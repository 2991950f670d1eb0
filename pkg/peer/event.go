package peer

// EventKind is what happened to a connection.
type EventKind string

// The kinds of events.
const (
	EventUp       EventKind = "up"                 // a session began
	EventDown     EventKind = "down"               // a session ended; Err says why
	EventRefused  EventKind = "connection refused" // the machine refused the connection: no process listens there
	EventFailed   EventKind = "dial failed"        // dialling failed in another way
	EventRejected EventKind = "rejected"           // the nodes do not talk to each other; Err is a *RefusedError
	EventBadHello EventKind = "bad hello"          // the other side did not introduce itself as a node
	EventAccept   EventKind = "accept failed"      // no connection can be accepted at Address, for example without file descriptors; it is retried
)

// Event tells what happened to a connection.
type Event struct {
	Kind    EventKind
	Node    Node   // the other node; "": unknown
	Class   Class  // 0: unknown
	Address string // the other side's; of EventAccept: the listener's
	Session uint64 // of EventUp and EventDown
	Inbound bool   // the other side dialled
	Err     error
}
