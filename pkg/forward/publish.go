package forward

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"

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
	Messages      Messages
}

// AppendHead appends the part before the messages. Followed by the output of Messages.Append,
// perhaps in another buffer, it is the payload.
func (m *Publish) AppendHead(p []byte) []byte {
	p = appendString(p, m.Topic)
	p = binary.AppendUvarint(p, uint64(m.Incarnation))
	p = binary.AppendUvarint(p, uint64(m.Partition))
	p = binary.AppendUvarint(p, m.Round)
	return binary.AppendUvarint(p, m.Number)
}

// Messages are the messages of a Publish, encoded apart from its head: they stay the same from one
// attempt to the next.
type Messages []topic.Message

// minMessage is the size of a message without a body.
const minMessage = 3

// Size returns how many bytes Append appends.
func (all Messages) Size() int {
	n := uvarintSize(len(all))
	for i := range all {
		m := &all[i]
		n += uvarintSize(m.Size()) + m.Size() + 1
		if m.From != nil {
			n += uvarintSize(len(m.From.Client)) + len(m.From.Client) + uvarintSize(len(m.From.Node)) + len(m.From.Node)
		}
	}
	return n
}

func uvarintSize(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 } //nolint:gosec // a length

// Append appends the number of messages to p, and each as a record of a log with its
// publisher.
func (all Messages) Append(p []byte) []byte {
	p = binary.AppendUvarint(p, uint64(len(all)))
	for i := range all {
		m := &all[i]
		n := m.Size()
		p = binary.AppendUvarint(p, uint64(n)) //nolint:gosec // a length
		p = slices.Grow(p, n+1)[:len(p)+n]
		m.Encode(p[len(p)-n:])
		if m.From == nil {
			p = append(p, 0)
			continue
		}
		p = appendString(appendString(append(p, 1), m.From.Client), m.From.Node)
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

// Decode reads the output of Append. The messages point into it.
func (all *Messages) Decode(payload []byte) error {
	r := read(payload)
	*all = r.messages()
	return r.End(errMalformed, "messages")
}

func (r *reader) messages() Messages {
	n := r.Count(minMessage)
	messages := make(Messages, 0, n)
	for range n {
		messages = append(messages, r.message())
		if r.Err() != nil {
			return nil
		}
	}
	return messages
}

func (r *reader) message() topic.Message {
	m, err := record.Decode(r.Bytes())
	if err != nil {
		r.Fail(err)
	}
	if len(m.Header) > topic.MaxHeader {
		r.Fail(errors.New("header too long"))
	}
	if r.Number(1) != 0 {
		m.From = &record.Publisher{Client: r.Text(), Node: r.Text()}
	}
	return m
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
