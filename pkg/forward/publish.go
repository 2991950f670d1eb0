package forward

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Publish asks the leader of a partition to append messages: either all of them or none.
type Publish struct {
	Topic       string
	Incarnation meta.Incarnation
	Partition   int
	// Round and Number order the attempts of one node to publish to one partition.
	// Number counts those of a round from 0. After a gap or a not-leader refusal, the
	// leader refuses the rest of the round, which preserves order.
	Round, Number uint64
	Messages      []topic.Message
}

// AppendHead appends the part before the messages. Followed by the output of AppendMessages,
// perhaps in another buffer, it is the payload.
func (m *Publish) AppendHead(p []byte) []byte {
	p = appendString(p, m.Topic)
	p = binary.AppendUvarint(p, uint64(m.Incarnation))
	p = binary.AppendUvarint(p, uint64(m.Partition))
	p = binary.AppendUvarint(p, m.Round)
	return binary.AppendUvarint(p, m.Number)
}

// Flags for the optional fields of a message.
const (
	hasDelay = 1 << iota
	hasTraceID
	hasHeader
	hasKey
	hasDedup
	hasTTL
	hasAddress
	hasFrom
	hasOptions = hasKey | hasDedup | hasTTL
	knownParts = hasDelay | hasTraceID | hasHeader | hasOptions | hasAddress | hasFrom
)

// minMessage is the smallest size of a message in bytes.
const minMessage = 2

// MessagesSize returns how many bytes AppendMessages appends. They exceed the size of the records
// in a log by at most one in 16 Ki, for which a frame has room.
func MessagesSize(messages []topic.Message) int {
	n := uvarintSize(len(messages))
	for i := range messages {
		m := &messages[i]
		n += 1 + uvarintSize(len(m.Body)) + len(m.Body)
		if m.Delay > 0 {
			n += 8
		}
		if m.TraceID != 0 {
			n += 8
		}
		if m.Header != nil {
			n += uvarintSize(len(m.Header)) + len(m.Header)
		}
		n += optionsSize(m)
		if m.Address != nil {
			n += record.AddressBytes
		}
		if m.From != nil {
			n += uvarintSize(len(m.From.Client)) + len(m.From.Client) + uvarintSize(len(m.From.Node)) + len(m.From.Node)
		}
	}
	return n
}

// optionsSize returns the bytes of a message's key, dedup id and time to live.
func optionsSize(m *topic.Message) int {
	n := 0
	if len(m.Key) > 0 {
		n += 1 + len(m.Key)
	}
	if len(m.Dedup) > 0 {
		n += 1 + len(m.Dedup)
	}
	if m.TTL > 0 {
		n += 8
	}
	return n
}

func uvarintSize(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }

// AppendMessages appends copies of messages to p.
func AppendMessages(p []byte, messages []topic.Message) []byte {
	p = binary.AppendUvarint(p, uint64(len(messages)))
	for i := range messages {
		p = appendMessage(p, &messages[i])
	}
	return p
}

func appendMessage(p []byte, m *topic.Message) []byte {
	at := len(p)
	p = append(p, 0)
	if m.Delay > 0 {
		p[at] |= hasDelay
		p = binary.LittleEndian.AppendUint64(p, uint64(m.Delay))
	}
	p = appendExtras(p, at, m.TraceID, m.Header)
	p = appendOptions(p, at, m)
	if m.Address != nil {
		p[at] |= hasAddress
		p = record.AppendAddress(p, m.Address)
	}
	if m.From != nil {
		p[at] |= hasFrom
		p = appendString(appendString(p, m.From.Client), m.From.Node)
	}
	return appendBytes(p, m.Body)
}

// appendOptions appends a message's key, dedup id and time to live, and sets their flags.
func appendOptions(p []byte, flags int, m *topic.Message) []byte {
	if len(m.Key) > 0 {
		p[flags] |= hasKey
		p = append(append(p, byte(len(m.Key))), m.Key...)
	}
	if len(m.Dedup) > 0 {
		p[flags] |= hasDedup
		p = append(append(p, byte(len(m.Dedup))), m.Dedup...)
	}
	if m.TTL > 0 {
		p[flags] |= hasTTL
		p = binary.LittleEndian.AppendUint64(p, uint64(m.TTL))
	}
	return p
}

// appendExtras appends the rarely used fields, and sets their flags.
func appendExtras(p []byte, flags int, traceID uint64, header []byte) []byte {
	if traceID != 0 {
		p[flags] |= hasTraceID
		p = binary.LittleEndian.AppendUint64(p, traceID)
	}
	if header != nil {
		p[flags] |= hasHeader
		p = appendBytes(p, header)
	}
	return p
}

