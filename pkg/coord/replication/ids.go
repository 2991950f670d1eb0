package replication

import (
	"fmt"
	"time"
)

// IDs are the dedup ids of messages that a log no longer holds, in files. Its methods are safe for concurrent use.
type IDs interface {
	// Files returns the numbers of the files, in order.
	Files() []uint64
	// Read returns the content of a file; nil: it is gone.
	Read(number uint64) ([]byte, error)
	// Replace durably stores a file of another replica. The first, which is empty, replaces all files.
	Replace(first bool, content []byte, now time.Time) error
}

// ids carries a file of dedup ids of messages that the leader's log no longer holds; the first one replaces all that
// the follower has, and is empty.
type ids struct {
	header
	first bool
	file  []byte
}

// head returns an ids without its file.
func (m ids) head() []byte {
	p := m.header.append(nil)
	if m.first {
		return append(p, 1)
	}
	return append(p, 0)
}

func decodeIDs(payload []byte) (ids, error) {
	r := read(payload)
	m := ids{header: r.header(), first: r.Uint8() != 0}
	m.file = r.Next(len(r.Rest))
	return m, r.End(errMalformed, "ids")
}

// giveIDs sends the files of dedup ids of messages that this log no longer holds, one after the other, and then calls
// then: a follower whose log begins where this one does has no other way to know them.
func (r *Replicator) giveIDs(session uint64, first bool, rest []uint64, then func()) {
	if r.o.IDs == nil {
		then()
		return
	}
	var file []byte
	if first {
		rest = r.o.IDs.Files()
	}
	for !first && file == nil && len(rest) > 0 {
		var err error
		if file, err = r.o.IDs.Read(rest[0]); err != nil {
			r.retry(session, true, fmt.Sprintf("cannot read the leader's dedup ids: %v", err))
			return
		}
		rest = rest[1:]
	}
	if !first && file == nil {
		then()
		return
	}
	r.call(session, kindIDs, [][]byte{ids{header: r.head, first: first}.head(), file}, nil, func(answer) {
		r.giveIDs(session, false, rest, then)
	})
}

// remember stores dedup ids of messages before the log that is about to begin.
func (f *Follower) remember(m ids) answer {
	if s := f.following.IDs; s != nil {
		if err := s.Replace(m.first, m.file, time.Now()); err != nil {
			return f.refusal(err)
		}
	}
	return f.answer(outcomeOK)
}
