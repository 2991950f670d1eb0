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

// Lack says that a file may lack what a kept file of the journal holds.
type Lack struct {
	Path string // of the file; if a kept file cannot be read, its own path
	From int64  // position of the first byte that is not as the kept files say
	Err  error  // why that is not known; nil: it is known
}

// maxCompared bounds the part of one file that is compared with the kept files.
const maxCompared = 64 << 20

// compareKept compares what this and earlier calls of Open have kept with the files that o.Compare
// chooses, and removes it if they have all of it. It writes to none of them: a log may have been
// truncated or reconciled with its leader since, and what it lacks is not told from what it has
// dropped. Nothing here makes Open fail.
func (y *recovery) compareKept() {
	if y.o.Compare == nil {
		return
	}
	names, err := y.keptNames()
	if err != nil || len(names) == 0 {
		return // without a directory there is nothing to compare
	}
	writes := map[string][]again{}
	for _, name := range names {
		path := filepath.Join(y.o.Dir, name)
		y.report.Kept = append(y.report.Kept, path)
		if err := y.collectKept(path, writes); err != nil {
			y.report.Lacks = append(y.report.Lacks, Lack{Path: path, Err: err})
		}
	}
	for path, all := range writes {
		name := filepath.Join(y.o.Root, path)
		if !y.o.Compare(name) {
			continue
		}
		if from, err := y.lacks(name, all); err != nil || from >= 0 {
			y.report.Lacks = append(y.report.Lacks, Lack{name, max(from, 0), err})
		}
	}
	slices.SortFunc(y.report.Lacks, func(a, b Lack) int { return strings.Compare(a.Path, b.Path) })
	if len(y.report.Lacks) > 0 {
		return
	}
	for _, path := range y.report.Kept {
		if y.fs.Remove(path) != nil {
			return // the next start finds the same, and tries again
		}
	}
	y.report.Dropped, y.report.Kept = y.report.Kept, nil
}

// keptNames returns the names of what was kept, the oldest first.
func (y *recovery) keptNames() ([]string, error) {
	names, err := y.fs.ReadDir(y.o.Dir)
	names = slices.DeleteFunc(names, func(name string) bool { return !IsKept(name) })
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(generationOf(a), generationOf(b)) })
	return names, err
}

// generationOf returns the generation in the name of a kept file.
func generationOf(name string) uint64 {
	_, number, _ := strings.Cut(name, keptInfix)
	n, _ := strconv.ParseUint(number, 10, 64) // other names come first
	return n
}

// errKeptDamaged means that a part of a kept file cannot be read, or is not valid.
var errKeptDamaged = errors.New("the kept journal is damaged")

// collectKept adds the writes that one kept file holds, and takes off those that it voids.
func (y *recovery) collectKept(path string, writes map[string][]again) error {
	var m image
	if err := m.read(y.fs, path); err != nil {
		return err
	}
	names := map[uint64]string{} // another kept file may be of another process, with other numbers
	m.readNames(names)
	var r Report
	m.collect(writes, names, &r, 0)
	if m.damaged || m.holes || r.Damaged {
		return errKeptDamaged
	}
	return nil
}

// Run is bytes that a kept file of a journal holds for a file, which continue without a gap.
type Run struct {
	Off  int64
	Data []byte
}

// ReadKept returns what a kept file of a journal holds for each file, by its path below the root, in the order of the
// positions. It changes nothing. After an error, what can be read is returned.
func ReadKept(fsys vfs.FS, path string) (map[string][]Run, error) {
	writes := map[string][]again{}
	y := recovery{fs: fsys}
	err := y.collectKept(path, writes)
	files := map[string][]Run{}
	for name, all := range writes {
		files[name] = runsOf(all)
	}
	return files, err
}

// runsOf joins writes. A later one counts where they overlap.
func runsOf(all []again) (runs []Run) {
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b again) int { return cmp.Compare(a.off, b.off) })
	var ends []int64
	for _, a := range ordered {
		end := a.off + int64(len(a.data))
		if n := len(runs); n > 0 && a.off <= ends[n-1] {
			ends[n-1] = max(ends[n-1], end)
			continue
		}
		runs, ends = append(runs, Run{Off: a.off}), append(ends, end)
	}
	for i := range runs {
		runs[i].Data = make([]byte, ends[i]-runs[i].Off)
	}
	for _, a := range all {
		i, found := slices.BinarySearchFunc(runs, a.off, func(r Run, off int64) int { return cmp.Compare(r.Off, off) })
		if !found {
			i--
		}
		copy(runs[i].Data[a.off-runs[i].Off:], a.data)
	}
	return runs
}

// lacks returns the position of the first byte of a file that is not as writes say; -1: the file has
// them all, or does not exist.
func (y *recovery) lacks(path string, all []again) (from int64, err error) {
	first, end := all[0].off, int64(0)
	for _, a := range all {
		first, end = min(first, a.off), max(end, a.off+int64(len(a.data)))
	}
	if end-first > maxCompared {
		return first, fmt.Errorf("%d bytes are too many to compare", end-first)
	}
	f, err := y.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return first, err
	}
	is := make([]byte, end-first)
	n, err := f.ReadAt(is, first)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return first, err
	}
	want := bytes.Clone(is)
	for _, a := range all { // a later write counts
		copy(want[a.off-first:], a.data)
	}
	for i := range want {
		if want[i] != is[i] {
			return first + int64(i), nil
		}
	}
	if int64(n) < end-first {
		return first + int64(n), nil
	}
	return -1, nil
}
