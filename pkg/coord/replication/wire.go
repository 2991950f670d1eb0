package replication

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/brokerd/brokerd/internal/fields"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Kinds of requests, as the transport carries them.
const (
	KindPut       uint8 = 1 // PutMessages: batches and the committed end
	kindReconcile uint8 = 2 // asks for the state of the log
	KindTruncate  uint8 = 3 // truncates the log, or starts an empty one
	KindPositions uint8 = 4 // UpdateChannelOffset: all channels' positions
	kindAdvance   uint8 = 5 // UpdateChannelOffset: changes since
	kindUpdate    uint8 = 6 // UpdateChannelOffset: updates since, which are stored
)

// errMalformed is returned for bytes that are no request or answer.
var errMalformed = errors.New("malformed replication message")

// Partition identifies a partition of one incarnation of a topic.
type Partition struct {
	Topic meta.Incarnation
	Index int
}

// point identifies a place in a log by the batch before it: its end, epoch and
// checksum. The zero point is the start of an empty log.
type point struct {
	End      seq.Offset
	Epoch    seq.Epoch
	Checksum uint32
}

// pointOf returns the point after a batch.
func pointOf(b commitlog.Batch) point {
	return point{End: b.End(), Epoch: b.Epoch(), Checksum: b.Checksum()}
}

// header starts every request.
type header struct {
	partition Partition
	epoch     seq.Epoch // of the leadership that asks
}

func (h header) append(p []byte) []byte {
	p = binary.LittleEndian.AppendUint64(p, uint64(h.partition.Topic))
	p = binary.LittleEndian.AppendUint32(p, uint32(h.partition.Index))
	return binary.LittleEndian.AppendUint64(p, uint64(h.epoch))
}

func (pt point) append(p []byte) []byte {
	p = binary.LittleEndian.AppendUint64(p, uint64(pt.End))
	p = binary.LittleEndian.AppendUint64(p, uint64(pt.Epoch))
	return binary.LittleEndian.AppendUint32(p, pt.Checksum)
}

// reader decodes a message.
type reader struct{ fields.Reader }

func read(payload []byte) reader { return reader{fields.Reader{Rest: payload}} }

func (r *reader) header() header {
	return header{Partition{meta.Incarnation(r.Uint64()), int(r.Uint32())}, seq.Epoch(r.Uint64())}
}

func (r *reader) point() point {
	return point{seq.Offset(r.Uint64()), seq.Epoch(r.Uint64()), r.Uint32()}
}

// PartitionOf returns the partition that a request is for, whatever its kind.
func PartitionOf(payload []byte) (Partition, error) {
	r := read(payload)
	h := r.header()
	r.Rest = nil // it depends on the kind
	return h.partition, r.End(errMalformed, "request")
}

// put is PutMessages: batches that continue a follower's log after a point, and
// the leader's committed end. It may have no batch.
type put struct {
	header
	prev      point
	committed seq.Offset
	sync      bool   // answer once the batches are on disk
	batches   []byte // as on disk
}

// putHeadBytes is the size of a put without its batches.
const putHeadBytes = 8 + 4 + 8 + pointBytes + 8 + 1

const pointBytes = 8 + 8 + 4

func (m put) appendHead(p []byte) []byte {
	p = m.prev.append(m.header.append(p))
	p = binary.LittleEndian.AppendUint64(p, uint64(m.committed))
	if m.sync {
		return append(p, 1)
	}
	return append(p, 0)
}

func decodePut(payload []byte) (put, error) {
	r := read(payload)
	m := put{header: r.header(), prev: r.point(), committed: seq.Offset(r.Uint64()), sync: r.Uint8() != 0}
	m.batches = r.Next(len(r.Rest))
	return m, r.End(errMalformed, "put")
}

// reconcile asks a follower for the state of its log.
type reconcile struct{ header }

func (m reconcile) encode() []byte { return m.header.append(nil) }

func decodeReconcile(payload []byte) (reconcile, error) {
	r := read(payload)
	m := reconcile{r.header()}
	return m, r.End(errMalformed, "reconcile")
}

// truncate makes a follower truncate its log to a point, if the batch that ends
// there is the same; with reset, it starts an empty log at the point.
type truncate struct {
	header
	to       point
	reset    bool
	position int64     // of a reset: the byte position in the virtual log,
	before   seq.Epoch // and the epoch of the batch before it
}

func (m truncate) encode() []byte {
	p := m.to.append(m.header.append(nil))
	p = binary.LittleEndian.AppendUint64(p, uint64(m.position))
	p = binary.LittleEndian.AppendUint64(p, uint64(m.before))
	if m.reset {
		return append(p, 1)
	}
	return append(p, 0)
}

func decodeTruncate(payload []byte) (truncate, error) {
	r := read(payload)
	m := truncate{header: r.header(), to: r.point(), position: int64(r.Uint64()), before: seq.Epoch(r.Uint64()), reset: r.Uint8() != 0}
	return m, r.End(errMalformed, "truncate")
}

// positions carries a piece of a snapshot of the channels' positions. The
// complete snapshot replaces all shares up to its number.
type positions struct {
	header
	number uint64
	total  uint64 // bytes of the snapshot
	at     uint64 // bytes before the piece
	piece  []byte
}

// head returns a positions without its piece.
func (m positions) head() []byte {
	le := binary.LittleEndian
	return le.AppendUint64(le.AppendUint64(le.AppendUint64(m.header.append(nil), m.number), m.total), m.at)
}

