package commitlog

import (
	"encoding/binary"
	"math"
	"sort"

	"github.com/brokerd/brokerd/pkg/seq"
)

// The index of a segment that is complete, in little-endian order:
//
//	 0                       8           12          16
//	+-----------------------+-----------+-----------+
//	| "BRKDIDX" 1           | CRC-32C   | entries   |
//	+-----------------------+-----------+-----------+
//	| base offset           | base position         |
//	+-----------------------+-----------------------+
//	| end offset            | size of the segment   |
//	+-----------------------+-----------+-----------+
//	| largest timestamp     | epochs    | damages   |
//	+-----------------------+-----------+-----------+
//	| epoch                 | first offset          |  x epochs
//	+-----------------------+-----------------------+----------------------+
//	| position in file      | first lost offset     | next intact offset   |  x damages
//	+-----------------------+-----------------------+----------------------+
//	| offset                | position in file      | largest time before  |  x entries
//	+-----------------------+-----------------------+----------------------+
//
// The CRC covers everything behind it. An index is used only while its segment
// file has exactly the noted size; otherwise it is recreated from the segment.
const (
	indexMagic      = "BRKDIDX\x01"
	indexHeadBytes  = 64
	indexEntryBytes = 24
	maxIndexFile    = 1 << 28

	noTime = math.MinInt64
)

// indexEntry states that a batch beginning with offset is at position of the segment file, and that
// no earlier batch of the segment has a timestamp above maxTime.
type indexEntry struct {
	offset   seq.Offset
	position int64
	maxTime  int64
}

// Damage is a range of a log that cannot be read.
type Damage struct {
	Path     string     `json:"path"`     // the segment file
	Position int64      `json:"position"` // in the file, where the damage begins
	From     seq.Offset `json:"from"`     // the first lost offset
	Next     seq.Offset `json:"next"`     // where intact data resumes
}

func (d Damage) err() error {
	return &CorruptionError{Path: d.Path, Position: d.Position, From: d.From, Next: d.Next}
}

// contents describes the batches in a segment: everything in its index file.
type contents struct {
	base    seq.Offset
	basePos int64
	end     seq.Offset
	size    int64
	maxTime int64
	epochs  []EpochStart
	damage  []Damage
	entries []indexEntry
}

// add adds an intact batch at a position of the segment file.
func (c *contents) add(b Batch, position, indexBytes int64) {
	if n := len(c.entries); n == 0 || position-c.entries[n-1].position >= indexBytes {
		c.entries = append(c.entries, indexEntry{b.First(), position, c.maxTime})
	}
	c.epochs = addEpoch(c.epochs, b)
	c.maxTime = max(c.maxTime, b.Timestamp())
	c.end = b.End()
	c.size = position + int64(b.Size())
}

// seekOffset returns the last entry at or before an offset.
func seekOffset(entries []indexEntry, off seq.Offset) (indexEntry, bool) {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].offset > off })
	if i == 0 {
		return indexEntry{}, false
	}
	return entries[i-1], true
}

// seekTime returns the last entry before which every timestamp is below t.
func seekTime(entries []indexEntry, t int64) (indexEntry, bool) {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].maxTime >= t })
	if i == 0 {
		return indexEntry{}, false
	}
	return entries[i-1], true
}

func (c *contents) encode() []byte {
	le := binary.LittleEndian
	p := make([]byte, indexHeadBytes, indexHeadBytes+16*len(c.epochs)+24*len(c.damage)+indexEntryBytes*len(c.entries))
	copy(p, indexMagic)
	le.PutUint32(p[12:], uint32(len(c.entries))) //nolint:gosec // at most a segment's size
	le.PutUint64(p[16:], uint64(c.base))
	le.PutUint64(p[24:], uint64(c.basePos)) //nolint:gosec // a position is not negative
	le.PutUint64(p[32:], uint64(c.end))
	le.PutUint64(p[40:], uint64(c.size))        //nolint:gosec // as above
	le.PutUint64(p[48:], uint64(c.maxTime))     //nolint:gosec // the bits of a signed number
	le.PutUint32(p[56:], uint32(len(c.epochs))) //nolint:gosec // as above
	le.PutUint32(p[60:], uint32(len(c.damage))) //nolint:gosec // as above
	for _, e := range c.epochs {
		p = le.AppendUint64(le.AppendUint64(p, uint64(e.Epoch)), uint64(e.Start))
	}
	for _, d := range c.damage {
		p = le.AppendUint64(p, uint64(d.Position)) //nolint:gosec // as above
		p = le.AppendUint64(le.AppendUint64(p, uint64(d.From)), uint64(d.Next))
	}
	for _, e := range c.entries {
		p = le.AppendUint64(le.AppendUint64(p, uint64(e.offset)), uint64(e.position)) //nolint:gosec // as above
		p = le.AppendUint64(p, uint64(e.maxTime))                                     //nolint:gosec // as above
	}
	le.PutUint32(p[8:], checksum(p[12:]))
	return p
}

// decodeIndex reads an index file of the segment at path.
func decodeIndex(p []byte, path string) (*contents, error) {
	le := binary.LittleEndian
	if len(p) < indexHeadBytes || string(p[:8]) != indexMagic || le.Uint32(p[8:]) != checksum(p[12:]) {
		return nil, errBadFile
	}
	entries, epochs, damage := int(le.Uint32(p[12:])), int(le.Uint32(p[56:])), int(le.Uint32(p[60:]))
	if len(p) != indexHeadBytes+16*epochs+24*damage+indexEntryBytes*entries {
		return nil, errBadFile
	}
	number := func() int64 {
		v := int64(le.Uint64(p)) //nolint:gosec // under a checksum
		p = p[8:]
		return v
	}
	p = p[16:]
	c := &contents{base: seq.Offset(number()), basePos: number(), end: seq.Offset(number()), size: number(), maxTime: number()} //nolint:gosec // as above
	p = p[8:]
	for range epochs {
		c.epochs = append(c.epochs, EpochStart{seq.Epoch(number()), seq.Offset(number())}) //nolint:gosec // as above
	}
	for range damage {
		c.damage = append(c.damage, Damage{path, number(), seq.Offset(number()), seq.Offset(number())}) //nolint:gosec // as above
	}
	if entries > 0 {
		c.entries = make([]indexEntry, entries)
	}
	for i := range c.entries {
		c.entries[i] = indexEntry{seq.Offset(number()), number(), number()} //nolint:gosec // as above
	}
	return c, nil
}
