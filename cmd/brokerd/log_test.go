package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// writeLog makes a log of three batches in two epochs and returns its directory.
func writeLog(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	l, _, err := commitlog.Open(vfs.OS{}, dir, commitlog.Options{SegmentBytes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	for i, count := range []int{2, 1, 3} {
		w, err := l.Writer(seq.Epoch(1 + i/2))
		if err != nil {
			t.Fatal(err)
		}
		b := new(commitlog.Builder)
		for range count {
			copy(b.Next(3), "abc")
		}
		if _, err := w.Append(b, int64(i)*1e9); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	l.Commit(l.End())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDumpShowsEveryBatch(t *testing.T) {
	dir := writeLog(t)
	var out bytes.Buffer
	if err := dumpLog(&out, dir, dumpOptions{output: "table", to: 100}); err != nil {
		t.Fatal(err)
	}
	var short []string
	for line := range strings.Lines(out.String()) {
		short = append(short, strings.Join(strings.Fields(line)[:5], " "))
	}
	want := []string{
		"FIRST END EPOCH TIME RECORDS", "0 2 1 1970-01-01T00:00:00Z 2", "2 3 1 1970-01-01T00:00:01Z 1", "3 6 2 1970-01-01T00:00:02Z 3",
	}
	if diff := cmp.Diff(want, short); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		from, to uint64
		want     int
	}{{0, 100, 3}, {2, 100, 2}, {3, 3, 0}, {0, 1, 1}, {2, 3, 1}} {
		out.Reset()
		if err := dumpLog(&out, dir, dumpOptions{output: "json", from: tt.from, to: tt.to, records: true}); err != nil {
			t.Fatal(err)
		}
		var batches []batchLine
		if err := json.Unmarshal(out.Bytes(), &batches); err != nil || len(batches) != tt.want {
			t.Fatalf("%d to %d: %d batches, want %d: %v", tt.from, tt.to, len(batches), tt.want, err)
		}
		for _, b := range batches {
			if len(b.RecordSet) != b.Count || b.RecordSet[0].Hex != "616263" || b.RecordSet[0].Offset != b.First {
				t.Errorf("records %+v", b)
			}
		}
	}
	out.Reset()
	if err := dumpLog(&out, dir, dumpOptions{output: "ndjson", to: 100}); err != nil || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("%v %s", err, &out)
	}
}

// A kept redo journal may be the only place of messages: its batches are printed without a node.
func TestDumpShowsWhatAKeptJournalHolds(t *testing.T) {
	root := t.TempDir()
	dir, journals := filepath.Join(root, "topics", "t.1", "0"), filepath.Join(root, "redo")
	fsys, _, err := redo.Open(vfs.OS{}, redo.Options{Root: root, Dir: journals, FileBytes: 1 << 20, Together: 1, Age: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := commitlog.Open(fsys, dir, commitlog.Options{FillBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	w, err := l.Writer(1)
	if err != nil {
		t.Fatal(err)
	}
	journal, written := filepath.Join(journals, "journal-0"), uint64(0)
	write := func() {
		t.Helper()
		b := new(commitlog.Builder)
		copy(b.Next(3), "abc")
		if _, err := w.Append(b, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Sync(); err != nil {
			t.Fatal(err)
		}
		written++
	}
	write()
	for files := map[string][]redo.Run(nil); len(files) == 0; write() { // another goroutine makes the journal
		files, _ = redo.ReadKept(vfs.OS{}, journal) // it does not exist at first
	}
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(journals, "journal-0.kept-7")
	if err := errors.Join(os.WriteFile(kept, text, 0o600), l.Close(), fsys.Close()); err != nil {
		t.Fatal(err)
	}
	if !isKeptJournal(kept) || isKeptJournal(journal) || isKeptJournal(dir) {
		t.Error("the kept journal is not told from others")
	}
	var out bytes.Buffer
	if err := dumpKept(&out, kept, dumpOptions{output: "json", to: written - 1, records: true}); err != nil {
		t.Fatal(err)
	}
	var batches []batchLine
	if err := json.Unmarshal(out.Bytes(), &batches); err != nil || len(batches) == 0 {
		t.Fatalf("%v:\n%s", err, out.Bytes())
	}
	last := batches[len(batches)-1]
	if uint64(last.End) != written-1 || last.RecordSet[0].Hex != "616263" || !strings.HasPrefix(last.Log, "topics/t.1/0/") || last.Position <= 0 {
		t.Errorf("%+v", last)
	}
	out.Reset()
	if err := dumpKept(&out, kept, dumpOptions{output: "table", to: written}); err != nil || strings.Count(out.String(), last.Log+":\n") != 1 {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestVerifyFindsDamageAndOnlyDamage(t *testing.T) {
	dir := writeLog(t)
	var out bytes.Buffer
	if err := verifyLogs(&out, []string{dir}, "table"); err != nil || !strings.Contains(out.String(), " ok ") || !strings.Contains(out.String(), "1@0 2@3") {
		t.Errorf("%v %s", err, &out)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	content, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	content[bytes.Index(content, []byte("abc"))] ^= 1
	if err := os.WriteFile(segments[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := verifyLogs(&out, []string{dir}, "json"); exitCode(err) != exitFailed {
		t.Errorf("damage ends with %v", err)
	}
	var all []verified
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].OK || len(all[0].Damaged) != 1 || all[0].Damaged[0].From != 0 || all[0].Damaged[0].Next != 2 {
		t.Errorf("%+v", all)
	}
	out.Reset()
	if err := verifyLogs(&out, []string{dir}, "table"); !isSilent(err) || !strings.Contains(out.String(), "offsets 0 to 1 are lost") {
		t.Errorf("%v %s", err, &out)
	}
}

func TestInvalidLogDirectoryIsRefused(t *testing.T) {
	for _, tt := range []struct {
		dir, output string
		code        int
	}{
		{t.TempDir(), "table", exitFailed}, {"no/such", "table", exitDisk}, {writeLog(t), "xml", exitUsage},
	} {
		for _, command := range []string{"verify", "dump"} {
			p := &program{stdout: &bytes.Buffer{}, stderr: os.Stderr}
			if err := p.brokerd(t.Context(), []string{"log", command, tt.dir, "-o", tt.output}); exitCode(err) != tt.code {
				t.Errorf("%s: %+v: %v", command, tt, err)
			}
		}
	}
}
