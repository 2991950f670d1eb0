package backup

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/fate"
)

// A chunk is full, and shared by later backups, once it has one of these.
const (
	ChunkMessages = 10_000
	chunkBytes    = 32 << 20 // of bodies
)

// verifiedTogether is how many chunks are verified at a time.
const verifiedTogether = 4

// digest is the SHA-256 of a chunk.
type digest [sha256.Size]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

func parseDigest(text string) (d digest, ok bool) {
	n, err := hex.Decode(d[:], []byte(text))
	return d, err == nil && n == len(d)
}

// writer writes one chunk. It has its name once it is stored.
type writer struct {
	draft Draft
	sum   hash.Hash
	size  int64
	out   *bufio.Writer
	gz    *gzip.Writer
	lines *json.Encoder
	chunk Chunk
}

// newWriter begins a chunk.
func newWriter(s Store) (*writer, error) {
	draft, err := s.Draft()
	if err != nil {
		return nil, err
	}
	w := &writer{draft: draft, sum: sha256.New()}
	w.out = bufio.NewWriterSize(io.MultiWriter(draft, w.sum, w), 256<<10)
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

// close stores the chunk, unless the repository has it, and returns it.
func (w *writer) close(ctx context.Context, k *Work) (Chunk, error) {
	if err := errors.Join(w.gz.Close(), w.out.Flush()); err != nil {
		return Chunk{}, errors.Join(err, w.draft.Discard())
	}
	var sum digest
	w.sum.Sum(sum[:0])
	w.chunk.SHA256, w.chunk.Bytes = sum.String(), w.size
	if k.Has(&w.chunk) {
		return w.chunk, w.draft.Discard()
	}
	if err := w.draft.Commit(ctx, chunkName(w.chunk.SHA256)); err != nil {
		return Chunk{}, fmt.Errorf("store a chunk of %d bytes: %w", w.size, err)
	}
	k.has[sum] = w.size
	return w.chunk, nil
}

// MessageWriter writes the messages of a partition to chunks. It is not for concurrent use.
type MessageWriter struct {
	k     *Work
	now   *writer // nil: none is begun
	last  *Message
	bytes int // of bodies in it
	done  []Chunk
}

// Messages returns a writer that continues after the chunks of an earlier backup.
func (k *Work) Messages(behind []Chunk) *MessageWriter { return &MessageWriter{k: k, done: behind} }

// Add adds a message, whose offset is above those before. The message must not change afterwards.
func (w *MessageWriter) Add(ctx context.Context, m *Message) (err error) {
	if w.now == nil {
		if w.now, err = newWriter(w.k.r.store); err != nil {
			return err
		}
		w.now.chunk.First, w.bytes = m.Seq, 0
	}
	w.now.chunk.End, w.last = m.Seq+1, m
	w.bytes += len(m.Body)
	if err := w.now.line(m); err != nil {
		return err
	}
	if w.now.chunk.Full = w.now.chunk.Lines >= ChunkMessages || w.bytes >= chunkBytes; w.now.chunk.Full {
		return w.end(ctx)
	}
	return nil
}

func (w *MessageWriter) end(ctx context.Context) error {
	w.now.chunk.Last = w.last.Mark()
	c, err := w.now.close(ctx, w.k)
	w.now, w.last = nil, nil
	w.done = append(w.done, c)
	return err
}

// Close ends the last chunk, and returns all.
func (w *MessageWriter) Close(ctx context.Context) ([]Chunk, error) {
	if w.now == nil {
		return w.done, nil
	}
	err := w.end(ctx)
	return w.done, err
}

// Abandon gives up the last chunk.
func (w *MessageWriter) Abandon() error {
	if w.now == nil {
		return nil
	}
	return w.now.draft.Discard()
}

// WritePositions writes the positions of a topic's channels to a chunk.
func (k *Work) WritePositions(ctx context.Context, all []Position) (*Chunk, error) {
	w, err := newWriter(k.r.store)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := w.line(&all[i]); err != nil {
			return nil, errors.Join(err, w.draft.Discard())
		}
	}
	c, err := w.close(ctx, k)
	return &c, err
}

