package backup

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
)

// A chunk is full, and shared by later backups, once it has one of these.
const (
	ChunkMessages = 10_000
	chunkBytes    = 32 << 20 // of bodies
)

// writer writes one chunk. It has its name once it is on disk.
type writer struct {
	d     Dir
	file  *os.File
	sum   hash.Hash
	size  int64
	out   *bufio.Writer
	gz    *gzip.Writer
	lines *json.Encoder
	chunk Chunk
}

// newWriter begins a chunk.
func newWriter(d Dir) (*writer, error) {
	f, err := os.CreateTemp(filepath.Join(d.path, chunksDir), tempPrefix)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(0o640); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	w := &writer{d: d, file: f, sum: sha256.New()}
	w.out = bufio.NewWriterSize(io.MultiWriter(f, w.sum, w), 256<<10)
	w.gz, err = gzip.NewWriterLevel(w.out, gzip.BestSpeed)
	w.lines = json.NewEncoder(w.gz)
	w.lines.SetEscapeHTML(false) // headers stay as they were published
	return w, err
}

// Write counts the bytes of the file.
func (w *writer) Write(p []byte) (int, error) {
	w.size += int64(len(p))
	return len(p), nil
}

// line adds a line.
func (w *writer) line(v any) error {
	w.chunk.Lines++
	return w.lines.Encode(v)
}

// close stores the chunk and returns it.
func (w *writer) close() (Chunk, error) {
	err := errors.Join(w.gz.Close(), w.out.Flush())
	if err == nil {
		err = w.file.Sync()
	}
	if err = errors.Join(err, w.file.Close()); err != nil {
		return Chunk{}, errors.Join(err, os.Remove(w.file.Name()))
	}
	w.chunk.SHA256, w.chunk.Bytes = hex.EncodeToString(w.sum.Sum(nil)), w.size
	return w.chunk, os.Rename(w.file.Name(), w.d.chunkPath(w.chunk.SHA256))
}

// abandon removes what was written.
func (w *writer) abandon() error {
	return errors.Join(w.file.Close(), os.Remove(w.file.Name()))
}

// MessageWriter writes the messages of a partition to chunks. It is not for concurrent use.
type MessageWriter struct {
	d     Dir
	now   *writer // nil: none is begun
	bytes int     // of bodies in it
	done  []Chunk
}

// Messages returns a writer that continues after the chunks of an earlier backup.
func (d Dir) Messages(behind []Chunk) *MessageWriter { return &MessageWriter{d: d, done: behind} }

// Add adds a message, whose offset is above those before.
func (w *MessageWriter) Add(m *Message) (err error) {
	if w.now == nil {
		if w.now, err = newWriter(w.d); err != nil {
			return err
		}
		w.now.chunk.First, w.bytes = m.Seq, 0
	}
	w.now.chunk.End = m.Seq + 1
	w.bytes += len(m.Body)
	if err := w.now.line(m); err != nil {
		return err
	}
	if w.now.chunk.Full = w.now.chunk.Lines >= ChunkMessages || w.bytes >= chunkBytes; w.now.chunk.Full {
		return w.end()
	}
	return nil
}

func (w *MessageWriter) end() error {
	c, err := w.now.close()
	w.now = nil
	w.done = append(w.done, c)
	return err
}

// Close ends the last chunk, and returns all.
func (w *MessageWriter) Close() ([]Chunk, error) {
	if w.now == nil {
		return w.done, nil
	}
	err := w.end()
	return w.done, err
}

// Abandon gives up the last chunk.
func (w *MessageWriter) Abandon() error {
	if w.now == nil {
		return nil
	}
	return w.now.abandon()
}

// WritePositions writes the positions of a topic's channels to a chunk.
func (d Dir) WritePositions(all []Position) (*Chunk, error) {
	w, err := newWriter(d)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := w.line(&all[i]); err != nil {
			return nil, errors.Join(err, w.abandon())
		}
	}
	c, err := w.close()
	return &c, err
}

// EachMessage calls f with the messages of a chunk. It has read and checked the whole file before.
func (d Dir) EachMessage(c *Chunk, f func(*Message) error) error {
	next := c.First
	return each(d, c, func(m *Message) error {
		if m.Seq < next || m.Seq >= c.End {
			return corrupt("chunk %s: offset %d is out of order", c.SHA256, m.Seq)
		}
		next = m.Seq + 1
		return f(m)
	})
}

// EachPosition calls f with the positions of a chunk.
func (d Dir) EachPosition(c *Chunk, f func(*Position) error) error { return each(d, c, f) }

// check reads a chunk, and returns what is wrong with its bytes.
func (d Dir) check(f *os.File, c *Chunk) error {
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	switch got := hex.EncodeToString(sum.Sum(nil)); {
	case err != nil:
		return corrupt("chunk %s cannot be read: %w", d.chunkPath(c.SHA256), err)
	case n != c.Bytes:
		return corrupt("chunk %s has %d bytes, want %d", d.chunkPath(c.SHA256), n, c.Bytes)
	case got != c.SHA256:
		return corrupt("chunk %s has checksum %s", d.chunkPath(c.SHA256), got)
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// each calls f with the lines of a chunk.
func each[T any](d Dir, c *Chunk, f func(*T) error) (err error) {
	file, err := os.Open(d.chunkPath(c.SHA256))
	if err != nil {
		return corrupt("chunk is missing: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	if err := d.check(file, c); err != nil {
		return err
	}
	gz, err := gzip.NewReader(bufio.NewReaderSize(file, 256<<10))
	if err != nil {
		return corrupt("chunk %s: %w", c.SHA256, err)
	}
	lines := json.NewDecoder(gz)
	for n := 0; ; n++ {
		v := new(T)
		switch err := lines.Decode(v); {
		case errors.Is(err, io.EOF) && n == c.Lines:
			return nil
		case errors.Is(err, io.EOF):
			return corrupt("chunk %s has %d lines, want %d", c.SHA256, n, c.Lines)
		case err != nil:
			return corrupt("chunk %s, line %d: %w", c.SHA256, n+1, err)
		}
		if err := f(v); err != nil {
			return err
		}
	}
}

// Verify reads all of a backup and returns what is wrong with it.
func (d Dir) Verify(m *Manifest) (wrong []error) {
	for i := range m.Topics {
		t := &m.Topics[i]
		for k := range t.Partitions {
			end := uint64(0)
			for j := range t.Partitions[k].Chunks {
				c := &t.Partitions[k].Chunks[j]
				err := d.EachMessage(c, func(*Message) error { return nil })
				if c.First < end {
					err = errors.Join(err, corrupt("chunk %s overlaps the one before", c.SHA256))
				}
				if end = c.End; err != nil {
					wrong = append(wrong, fmt.Errorf("%s/%d: %w", t.Name, t.Partitions[k].Partition, err))
				}
			}
		}
		if t.Positions != nil {
			if err := d.EachPosition(t.Positions, func(*Position) error { return nil }); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: positions: %w", t.Name, err))
			}
		}
	}
	return wrong
}
