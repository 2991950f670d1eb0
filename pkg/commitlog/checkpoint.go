package commitlog

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// The note of what is durable, in little-endian order:
//
//	 0                       8           12          16
//	+-----------------------+-----------+-----------+
//	| "BRKDCKP" 1           | CRC-32C   | cutting   |
//	+-----------------------+-----------+-----------+
//	| start                 | durable end           |
//	+-----------------------+-----------------------+
//	| durable position      | committed end         |
//	+-----------------------+-----------------------+
//	| epoch                 | epoch before start    |
//	+-----------------------+-----------------------+
//
// The CRC covers everything behind it. The file is replaced as a whole.
const (
	checkpointName  = "checkpoint"
	checkpointMagic = "BRKDCKP\x01"
	checkpointBytes = 64
)

type checkpoint struct {
	start      seq.Offset // where the log starts: older segments are about to be removed
	durable    seq.Offset // everything below was synced
	durablePos int64      // its byte position in the virtual log
	committed  seq.Offset // at least this was committed
	epoch      seq.Epoch  // the highest epoch requested
	before     seq.Epoch  // of the batch that ended at start; 0: unknown
	cutting    bool       // a truncation was about to remove what is after durable
}

var errBadFile = errors.New("corrupt checkpoint file")

func (c checkpoint) encode() []byte {
	p := make([]byte, checkpointBytes)
	copy(p, checkpointMagic)
	le := binary.LittleEndian
	if c.cutting {
		le.PutUint32(p[12:], 1)
	}
	le.PutUint64(p[16:], uint64(c.start))
	le.PutUint64(p[24:], uint64(c.durable))
	le.PutUint64(p[32:], uint64(c.durablePos)) //nolint:gosec // a position is not negative
	le.PutUint64(p[40:], uint64(c.committed))
	le.PutUint64(p[48:], uint64(c.epoch))
	le.PutUint64(p[56:], uint64(c.before))
	le.PutUint32(p[8:], checksum(p[12:]))
	return p
}

func decodeCheckpoint(p []byte) (checkpoint, error) {
	le := binary.LittleEndian
	if len(p) != checkpointBytes || string(p[:8]) != checkpointMagic || le.Uint32(p[8:]) != checksum(p[12:]) {
		return checkpoint{}, errBadFile
	}
	c := checkpoint{
		start:      seq.Offset(le.Uint64(p[16:])),
		durable:    seq.Offset(le.Uint64(p[24:])),
		durablePos: int64(le.Uint64(p[32:])), //nolint:gosec // checked below
		committed:  seq.Offset(le.Uint64(p[40:])),
		epoch:      seq.Epoch(le.Uint64(p[48:])),
		before:     seq.Epoch(le.Uint64(p[56:])),
		cutting:    le.Uint32(p[12:]) != 0,
	}
	if c.durablePos < 0 || c.start > c.durable || c.committed > c.durable || c.durable > seq.MaxOffset+1 {
		return checkpoint{}, errBadFile
	}
	return c, nil
}

// readCheckpoint returns found=false if there is none, and errBadFile if it is damaged.
func readCheckpoint(fsys vfs.FS, dir string) (c checkpoint, found bool, err error) {
	p, err := vfs.ReadFile(fsys, filepath.Join(dir, checkpointName), checkpointBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return checkpoint{}, false, nil
	}
	if err != nil {
		return checkpoint{}, true, err
	}
	c, err = decodeCheckpoint(p)
	return c, true, err
}