func decodePositions(payload []byte) (positions, error) {
	r := read(payload)
	m := positions{header: r.header(), number: r.Uint64(), total: r.Uint64(), at: r.Uint64()}
	m.piece = r.Next(len(r.Rest))
	if m.total > maxSnapshotBytes || m.at > m.total || uint64(len(m.piece)) > m.total-m.at {
		return m, fmt.Errorf("%w: chunk outside its snapshot", errMalformed)
	}
	return m, r.End(errMalformed, "positions")
}

// maxSnapshotBytes is the maximum size of a snapshot of positions.
const maxSnapshotBytes = 1 << 30

// advance carries changes or updates of positions, each after its length. They are the
// shares that directly follow a number: a receiver that lacks any share up to it has
// missed some.
type advance struct {
	header
	after   uint64
	changes [][]byte
}

// head returns an advance without its changes.
func (m advance) head() []byte {
	return binary.LittleEndian.AppendUint64(m.header.append(nil), m.after)
}

// appendChanges returns the encoded changes that follow the head of an advance.
func appendChanges(changes []change) [][]byte {
	size := 0
	for _, c := range changes {
		size += 4 + len(c.data)
	}
	p := make([]byte, 0, size)
	for _, c := range changes {
		p = binary.LittleEndian.AppendUint32(p, uint32(len(c.data))) //nolint:gosec // far below 4 GiB
		p = append(p, c.data...)
	}
	return [][]byte{p}
}

func decodeAdvance(payload []byte) (advance, error) {
	r := read(payload)
	m := advance{header: r.header(), after: r.Uint64()}
	for len(r.Rest) > 0 {
		m.changes = append(m.changes, r.Next(int(r.Uint32())))
	}
	return m, r.End(errMalformed, "advance")
}

// outcome is the result of a request.
type outcome uint8

const (
	outcomeOK       outcome = iota
	outcomeMismatch         // the logs differ there, or shares are missing: reconcile
	outcomeStale            // a newer epoch was adopted, which is in the answer
	outcomeNotReady         // not yet a follower of that partition in that epoch: retry
	outcomeFailed           // the follower's log failed, or the request is not allowed
	outcomeLonger           // it would truncate what is committed at the follower
	outcomeFull             // the follower's disk has no room for batches
)

// trouble describes an unsuccessful outcome.
func (o outcome) trouble() string {
	switch o {
	case outcomeMismatch:
		return "logs diverge, or a request was lost"
	case outcomeStale:
		return "follower has adopted a newer epoch"
	case outcomeNotReady:
		return "follower not ready in this epoch yet, or its queue is full"
	case outcomeFailed:
		return "follower failed to store the batch; see its node's log"
	case outcomeLonger:
		return "follower holds committed messages that this leader lacks; an operator must choose which copy leads"
	case outcomeFull:
		return "follower's disk is full; replication resumes once space is free"
	case outcomeOK:
	}
	return ""
}

// NotReady is the answer of a node that does not hold the partition, or does not
// follow it yet: the leader retries.
func NotReady() []byte { return answer{outcome: outcomeNotReady}.encode() }

// answer is the state of a follower's log, in the answer to any request.
type answer struct {
	outcome   outcome
	epoch     seq.Epoch // the highest adopted
	start     seq.Offset
	end       seq.Offset // on disk, if the request demanded that
	committed seq.Offset
	epochs    []commitlog.EpochStart // of a reconcile
}

// maxEpochs bounds the history in an answer to its last epochs.
const maxEpochs = 4096

// answerBytes is the size of an answer without epochs.
const answerBytes = 1 + 4*8 + 4

func (a answer) encode() []byte {
	p := append(make([]byte, 0, answerBytes+16*min(len(a.epochs), maxEpochs)), byte(a.outcome))
	for _, v := range []uint64{uint64(a.epoch), uint64(a.start), uint64(a.end), uint64(a.committed)} {
		p = binary.LittleEndian.AppendUint64(p, v)
	}
	epochs := a.epochs[max(0, len(a.epochs)-maxEpochs):]
	p = binary.LittleEndian.AppendUint32(p, uint32(len(epochs)))
	for _, e := range epochs {
		p = binary.LittleEndian.AppendUint64(p, uint64(e.Epoch))
		p = binary.LittleEndian.AppendUint64(p, uint64(e.Start))
	}
	return p
}

func decodeAnswer(payload []byte) (answer, error) {
	r := read(payload)
	a := answer{
		outcome: outcome(r.Uint8()), epoch: seq.Epoch(r.Uint64()),
		start: seq.Offset(r.Uint64()), end: seq.Offset(r.Uint64()), committed: seq.Offset(r.Uint64()),
	}
	n := int(r.Uint32())
	if n > maxEpochs || n*16 > len(r.Rest) {
		return a, fmt.Errorf("%w: invalid epoch count %d", errMalformed, n)
	}
	for range n {
		a.epochs = append(a.epochs, commitlog.EpochStart{Epoch: seq.Epoch(r.Uint64()), Start: seq.Offset(r.Uint64())})
	}
	if a.outcome > outcomeFull {
		return a, fmt.Errorf("%w: unknown outcome %d", errMalformed, a.outcome)
	}
	return a, r.End(errMalformed, "answer")
}

// sizeOf returns the bytes of a payload.
func sizeOf(payload [][]byte) int {
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	return n
}

// lastOf returns the last of some batches, if there is one and all are
// complete.
func lastOf(raw []byte) (last commitlog.Batch, ok bool) {
	for len(raw) > 0 {
		b, err := commitlog.Decode(raw)
		if err != nil {
			return commitlog.Batch{}, false
		}
		last, ok, raw = b, true, raw[b.Size():]
	}
	return last, ok
}
