package forward

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Subscribe begins a relayed subscription at the leader of some partitions. It ends with Leave,
// with the session, or with the leadership.
type Subscribe struct {
	Handle      uint64 // the caller's name for it in this session
	Topic       string
	Incarnation meta.Incarnation
	Channel     string
	Partitions  []int // of the topic; the other node must lead all of them
	Ordered     bool
	MsgTimeout  time.Duration
	SampleRate  int
	Start       topic.Start
	Tag         string // only messages with this tag are delivered; "": all
	Filter      []byte // JSON: see header.Filter; empty: none
	Credit      int    // as in Ready
	Number      uint64 // of the subscription at the calling node: see topic.Identity; 0: none
	// Holding are the messages of these partitions that the client has from an earlier leader.
	Holding []seq.MessageID
	Client  []byte // JSON: who the client is, for statistics
}

// Append appends the payload of a Subscribe to p.
func (m *Subscribe) Append(p []byte) []byte {
	p = binary.AppendUvarint(p, m.Handle)
	p = appendString(p, m.Topic)
	p = binary.AppendUvarint(p, uint64(m.Incarnation))
	p = appendString(p, m.Channel)
	p = appendNumbers(p, m.Partitions)
	ordered := byte(0)
	if m.Ordered {
		ordered = 1
	}
	p = append(p, ordered)
	p = binary.AppendUvarint(p, uint64(m.MsgTimeout))
	p = binary.AppendUvarint(p, uint64(m.SampleRate))
	p = binary.AppendUvarint(append(p, byte(m.Start.Kind)), uint64(m.Start.Value))
	p = appendBytes(appendString(p, m.Tag), m.Filter)
	p = AppendIDs(binary.AppendUvarint(binary.AppendUvarint(p, uint64(m.Credit)), m.Number), m.Holding)
	return appendBytes(p, m.Client)
}

// Decode reads the payload of a Subscribe.
func (m *Subscribe) Decode(payload []byte) error {
	r := read(payload)
	*m = Subscribe{Handle: r.Uvarint(), Topic: r.Text(), Incarnation: meta.Incarnation(r.Uvarint()), Channel: r.Text()}
	m.Partitions = r.partitions()
	m.Ordered = r.Uint8() != 0
	m.MsgTimeout = time.Duration(r.Number(math.MaxInt64))
	m.SampleRate = int(r.Number(100))
	m.Start = topic.Start{Kind: topic.StartKind(r.Uint8()), Value: int64(r.Number(math.MaxInt64))}
	if !m.Start.Valid() {
		r.Fail(errors.New("start out of range"))
	}
	m.Tag, m.Filter = r.Text(), r.Bytes()
	m.Credit = int(r.Number(math.MaxInt32))
	m.Number, m.Holding = r.Uvarint(), r.ids()
	m.Client = r.Bytes()
	return r.End(errMalformed, "subscribe")
}

// Fetch requests deliveries. The response comes when there are some, when there would be some
// with more credit, or when the subscription ends (an error).
type Fetch struct {
	Handle   uint64
	MaxBytes int // approximate limit of the answer: one delivery always fits
}

// Append appends the payload of a Fetch to p.
func (m Fetch) Append(p []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(p, m.Handle), uint64(m.MaxBytes))
}

// Decode reads the payload of a Fetch.
func (m *Fetch) Decode(payload []byte) error {
	r := read(payload)
	*m = Fetch{Handle: r.Uvarint(), MaxBytes: int(r.Number(math.MaxInt32))}
	return r.End(errMalformed, "fetch")
}

// AppendDeliveriesHead begins the answer to a Fetch. starved: messages wait for which the credit
// does not suffice. Deliveries follow.
func AppendDeliveriesHead(p []byte, starved bool) []byte {
	if starved {
		return append(p, 1)
	}
	return append(p, 0)
}

// DeliverySize returns how many bytes AppendDelivery appends at most.
func DeliverySize(d *topic.Delivery) int {
	return 8 + 8 + 2 + 1 + 8 + 2*binary.MaxVarintLen64 + 2*binary.MaxVarintLen32 + len(d.Header) + len(d.Body)
}

// Flags of a delivery: which optional parts follow.
const (
	isAlone    = 1 // the message is isolated
	hasTraceID = 2
	hasHeader  = 4
)

// minDelivery is the smallest size of a delivery in bytes.
const minDelivery = 8 + 8 + 2 + 1 + 3

// AppendDelivery appends a copy of a delivery to p.
func AppendDelivery(p []byte, d *topic.Delivery) []byte {
	p = binary.LittleEndian.AppendUint64(p, uint64(d.ID))
	p = binary.LittleEndian.AppendUint64(p, uint64(d.Timestamp))
	p = binary.LittleEndian.AppendUint16(p, d.Attempts)
	at := len(p)
	p = append(p, 0)
	if d.Alone {
		p[at] |= isAlone
	}
	if d.TraceID != 0 {
		p[at] |= hasTraceID
		p = binary.LittleEndian.AppendUint64(p, d.TraceID)
	}
	if d.Header != nil {
		p[at] |= hasHeader
		p = appendBytes(p, d.Header)
	}
	p = binary.AppendUvarint(p, uint64(d.Position))
	p = binary.AppendUvarint(p, uint64(d.RawSize))
	return appendBytes(p, d.Body)
}