// EachMessage calls f with the messages of a chunk. It has read and checked the whole chunk before.
func (r *Repository) EachMessage(ctx context.Context, c *Chunk, f func(*Message) error) error {
	next := c.First
	return each(ctx, r, c, func(m *Message) error {
		if m.Seq < next || m.Seq >= c.End {
			return corrupt("chunk %s: offset %d is out of order", c.SHA256, m.Seq)
		}
		next = m.Seq + 1
		return f(m)
	})
}

// EachPosition calls f with the positions of a chunk.
func (r *Repository) EachPosition(ctx context.Context, c *Chunk, f func(*Position) error) error {
	return each(ctx, r, c, f)
}

// location returns where a chunk is stored, for messages.
func (r *Repository) location(c *Chunk) string { return r.String() + "/" + chunkName(c.SHA256) }

// checkBytes reads a chunk, and returns what is wrong with its bytes.
func checkBytes(f io.ReadSeeker, r *Repository, c *Chunk) error {
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	switch got := hex.EncodeToString(sum.Sum(nil)); {
	case err != nil:
		return corrupt("chunk %s cannot be read: %w", r.location(c), err)
	case n > c.Bytes:
		return corrupt("chunk %s has more than %d bytes", r.location(c), c.Bytes)
	case n != c.Bytes:
		return corrupt("chunk %s has %d bytes, want %d", r.location(c), n, c.Bytes)
	case got != c.SHA256:
		return corrupt("chunk %s has checksum %s", r.location(c), got)
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// each calls f with the lines of a chunk.
func each[T any](ctx context.Context, r *Repository, c *Chunk, f func(*T) error) (err error) {
	file, err := r.store.Open(ctx, chunkName(c.SHA256), c.Bytes)
	if errors.Is(err, fs.ErrNotExist) {
		return corrupt("chunk %s is missing: %w", r.location(c), err)
	}
	if err != nil {
		return fmt.Errorf("chunk %s: %w", r.location(c), err)
	}
	defer func() { _ = file.Close() }() // it was only read
	if err := checkBytes(file, r, c); err != nil {
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

// Verify reads all of a backup and returns what is wrong with it. With an error, the store could not
// be read, and the rest was not verified.
func (r *Repository) Verify(ctx context.Context, m *Manifest) (wrong []error, err error) {
	var checks []func() error
	for i := range m.Topics {
		t := &m.Topics[i]
		for k := range t.Partitions {
			p, end := &t.Partitions[k], uint64(0)
			for j := range p.Chunks {
				c, before := &p.Chunks[j], end
				checks = append(checks, func() error { return wrapped(verify(ctx, r, c, before), "%s/%d", t.Name, p.Partition) })
				end = c.End
			}
		}
		if t.Positions != nil {
			checks = append(checks, func() error {
				err := r.EachPosition(ctx, t.Positions, func(*Position) error { return nil })
				return wrapped(err, "%s: positions", t.Name)
			})
		}
	}
	errs := make([]error, len(checks))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	_ = fan.Join(len(checks), verifiedTogether, func(i int) error { // the errors are in errs
		if errs[i] = context.Cause(ctx); errs[i] == nil {
			if errs[i] = checks[i](); errs[i] != nil && fate.Of(errs[i]) != fate.Corrupt {
				stop(errs[i])
			}
		}
		return nil
	})
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for _, err := range errs {
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong, nil
}

// wrapped adds the place to an error.
func wrapped(err error, place string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(place, args...), err)
}

// verify reads a chunk of messages behind the end of the one before.
func verify(ctx context.Context, r *Repository, c *Chunk, before uint64) error {
	last := ""
	err := r.EachMessage(ctx, c, func(m *Message) error {
		if m.Seq == c.End-1 {
			last = m.Mark()
		}
		return nil
	})
	switch {
	case err == nil && c.Last != "" && last != c.Last:
		err = corrupt("chunk %s ends with another message", c.SHA256)
	case c.First < before:
		err = errors.Join(err, corrupt("chunk %s overlaps the one before", c.SHA256))
	}
	return err
}
