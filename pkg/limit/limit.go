// Package limit derives all size limits on the path of a message from one number, the largest
// body that a client may send:
//
//	body < entry < group < frame < put
//
// A node accepts a body from a client, appends it as an entry to the open group, sends the
// group to followers in a frame, and a follower queues it as a put. Each limit exceeds the
// previous one by what is added at that step, so no node can append what another cannot accept.
//
// The limits are the same on every node and in every release of one format. The
// settings max-msg-size and max-body-size of a node only lower what its own
// clients may send: nodes with different settings, and logs that were written
// under another setting, still replicate to each other.
package limit

// Limits that do not depend on a scale, in bytes.
const (
	// Body is the largest body of one command that a node can be set to accept.
	Body = 128 << 20
	// Message is the largest body of one message that a node can be set to accept.
	Message = Body / 2
	// Group is the largest batch in a log, header included.
	Group = 2 * Body
)

// batchOverhead is an upper bound of the header of a batch and its alignment, in bytes.
const batchOverhead = 64

// maxRequests is the maximum number of unanswered requests in Sizes.Pair.
const maxRequests = 48 << 10

// frameOverhead is an upper bound of what a frame contains in addition to a group: the head of a
// put, or the head of a forwarded publish, in which a long message header takes a byte more than
// in a log.
func frameOverhead(group int) int { return 1<<10 + group/(4<<10) }

// Sizes are the limits, in bytes.
type Sizes struct {
	Entry   int // largest publish as stored: the largest body of one command, and twice as much for the overhead of small messages
	Forming int // a group below this size accepts one more entry
	Group   int // largest batch of a log
	Chunk   int // maximum data of one put, unless it is one larger batch
	Window  int // a follower with less unacknowledged data is sent one more put
	Frame   int // largest payload between two nodes
	Put     int // maximum data waiting at a follower of one partition
	Pair    int // maximum unanswered data sent to the followers on one other node, for all partitions, before the last request
	Request int // what a request counts for in Pair in addition to its payload, which limits the number of requests
}

// Of derives the limits from the largest body of one command, which must be at least 4 KiB. Only
// tests use another value than Body.
func Of(body int) Sizes {
	s := Sizes{Forming: body / 8, Group: 2 * body, Chunk: body / 128, Window: body / 16}
	s.Entry = s.Group - s.Forming - batchOverhead
	s.Frame = s.Group + frameOverhead(s.Group)
	s.Put = s.Window + s.Frame
	s.Pair = body - body/8
	s.Request = max(64, s.Pair/maxRequests)
	return s
}

// Default returns the limits of a cluster.
func Default() Sizes { return Of(Body) }

// OrDefault returns the limits, or those of a cluster for the zero value.
func (s Sizes) OrDefault() Sizes {
	if s == (Sizes{}) {
		return Default()
	}
	return s
}
