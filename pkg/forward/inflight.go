package forward

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// InFlight tells the next leader of a partition what is in flight, before its election. It replaces
// what the leader sent before in the same epoch, unless it continues that.
type InFlight struct {
	Topic       string
	Incarnation meta.Incarnation
	Partition   int
	Epoch       seq.Epoch // in which the sender leads; the receiver is elected for the next one
	Continues   bool
	Flights     []topic.Flights
}

// MaxInFlight is how many messages one InFlight has at most, so that it fits in a frame.
const MaxInFlight = 1 << 15

// minFlight is the smallest size of a message in an InFlight in bytes.
const minFlight = 6

// Append appends the payload of an InFlight to p.
func (m *InFlight) Append(p []byte) []byte {
	p = binary.AppendUvarint(appendString(p, m.Topic), uint64(m.Incarnation))
	p = binary.AppendUvarint(binary.AppendUvarint(p, uint64(m.Partition)), uint64(m.Epoch))
	continues := byte(0)
	if m.Continues {
		continues = 1
	}
	p = binary.AppendUvarint(append(p, continues), uint64(len(m.Flights)))
	for i := range m.Flights {
		f := &m.Flights[i]
		p = binary.AppendUvarint(appendString(p, f.Channel), f.Version)
		p = binary.AppendUvarint(appendString(p, f.Consumer.Node), f.Consumer.Number)
		p = binary.AppendUvarint(p, uint64(len(f.Messages)))
		for _, x := range f.Messages {
			p = binary.AppendUvarint(binary.AppendUvarint(p, uint64(x.Offset)), uint64(x.Name))
			alone := byte(0)
			if x.Alone {
				alone = 1
			}
			p = append(binary.AppendUvarint(p, uint64(x.Attempts)), alone)
			p = binary.AppendUvarint(binary.AppendUvarint(p, uint64(max(x.Rest, 0))), uint64(max(x.Held, 0)))
		}
	}
	return p
}

// Decode reads the payload of an InFlight.
func (m *InFlight) Decode(payload []byte) error {
	r := read(payload)
	*m = InFlight{Topic: r.Text(), Incarnation: meta.Incarnation(r.Uvarint()), Partition: int(r.Number(seq.MaxPartitions - 1)), Epoch: seq.Epoch(r.Uvarint())}
	m.Continues = r.Uint8() != 0
	for range r.Count(1) {
		f := topic.Flights{Channel: r.Text(), Version: r.Uvarint(), Consumer: topic.Identity{Node: r.Text(), Number: r.Uvarint()}}
		for range r.Count(minFlight) {
			f.Messages = append(f.Messages, channel.Flight{
				Offset: seq.Offset(r.Number(uint64(seq.MaxOffset))), Name: seq.Offset(r.Number(uint64(seq.MaxOffset))),
				Attempts: seq.Attempts(r.Number(math.MaxUint16)), Alone: r.Uint8() != 0,
				Rest: time.Duration(r.Number(math.MaxInt64)), Held: time.Duration(r.Number(math.MaxInt64)),
			})
		}
		m.Flights = append(m.Flights, f)
	}
	return r.End(errMalformed, "in flight")
}

// Return tells the leader of partitions that a subscription will not join them: what is in flight
// with it since an earlier leader goes to others.
type Return struct {
	Topic       string
	Incarnation meta.Incarnation
	Channel     string
	Partitions  []int
	Number      uint64 // of the subscription at the calling node
}

// Append appends the payload of a Return to p.
func (m *Return) Append(p []byte) []byte {
	p = binary.AppendUvarint(appendString(p, m.Topic), uint64(m.Incarnation))
	p = binary.AppendUvarint(appendNumbers(appendString(p, m.Channel), m.Partitions), m.Number)
	return p
}

// Decode reads the payload of a Return.
func (m *Return) Decode(payload []byte) error {
	r := read(payload)
	*m = Return{Topic: r.Text(), Incarnation: meta.Incarnation(r.Uvarint()), Channel: r.Text(), Partitions: r.partitions(), Number: r.Uvarint()}
	return r.End(errMalformed, "return")
}

// AppendIDs appends ids to p.
func AppendIDs(p []byte, ids []seq.MessageID) []byte {
	p = binary.AppendUvarint(p, uint64(len(ids)))
	for _, id := range ids {
		p = binary.LittleEndian.AppendUint64(p, uint64(id))
	}
	return p
}

// DecodeIDs reads the answer to a Subscribe: the messages in flight that the subscription keeps.
func DecodeIDs(payload []byte) ([]seq.MessageID, error) {
	r := read(payload)
	ids := r.ids()
	return ids, r.End(errMalformed, "ids")
}

func (r *reader) ids() (all []seq.MessageID) {
	for range r.Count(8) {
		all = append(all, seq.MessageID(r.Uint64()))
	}
	return all
}

func appendNumbers(p []byte, all []int) []byte {
	p = binary.AppendUvarint(p, uint64(len(all)))
	for _, i := range all {
		p = binary.AppendUvarint(p, uint64(i))
	}
	return p
}

func (r *reader) partitions() (all []int) {
	for range r.Count(1) {
		all = append(all, int(r.Number(seq.MaxPartitions-1)))
	}
	return all
}
