// Package seq defines the numbers that identify positions in a partition: offsets, epochs,
// message ids, and sets of offsets. It is arithmetic only: no time, no disk, no network.
package seq

// Offset is the sequence number of a message in one partition: dense, from 0.
// An "end" is one past the last offset it speaks of.
type Offset uint64

// Epoch numbers the leaderships of one partition. It grows with every election
// and every restart of a leader. Epoch 0 means "none yet".
type Epoch uint64

// Bounds of the numbers that a MessageID packs.
const (
	offsetBits    = 50
	partitionBits = 10

	// MaxOffset is the largest offset that a MessageID can hold.
	MaxOffset Offset = 1<<offsetBits - 1
	// MaxPartitions is the most partitions that a topic can have.
	MaxPartitions = 1 << partitionBits
)

// MessageID names a message within its topic by its place: the partition in
// bits 50 to 59, the offset below. Clients know messages by their WireID.
type MessageID uint64

// NewMessageID returns the id of the message at offset o of a partition.
func NewMessageID(partition int, o Offset) MessageID {
	return MessageID(partition)<<offsetBits | MessageID(o&MaxOffset)
}

// Partition returns the partition that the id names.
func (id MessageID) Partition() int { return int(id>>offsetBits) & (MaxPartitions - 1) }

// Offset returns the offset that the id names.
func (id MessageID) Offset() Offset { return Offset(id) & MaxOffset }