// Decode reads the payload of a Publish. The messages point into it.
func (m *Publish) Decode(payload []byte) error {
	r := read(payload)
	*m = r.publishHead()
	m.Messages = r.messages()
	return r.End(errMalformed, "publish")
}

// DecodeHead reads the payload of a Publish without its messages.
func (m *Publish) DecodeHead(payload []byte) error {
	r := read(payload)
	*m = r.publishHead()
	r.Rest = nil
	return r.End(errMalformed, "publish")
}

func (r *reader) publishHead() Publish {
	return Publish{
		Topic: r.Text(), Incarnation: meta.Incarnation(r.Uvarint()),
		Partition: int(r.Number(seq.MaxPartitions - 1)), Round: r.Uvarint(), Number: r.Uvarint(),
	}
}

// DecodeMessages reads the output of AppendMessages. The messages point into it.
func DecodeMessages(payload []byte) ([]topic.Message, error) {
	r := read(payload)
	m := r.messages()
	return m, r.End(errMalformed, "messages")
}

func (r *reader) messages() []topic.Message {
	n := r.Count(minMessage)
	messages := make([]topic.Message, 0, n)
	for range n {
		messages = append(messages, r.message())
		if r.Err() != nil {
			return nil
		}
	}
	return messages
}

func (r *reader) message() (m topic.Message) {
	flags := r.Uint8()
	if flags&^knownParts != 0 {
		r.Fail(errUnknownFlags)
	}
	if flags&hasDelay != 0 {
		if m.Delay = time.Duration(r.Uint64()); m.Delay <= 0 {
			r.Fail(errors.New("delay out of range"))
		}
	}
	m.TraceID, m.Header = r.extras(flags)
	if flags&hasOptions != 0 {
		r.options(flags, &m)
	}
	if flags&hasAddress != 0 {
		m.Address = r.address()
	}
	if flags&hasFrom != 0 {
		m.From = &record.Publisher{Client: r.Text(), Node: r.Text()}
	}
	m.Body = r.Bytes()
	return m
}

// options reads a message's key, dedup id and time to live.
func (r *reader) options(flags uint8, m *topic.Message) {
	if flags&hasKey != 0 {
		m.Key = r.part(topic.MaxKey)
	}
	if flags&hasDedup != 0 {
		m.Dedup = r.part(topic.MaxDedup)
	}
	if flags&hasTTL != 0 {
		if m.TTL = time.Duration(r.Uint64()); m.TTL <= 0 {
			r.Fail(errors.New("time to live out of range"))
		}
	}
}

// part reads a length of one byte, which must be from 1 to most, and as many bytes.
func (r *reader) part(most int) []byte {
	n := int(r.Uint8())
	if n == 0 || n > most {
		r.Fail(errors.New("length out of range"))
	}
	return r.Next(n)
}

// address reads the address of a message for one channel.
func (r *reader) address() *topic.Address {
	a, err := record.DecodeAddress(r.Rest)
	if err != nil {
		r.Fail(err)
		return nil
	}
	r.Rest = r.Rest[record.AddressBytes:]
	return a
}

func (r *reader) extras(flags uint8) (traceID uint64, header []byte) {
	if flags&hasTraceID != 0 {
		traceID = r.Uint64()
	}
	if flags&hasHeader != 0 {
		if header = r.Bytes(); len(header) > topic.MaxHeader {
			r.Fail(errors.New("header too long"))
		}
	}
	return traceID, header
}

// AppendReceipt appends the answer to a committed Publish to p: the receipt without its partition
// and its error.
func AppendReceipt(p []byte, m topic.Receipt) []byte {
	p = binary.AppendUvarint(p, uint64(m.First))
	p = binary.AppendUvarint(p, uint64(m.Count))
	p = binary.AppendUvarint(p, uint64(m.Position))
	p = binary.AppendUvarint(p, uint64(m.RawSize))
	p = binary.AppendUvarint(p, uint64(len(m.IDs)))
	for _, id := range m.IDs {
		p = binary.AppendUvarint(p, uint64(id))
	}
	return p
}

// DecodeReceipt reads the answer to a Publish.
func DecodeReceipt(payload []byte) (topic.Receipt, error) {
	r := read(payload)
	m := topic.Receipt{
		First: seq.Offset(r.Uvarint()), Count: int(r.Number(math.MaxInt32)),
		Position: int64(r.Number(math.MaxInt64)), RawSize: int64(r.Number(math.MaxInt64)),
	}
	if n := r.Count(1); n > 0 {
		m.IDs = make([]seq.MessageID, n)
		for i := range m.IDs {
			m.IDs[i] = seq.MessageID(r.Uvarint())
		}
	}
	return m, r.End(errMalformed, "receipt")
}
