package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// isKeptJournal reports whether a path is a file of a redo journal that a start has kept.
func isKeptJournal(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && redo.IsKept(filepath.Base(path))
}

// dumpKept prints the batches that a kept redo journal holds for the logs of a node. Bytes that are no whole batch are
// an error: what is readable is printed nevertheless.
func dumpKept(w io.Writer, path string, o dumpOptions) error {
	files, failed := redo.ReadKept(vfs.OS{}, path)
	out := bufio.NewWriter(w)
	printer := newBatchPrinter(out, o.output)
	errs := []error{failed}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) != segmenthead.Suffix {
			continue
		}
		for _, run := range files[name] {
			errs = append(errs, dumpRun(printer, name, run, o))
		}
	}
	return errors.Join(errors.Join(errs...), printer.end(), out.Flush())
}

// dumpRun prints the batches in a part of a segment.
func dumpRun(printer *batchPrinter, name string, run redo.Run, o dumpOptions) error {
	at, raw := run.Off, run.Data
	if at == 0 { // the header of the segment
		skipped := min(segmenthead.Bytes, len(raw))
		at, raw = int64(skipped), raw[skipped:]
	}
	for len(raw) > 0 {
		b, err := commitlog.Decode(raw)
		if err != nil {
			return fmt.Errorf("%s: %d bytes at byte %d are no whole batch: %w", name, len(raw), at, err)
		}
		if uint64(b.End()) > o.from && uint64(b.First()) < o.to {
			line := lineOf(b, o.records)
			line.Log, line.Position = name, at
			if err := printer.print(line); err != nil {
				return err
			}
		}
		at, raw = at+int64(b.Size()), raw[b.Size():]
	}
	return nil
}
