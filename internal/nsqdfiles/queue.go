package nsqdfiles

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// A record of a disk queue is a big-endian size(4) and a message:
// timestamp(8) attempts(2) id(16) body.
const (
	sizeBytes = 4
	headBytes = 8 + 2 + 16
	// maxRecord is the largest message that is believed: 64 MiB of body.
	maxRecord = headBytes + 64<<20
)

// Message is a message that waits.
type Message struct {
	Timestamp int64 // of publishing, ns since 1970
	Attempts  uint16
	ID        [16]byte
	Body      []byte // good during the call that hands it over
}

// Queue is a disk queue that was read and checked.
type Queue struct {
	Messages int

	spans []span
	notes []string
}

// span is a part of a file with whole messages.
type span struct {
	file     string
	from, to int64
}

// parts are the files of one queue by their numbers; meta may be missing.
type parts struct {
	meta  string
	files map[int64]string
}

func (p *parts) add(what, name string) {
	if what == "meta" {
		p.meta = name
		return
	}
	n, err := strconv.ParseInt(what, 10, 64)
	if err != nil {
		return // more digits than a number has: no queue gets this far
	}
	if p.files == nil {
		p.files = map[int64]string{}
	}
	p.files[n] = name
}

// place is the read and write position of a queue, from its meta file.
type place struct {
	depth               int64
	readFile, readPos   int64
	writeFile, writePos int64
}

var metaForm = regexp.MustCompile(`^(-?\d+)\n(\d+),(\d+)\n(\d+),(\d+)\n?$`)

func readPlace(file string) (p place, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	m := metaForm.FindSubmatch(content)
	if m == nil {
		return p, fmt.Errorf("%s: not a disk queue meta file", file)
	}
	for i, to := range []*int64{&p.depth, &p.readFile, &p.readPos, &p.writeFile, &p.writePos} {
		if *to, err = strconv.ParseInt(string(m[i+1]), 10, 64); err != nil {
			return p, fmt.Errorf("%s: %w", file, err)
		}
	}
	if p.readFile > p.writeFile || p.readFile == p.writeFile && p.readPos > p.writePos {
		return p, fmt.Errorf("%s: read position is past the write position", file)
	}
	return p, nil
}

// readQueue checks every message of a queue, from the last read position to the end of its last
// file. Messages beyond the recorded write position were written after that was stored, before nsqd
// was killed.
func readQueue(path, name string, p *parts) (Queue, error) {
	var q Queue
	numbers := make([]int64, 0, len(p.files))
	for n := range p.files {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	var at place
	if p.meta != "" {
		var err error
		if at, err = readPlace(filepath.Join(path, p.meta)); err != nil {
			return q, err
		}
	} else if len(numbers) > 0 {
		at.readFile, at.writeFile = numbers[0], numbers[0]
		q.notes = append(q.notes, fmt.Sprintf("disk queue %q has no meta file; reading from its first file", name))
	}
	if i, found := slices.BinarySearch(numbers, at.readFile); !found || i > 0 {
		for _, n := range numbers[:i] {
			q.notes = append(q.notes, p.files[n]+" skipped: fully read")
		}
		numbers = numbers[i:]
	}
	if err := at.complete(path, name, numbers); err != nil {
		return q, err
	}
	for _, n := range numbers {
		if err := q.scan(filepath.Join(path, p.files[n]), n, at); err != nil {
			return q, err
		}
	}
	if int64(q.Messages) < at.depth {
		return q, fmt.Errorf("%s: disk queue %q has %d messages, its meta file says %d: cannot tell which are missing", path, name, q.Messages, at.depth)
	}
	return q, nil
}

// complete refuses a queue of which a file is missing that holds messages.
func (at place) complete(path, name string, numbers []int64) error {
	for n := at.readFile; n <= at.writeFile; n++ {
		if len(numbers) > int(n-at.readFile) && numbers[n-at.readFile] == n {
			continue
		}
		empty := n == at.writeFile && (at.writePos == 0 || at.readFile == n && at.readPos == at.writePos)
		if !empty {
			return fmt.Errorf("%s: disk queue %q lacks file %06d, which held messages", path, name, n)
		}
	}
	return nil
}

// scan checks the messages of one file and records their positions. The last message of a file may
// be truncated if nsqd was killed while it wrote, after the meta file or before it continued with
// another file. The depth shows whether it counted.
func (q *Queue) scan(file string, n int64, at place) error {
	from := int64(0)
	if n == at.readFile {
		from = at.readPos
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if n == at.writeFile && info.Size() < at.writePos || info.Size() < from {
		return fmt.Errorf("%s: truncated at %d bytes, shorter than its meta file says: messages are missing", file, info.Size())
	}
	s := span{file, from, from}
	err = s.each(f, info.Size(), func(Message) error {
		q.Messages++
		return nil
	})
	var cut *cutError
	switch {
	case errors.As(err, &cut) && (n != at.writeFile || cut.at >= at.writePos):
		q.notes = append(q.notes, fmt.Sprintf("%s: the last %d bytes are an incomplete message", file, info.Size()-cut.at))
		s.to = cut.at
	case err != nil:
		return err
	default:
		s.to = info.Size()
	}
	q.spans = append(q.spans, s)
	return nil
}

// cutError is a record that is not all there.
type cutError struct {
	file string
	at   int64
}

func (e *cutError) Error() string {
	return fmt.Sprintf("%s: truncated message at byte %d: the file is corrupt", e.file, e.at)
}

// each reads the messages of a span up to an end.
func (s span) each(f io.ReadSeeker, end int64, do func(Message) error) error {
	if _, err := f.Seek(s.from, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(f, 1<<20)
	var head [sizeBytes]byte
	var record []byte
	for at := s.from; at < end; {
		if end-at < sizeBytes {
			return &cutError{s.file, at}
		}
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return fmt.Errorf("%s: %w", s.file, err)
		}
		size := int64(int32(binary.BigEndian.Uint32(head[:])))
		if size < headBytes || size > maxRecord {
			return fmt.Errorf("%s: message of %d bytes at byte %d: the file is corrupt", s.file, size, at)
		}
		if end-at-sizeBytes < size {
			return &cutError{s.file, at}
		}
		if int64(cap(record)) < size {
			record = make([]byte, size)
		}
		record = record[:size]
		if _, err := io.ReadFull(r, record); err != nil {
			return fmt.Errorf("%s: %w", s.file, err)
		}
		m := Message{Timestamp: int64(binary.BigEndian.Uint64(record)), Attempts: binary.BigEndian.Uint16(record[8:]), Body: record[headBytes:]}
		copy(m.ID[:], record[10:headBytes])
		if err := do(m); err != nil {
			return err
		}
		at += sizeBytes + size
	}
	return nil
}

// Each passes on the queue's messages in order.
func (q *Queue) Each(do func(Message) error) error {
	for _, s := range q.spans {
		f, err := os.Open(s.file)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s disappeared while it was being read", s.file)
		}
		if err != nil {
			return err
		}
		err = s.each(f, s.to, do)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