// DecodeDeliveries reads the answer to a Fetch and appends the deliveries to out. The deliveries
// point into the payload.
func DecodeDeliveries(payload []byte, out []topic.Delivery) (all []topic.Delivery, starved bool, err error) {
	r := read(payload)
	starved = r.Uint8() != 0
	for len(r.Rest) >= minDelivery {
		out = append(out, r.delivery())
	}
	return out, starved, r.End(errMalformed, "deliveries")
}

func (r *reader) delivery() topic.Delivery {
	d := topic.Delivery{ID: seq.MessageID(r.Uint64()), Timestamp: int64(r.Uint64()), Attempts: r.Uint16()}
	flags := r.Uint8()
	if flags&^(isAlone|hasTraceID|hasHeader) != 0 {
		r.Fail(errors.New("unknown flags"))
	}
	d.Alone = flags&isAlone != 0
	if flags&hasTraceID != 0 {
		d.TraceID = r.Uint64()
	}
	if flags&hasHeader != 0 {
		if d.Header = r.Bytes(); len(d.Header) > topic.MaxHeader {
			r.Fail(errors.New("header too long"))
		}
	}
	d.Position = int64(r.Number(math.MaxInt64))
	d.RawSize = int32(r.Number(math.MaxInt32))
	d.Body = r.Bytes()
	return d
}

// Verb is the kind of an Answer.
type Verb uint8

// The verbs.
const (
	Finish  Verb = 1
	Requeue Verb = 2
	Touch   Verb = 3
	Unseen  Verb = 4 // the message never reached the client: the delivery does not count
)

// Answer is a consumer's answer to a delivery.
type Answer struct {
	Verb  Verb
	ID    seq.MessageID
	Delay time.Duration // of a Requeue
}

// Append appends one answer to p.
func (a Answer) Append(p []byte) []byte {
	p = append(p, byte(a.Verb))
	p = binary.LittleEndian.AppendUint64(p, uint64(a.ID))
	if a.Verb == Requeue {
		p = binary.AppendUvarint(p, uint64(max(a.Delay, 0)))
	}
	return p
}

// Answers are the answers of one relayed subscription, in order.
type Answers struct {
	Handle uint64
	All    []Answer
}

// Append appends the payload of a KindAnswer call to p. Answer.Append adds further answers to it.
func (m Answers) Append(p []byte) []byte {
	p = binary.AppendUvarint(p, m.Handle)
	for _, a := range m.All {
		p = a.Append(p)
	}
	return p
}

// Decode reads the payload of a KindAnswer call.
func (m *Answers) Decode(payload []byte) error {
	r := read(payload)
	*m = Answers{Handle: r.Uvarint(), All: r.answers()}
	return r.End(errMalformed, "answers")
}

// answers reads answers to the end of the payload.
func (r *reader) answers() []Answer {
	var all []Answer
	for len(r.Rest) > 0 {
		a := Answer{Verb: Verb(r.Uint8()), ID: seq.MessageID(r.Uint64())}
		switch a.Verb {
		case Requeue:
			a.Delay = time.Duration(r.Number(math.MaxInt64))
		case Finish, Touch, Unseen:
		default:
			r.Fail(errors.New("unknown verb"))
		}
		all = append(all, a)
	}
	return all
}

// Refusal is a Finish that the leader refused, and the reason.
type Refusal struct {
	ID     seq.MessageID
	Reason *peer.RemoteError // made by ToRemote
}

// Append appends a refusal to p, the answer to a KindAnswer call.
func (f Refusal) Append(p []byte) []byte {
	p = binary.LittleEndian.AppendUint64(p, uint64(f.ID))
	p = binary.LittleEndian.AppendUint16(p, f.Reason.Code)
	return appendString(p, f.Reason.Text)
}

// DecodeRefusals reads the answer to a KindAnswer call.
func DecodeRefusals(payload []byte) ([]Refusal, error) {
	var all []Refusal
	r := read(payload)
	for len(r.Rest) > 0 {
		id := seq.MessageID(r.Uint64())
		all = append(all, Refusal{id, &peer.RemoteError{Code: r.Uint16(), Text: r.Text()}})
	}
	return all, r.End(errMalformed, "refusals")
}

// Leave ends a relayed subscription.
type Leave struct {
	Handle  uint64
	Company bool            // the client has messages of other sources, or its connection has not ended
	Seen    []seq.MessageID // messages that the client got and that may still be in flight at the leader
}

// Append appends the payload of a KindLeave call to p.
func (m Leave) Append(p []byte) []byte {
	company := byte(0)
	if m.Company {
		company = 1
	}
	return AppendIDs(append(binary.AppendUvarint(p, m.Handle), company), m.Seen)
}

// Decode reads the payload of a KindLeave call.
func (m *Leave) Decode(payload []byte) error {
	r := read(payload)
	*m = Leave{Handle: r.Uvarint(), Company: r.Uint8() != 0, Seen: r.ids()}
	return r.End(errMalformed, "leave")
}

// Ready sets how many messages of a relayed subscription may be in flight.
type Ready struct {
	Handle uint64
	Credit int
}

// Append appends the payload of a Ready to p.
func (m Ready) Append(p []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(p, m.Handle), uint64(m.Credit))
}

// Decode reads the payload of a Ready.
func (m *Ready) Decode(payload []byte) error {
	r := read(payload)
	*m = Ready{Handle: r.Uvarint(), Credit: int(r.Number(math.MaxInt32))}
	return r.End(errMalformed, "ready")
}
