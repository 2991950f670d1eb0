package idfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/brokerd/brokerd/internal/fields"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Group are the dedup ids of a batch.
type Group struct {
	First seq.Offset // of the batch
	Epoch seq.Epoch
	Stamp int64 // of the batch, in ns since 1970, by the wall clock of the epoch's leader
	IDs   []ID
}

// ID is the dedup id of a message, of up to maxID bytes.
type ID struct {
	After uint32 // its offset, relative to the batch's first
	Bytes []byte
}

// Sizes of the format, in bytes.
const (
	maxID     = 255
	headBytes = 8 // of a file
	blockHead = 4 + 4
	groupHead = 8 + 8 + 8 + 4
	idHead    = 4 + 1
	// maxBlock is the maximum size of a block: a larger length is damage.
	maxBlock = 2 << 20
	// blockBytes is the size after which a block ends.
	blockBytes = 1 << 20
	// maxIDs is the maximum number of ids in one group: a batch with more has several groups.
	maxIDs = 2048
)

// version begins each file.
const version = "BRKIDS1\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged is wrapped by the errors for files of which a part is not what was written.
var errDamaged = fate.Mark(errors.New("dedup ids are damaged"), fate.Corrupt)

// appendGroup appends the encoding of a group.
func appendGroup(dst []byte, g *Group) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(g.First))
	dst = le.AppendUint64(dst, uint64(g.Epoch))
	dst = le.AppendUint64(dst, uint64(g.Stamp))    //nolint:gosec // the bits of a signed number
	dst = le.AppendUint32(dst, uint32(len(g.IDs))) //nolint:gosec // a batch has fewer
	for _, id := range g.IDs {
		dst = append(le.AppendUint32(dst, id.After), uint8(len(id.Bytes))) //nolint:gosec // at most maxID
		dst = append(dst, id.Bytes...)
	}
	return dst
}

// newBlock returns an empty block.
func newBlock() []byte { return make([]byte, blockHead, blockBytes+blockBytes/4) }

// finish completes a block: its length and its checksum.
func finish(block []byte) []byte {
	binary.LittleEndian.PutUint32(block[4:], uint32(len(block)-blockHead)) //nolint:gosec // at most maxBlock
	binary.LittleEndian.PutUint32(block, crc32.Checksum(block[4:], castagnoli))
	return block
}

// eachGroup calls f with the groups of a file until it returns false. Their ids share the memory of the file. An error
// is about the first block that is not intact; it and what follows it are not read.
func eachGroup(file []byte, f func(*Group) bool) error {
	if len(file) < headBytes || string(file[:headBytes]) != version {
		return fmt.Errorf("%w: a file does not begin with %q", errDamaged, version)
	}
	for rest := file[headBytes:]; len(rest) > 0; {
		if len(rest) < blockHead {
			return fmt.Errorf("%w: a block ends after %d bytes", errDamaged, len(rest))
		}
		n := int(binary.LittleEndian.Uint32(rest[4:]))
		if n > maxBlock || n > len(rest)-blockHead {
			return fmt.Errorf("%w: a block of %d bytes has %d", errDamaged, n, len(rest)-blockHead)
		}
		block := rest[:blockHead+n]
		if crc32.Checksum(block[4:], castagnoli) != binary.LittleEndian.Uint32(block) {
			return fmt.Errorf("%w: the checksum of a block is wrong", errDamaged)
		}
		if more, err := eachOf(block[blockHead:], f); err != nil || !more {
			return err
		}
		rest = rest[blockHead+n:]
	}
	return nil
}

// eachOf calls f with the groups of a block's content.
func eachOf(content []byte, f func(*Group) bool) (more bool, err error) {
	for r := (fields.Reader{Rest: content}); len(r.Rest) > 0; {
		g := Group{First: seq.Offset(r.Uint64()), Epoch: seq.Epoch(r.Uint64()), Stamp: int64(r.Uint64())} //nolint:gosec // the bits of a signed number
		n := int(r.Uint32())
		if n > len(r.Rest)/idHead {
			return false, fmt.Errorf("%w: a batch has %d ids in %d bytes", errDamaged, n, len(r.Rest))
		}
		g.IDs = make([]ID, n)
		for i := range g.IDs {
			g.IDs[i].After = r.Uint32()
			g.IDs[i].Bytes = r.Next(int(r.Uint8()))
		}
		if r.Err() != nil {
			return false, fmt.Errorf("%w: an id ends beyond its block", errDamaged)
		}
		if !f(&g) {
			return false, nil
		}
	}
	return true, nil
}
