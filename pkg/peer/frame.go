package peer

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// Flags of a frame.
const (
	flagReply   = 1 << iota // answers the call of that correlation
	flagError               // with flagReply: the payload is code u16 and text
	flagControl             // ping, and with flagReply its answer; no payload

	knownFlags = flagReply | flagError | flagControl
)

// The layout of a frame: length u32, kind u8, flags u8, correlation u64, CRC-32C u32, payload. The
// length is that of the payload. The checksum covers the bytes before it and the payload.
const (
	frameChecked = 4 + 1 + 1 + 8
	frameHeader  = frameChecked + 4
)

// frame is the fields of a header, and the payload.
type frame struct {
	kind        uint8
	flags       uint8
	correlation uint64
	payload     []byte // valid until the next frame is read
}

// encodeHeader returns the header of a frame with this payload.
func encodeHeader(kind, flags uint8, correlation uint64, payload [][]byte) (h [frameHeader]byte, size int) {
	for _, p := range payload {
		size += len(p)
	}
	binary.LittleEndian.PutUint32(h[0:], uint32(size))
	h[4], h[5] = kind, flags
	binary.LittleEndian.PutUint64(h[6:], correlation)
	crc := checksumShort(h[:frameChecked])
	for _, p := range payload {
		crc = crc32.Update(crc, castagnoli, p)
	}
	binary.LittleEndian.PutUint32(h[frameChecked:], crc)
	return h, size
}

// checksumShort is crc32.Checksum for a few bytes, without making them escape to
// the heap.
func checksumShort(b []byte) uint32 {
	crc := ^uint32(0)
	for _, c := range b {
		crc = castagnoli[byte(crc)^c] ^ crc>>8
	}
	return ^crc
}

// Parameters of the reading buffer.
const (
	growth      = 4 // a buffer grows to this many times what has arrived
	sparse      = 16
	shrinkAfter = 8 // after this many consecutive fillings of less than 1/sparse
)

// frameReader splits a stream into frames. One goroutine uses it.
type frameReader struct {
	src    io.Reader
	max    int // bytes of a payload
	memory *frameMemory
	taken  int           // bytes of memory; 0: the chunk is not large
	wait   time.Duration // how long to wait for memory
	pool   *chunkPool
	chunk  *chunk
	r, w   int // unread bytes of the chunk
	sparse int // fillings in a row that left most of the chunk unused
}

func newFrameReader(src io.Reader, max int, pool *chunkPool, memory *frameMemory, wait time.Duration) *frameReader {
	return &frameReader{src: src, max: max, pool: pool, chunk: pool.get(smallestChunk), memory: memory, wait: wait}
}

// close releases the buffer.
func (f *frameReader) close() {
	f.chunk.release()
	f.chunk = nil
	f.give()
}

// give returns the memory of a large chunk that was released.
func (f *frameReader) give() {
	if f.taken > 0 {
		f.memory.give(f.taken)
		f.taken = 0
	}
}

// ready reports whether next will return without reading.
func (f *frameReader) ready() bool {
	if f.w-f.r < frameHeader {
		return false
	}
	n := int64(binary.LittleEndian.Uint32(f.chunk.data[f.r:]))
	return n > int64(f.max) || int64(f.w-f.r) >= frameHeader+n
}

// next returns the next frame. Its payload is the reader's and valid until the
// next call. At the end of the stream between two frames
// the error is io.EOF, within one io.ErrUnexpectedEOF.
func (f *frameReader) next() (frame, error) {
	if err := f.fill(frameHeader); err != nil {
		return frame{}, err
	}
	head := f.chunk.data[f.r:]
	size := binary.LittleEndian.Uint32(head)
	if int64(size) > int64(f.max) {
		return frame{}, fmt.Errorf("%w: %d bytes, limit is %d", errFrame, size, f.max)
	}
	if err := f.fill(frameHeader + int(size)); err != nil {
		return frame{}, noEOF(err)
	}
	all := f.chunk.data[f.r : f.r+frameHeader+int(size)]
	f.r += len(all)
	payload := all[frameHeader:len(all):len(all)]
	crc := crc32.Update(checksumShort(all[:frameChecked]), castagnoli, payload)
	if crc != binary.LittleEndian.Uint32(all[frameChecked:]) {
		return frame{}, errChecksum
	}
	fr := frame{
		kind:        all[4],
		flags:       all[5],
		correlation: binary.LittleEndian.Uint64(all[6:]),
		payload:     payload,
	}
	return fr, checkFlags(fr)
}

// checkFlags refuses combinations of flags that no side sends.
func checkFlags(fr frame) error {
	control, isErr, reply := fr.flags&flagControl != 0, fr.flags&flagError != 0, fr.flags&flagReply != 0
	switch {
	case fr.flags&^knownFlags != 0:
		return fmt.Errorf("%w: unknown flags %#x", errFrame, fr.flags)
	case isErr && (!reply || control || len(fr.payload) < 2):
		return fmt.Errorf("%w: error frame without an error", errFrame)
	case control && (len(fr.payload) != 0 || fr.kind != 0):
		return fmt.Errorf("%w: ping with a payload", errFrame)
	}
	return nil
}

// fill reads until at least n bytes are unread and contiguous.
func (f *frameReader) fill(n int) error {
	for f.w-f.r < n {
		if err := f.makeRoom(n); err != nil {
			return err
		}
		got, err := f.src.Read(f.chunk.data[f.w:])
		f.w += got
		if err != nil && f.w-f.r < n {
			if f.w > f.r {
				return noEOF(err)
			}
			return err
		}
	}
	return nil
}

// makeRoom makes free space after the unread bytes, up to n bytes, as far as the bytes that have
// arrived justify it. A large chunk waits for memory.
func (f *frameReader) makeRoom(n int) error {
	have := f.w - f.r
	if have == 0 {
		f.rewind()
	}
	room := len(f.chunk.data)
	if f.w < room && f.r+n <= room {
		return nil
	}
	want := min(n, max(growth*have, smallestChunk))
	if want <= room && f.r > 0 {
		copy(f.chunk.data, f.chunk.data[f.r:f.w])
		f.r, f.w = 0, have
		return nil
	}
	if f.w < room && f.r+want <= room {
		return nil
	}
	if want > largeChunk && f.taken == 0 {
		if err := f.memory.reserve(n+n/growth, f.wait); err != nil {
			return err
		}
		f.taken = n + n/growth
	}
	bigger := f.pool.get(max(want, have+1))
	copy(bigger.data, f.chunk.data[f.r:f.w])
	f.chunk.release()
	f.chunk, f.r, f.w = bigger, 0, have
	return nil
}

// rewind begins at the start of the chunk once everything in it has been read. It takes a smaller
// chunk if this one was much too large for some time, or counts as large.
func (f *frameReader) rewind() {
	if f.w > 0 {
		f.sparse++
		if f.w > len(f.chunk.data)/sparse {
			f.sparse = 0
		}
	}
	if f.sparse >= shrinkAfter && len(f.chunk.data) > smallestChunk || f.taken > 0 {
		f.chunk.release()
		f.chunk, f.sparse = f.pool.get(smallestChunk), 0
		f.give()
	}
	f.r, f.w = 0, 0
}
