package redo

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// keptInfix is in the name of a journal's file that was kept.
const keptInfix = ".kept-"

// IsKept reports whether the name in Options.Dir is that of a file that Open has kept: see
// Options.Unwritable.
func IsKept(name string) bool { return strings.Contains(name, keptInfix) }

// Kept is what a file of the journal that was kept still has to offer to one other file.
type Kept struct {
	Journal string // path of the journal's file
	Path    string // of the other file
	From    int64  // position of the first byte that the other file lacks
	Err     error  // why it could not be written; nil: other bytes are there
}

// maxKeptRange bounds the part of one file that is compared with a kept journal.
const maxKeptRange = 64 << 20

// replayKept writes what this and earlier calls of Open could not write, and have kept, to the files for which
// o.Retry asks. A file may have changed since: it gets nothing unless each byte is either there
// already, or zero, or behind its end. A journal that has nothing more to offer is removed. The
// caller has replayed everything that was written since.
func (y *recovery) replayKept() error {
	if y.o.Retry == nil {
		return nil
	}
	names, err := y.fs.ReadDir(y.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !IsKept(name) })
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(generationOf(a), generationOf(b)) })
	for _, name := range names {
		if err := y.replayOneKept(filepath.Join(y.o.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// generationOf returns the generation in the name of a kept file.
func generationOf(name string) uint64 {
	_, number, _ := strings.Cut(name, keptInfix)
	n, _ := strconv.ParseUint(number, 10, 64) // other names come first
	return n
}

func (y *recovery) replayOneKept(journal string) error {
	var m image
	if err := m.read(y.fs, journal); err != nil {
		return err
	}
	writes, names := map[string][]again{}, map[uint64]string{}
	m.readNames(names)
	m.collect(writes, names, &Report{}, 0)
	left := 0
	for path, all := range writes {
		name := filepath.Join(y.o.Root, path)
		if !y.o.Retry(name) {
			continue
		}
		from, err := y.complete(name, all)
		switch {
		case err != nil && !isDamage(err):
			return fmt.Errorf("%s: %w", name, err)
		case err != nil || from >= 0:
			y.report.Unfit = append(y.report.Unfit, Kept{journal, name, max(from, 0), err})
			left++
		}
	}
	if left > 0 || m.damaged {
		return nil
	}
	y.report.Retried = append(y.report.Retried, journal)
	return errors.Join(y.fs.Remove(journal), y.fs.SyncDir(y.o.Dir))
}

// complete makes writes to a file if they fit. It returns the position of the first byte that
// does not; -1: the file has all of them now, or does not exist.
func (y *recovery) complete(path string, all []again) (from int64, err error) {
	f, err := y.fs.OpenReadWrite(path)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	from, err = completeFile(f, all)
	return from, errors.Join(err, f.Close())
}

func completeFile(f vfs.File, all []again) (from int64, err error) {
	first, end := all[0].off, int64(0)
	for _, a := range all {
		first, end = min(first, a.off), max(end, a.off+int64(len(a.data)))
	}
	if end-first > maxKeptRange {
		return first, nil
	}
	want := make([]byte, end-first)
	for _, a := range all { // a later write counts
		copy(want[a.off-first:], a.data)
	}
	known := rangesOf(all)
	size, err := f.Size()
	if err != nil {
		return first, err
	}
	is := make([]byte, len(want))
	if n := min(end, size) - first; n > 0 {
		if _, err := f.ReadAt(is[:n], first); err != nil && !errors.Is(err, io.EOF) {
			return first, err
		}
	}
	same := true
	for _, x := range known {
		for i := x.from - first; i < x.to-first; i++ {
			if is[i] == want[i] {
				continue
			}
			if same = false; is[i] != 0 {
				return first + i, nil
			}
		}
	}
	if same && end <= size {
		return -1, nil
	}
	for _, x := range known {
		if p := want[x.from-first : x.to-first]; !bytes.Equal(p, is[x.from-first:x.to-first]) || x.to > size {
			if _, err := f.WriteAt(p, x.from); err != nil {
				return x.from, err
			}
		}
	}
	return -1, f.SyncData()
}

// rangesOf returns the ranges of a file that writes cover, in order.
func rangesOf(all []again) (ranges []span) {
	for _, a := range all {
		ranges = append(ranges, span{a.off, a.off + int64(len(a.data))})
	}
	slices.SortFunc(ranges, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	n := 0
	for _, x := range ranges[1:] {
		if last := &ranges[n]; x.from <= last.to {
			last.to = max(last.to, x.to)
			continue
		}
		n++
		ranges[n] = x
	}
	return ranges[:n+1]
}
