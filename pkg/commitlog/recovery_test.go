package commitlog

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/commitlog/commitnote"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// state builds a log directory: the tests use it for a table of named crash
// states.
type state struct {
	t    *testing.T
	fsys *vfs.Mem
	ends []int64 // where each batch ends in its segment file
}

func at(name string) string { return filepath.Join(testDir, name) }

const (
	seg0 = "00000000000000000000.log"
	idx0 = "00000000000000000000.index"
)

// oneSegment makes a segment of ten batches of one record each, as after a kill:
// no index, preallocated. By the checkpoint, noted of them are durable.
func oneSegment(t *testing.T, noted seq.Offset) *state {
	t.Helper()
	s := &state{t: t, fsys: vfs.NewCrashable()}
	l, _ := mustOpen(t, s.fsys, Options{})
	w := mustWriter(t, l, 1)
	for i := seq.Offset(1); i <= 10; i++ {
		b := mustAppend(t, w, 1)
		s.ends = append(s.ends, segmenthead.Bytes+b.Position()+int64(b.Size()))
		mustSync(t, w)
		if i == noted {
			l.Commit(i)
			if err := l.Checkpoint(0); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// acknowledged makes a segment of ten batches of one record each, as after a kill.
// Batch k was committed before batch k+lag+1 was appended. No checkpoint covers
// them.
func acknowledged(t *testing.T, lag int) *state {
	t.Helper()
	s := &state{t: t, fsys: vfs.NewCrashable()}
	l, _ := mustOpen(t, s.fsys, Options{})
	w := mustWriter(t, l, 1)
	for i := range 10 {
		b := mustAppend(t, w, 1)
		s.ends = append(s.ends, segmenthead.Bytes+b.Position()+int64(b.Size()))
		mustSync(t, w)
		if i >= lag {
			l.Commit(seq.Offset(i - lag + 1))
		}
	}
	return s
}

// threeSegments makes a closed log of three segments: [0,4), [4,8), [8,10).
func threeSegments(t *testing.T) *state {
	t.Helper()
	s := &state{t: t, fsys: vfs.NewCrashable()}
	l, _ := mustOpen(t, s.fsys, Options{SegmentBytes: 520, FillBytes: -1})
	w := mustWriter(t, l, 1)
	for range 5 {
		b := new(Builder)
		b.Next(80)
		b.Next(80)
		if _, err := w.Append(b, 0); err != nil {
			t.Fatal(err)
		}
		mustSync(t, w)
	}
	l.Commit(10)
	mustClose(t, l)
	if n := l.Stats().Segments; n != 3 {
		t.Fatalf("%d segments", n)
	}
	return s
}

func (s *state) edit(name string, change func(f vfs.File) error) {
	s.t.Helper()
	f, err := s.fsys.OpenReadWrite(at(name))
	if err == nil {
		err = errors.Join(change(f), f.SyncData(), f.Close())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *state) write(name string, off int64, p []byte) {
	s.t.Helper()
	s.edit(name, func(f vfs.File) error { _, err := f.WriteAt(p, off); return err })
}

func (s *state) create(name string, p []byte) {
	s.t.Helper()
	f, err := s.fsys.Create(at(name))
	if err == nil {
		_, werr := f.WriteAt(p, 0)
		err = errors.Join(werr, f.SyncData(), f.Close(), s.fsys.SyncDir(testDir))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *state) remove(name string) {
	s.t.Helper()
	if err := errors.Join(s.fsys.Remove(at(name)), s.fsys.SyncDir(testDir)); err != nil {
		s.t.Fatal(err)
	}
}

func TestRecovery(t *testing.T) {
	type want struct {
		end         seq.Offset
		cut         int
		damaged     []Damage
		lost        bool // the checkpoint
		alternating bool
		powerLost   bool // committed data need not have been durable
	}
	damage := func(name string, pos int64, from, next seq.Offset) []Damage {
		return []Damage{{Path: at(name), Position: pos, From: from, Next: next}}
	}
	zeros := make([]byte, 4096)
	for name, c := range map[string]func(t *testing.T) (*state, want){
		"killed": func(t *testing.T) (*state, want) {
			return oneSegment(t, 0), want{end: 10}
		},
		"torn last batch": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 5)
			s.write(seg0, s.ends[9]-5, []byte{0xee})
			return s, want{end: 9, cut: 1}
		},
		"torn last batch, synced one by one": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 5)
			s.write(seg0, s.ends[9]-5, []byte{0xee})
			return s, want{end: 9, cut: 1, alternating: true}
		},
		"torn in the middle of what was not synced": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 5)
			s.write(seg0, s.ends[6]+20, []byte{0xee})
			return s, want{end: 7, cut: 1}
		},
		"a hole of zeros in what was not synced": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 5)
			s.write(seg0, s.ends[6], zeros[:s.ends[7]-s.ends[6]])
			return s, want{end: 7, cut: 1}
		},
		"damaged with an intact batch behind, synced one by one": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 5)
			s.write(seg0, s.ends[6]+20, []byte{0xee})
			return s, want{end: 10, damaged: damage(seg0, s.ends[6], 7, 8), alternating: true}
		},
		"a hole in what a truncation was cutting, synced one by one": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 5)
			note := checkpoint{durable: 7, committed: 5, durablePos: s.ends[6] - segmenthead.Bytes, epoch: 1, cutting: true}
			s.create(checkpointName, note.encode())
			s.write(seg0, s.ends[6], zeros[:s.ends[7]-s.ends[6]])
			return s, want{end: 7, cut: 1, alternating: true}
		},
		"damaged below the durable end": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 8)
			s.write(seg0, s.ends[1]+50, []byte{0xee})
			return s, want{end: 10, damaged: damage(seg0, s.ends[1], 2, 3)}
		},
		"damaged length below the durable end": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 8)
			s.write(seg0, s.ends[1]+9, []byte{0xee})
			return s, want{end: 10, damaged: damage(seg0, s.ends[1], 2, 3)}
		},
		"zeros below the durable end": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 8)
			s.write(seg0, s.ends[1], zeros[:s.ends[4]-s.ends[1]])
			return s, want{end: 10, damaged: damage(seg0, s.ends[1], 2, 5)}
		},
		"all behind a place below the durable end lost": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 8)
			s.write(seg0, s.ends[5], zeros)
			return s, want{end: 8, damaged: damage(seg0, s.ends[5], 6, 8)}
		},
		"damaged with a batch behind that knew it as committed": func(t *testing.T) (*state, want) {
			s := acknowledged(t, 0)
			s.write(seg0, s.ends[6]+20, []byte{0xee})
			return s, want{end: 10, damaged: damage(seg0, s.ends[6], 7, 8)}
		},
		"damaged length with batches behind, the third of which knew it as committed": func(t *testing.T) (*state, want) {
			s := acknowledged(t, 2)
			s.write(seg0, s.ends[4]+9, []byte{0xee})
			return s, want{end: 10, damaged: damage(seg0, s.ends[4], 5, 6)}
		},
		"damaged with batches behind that did not know it as committed": func(t *testing.T) (*state, want) {
			s := acknowledged(t, 5)
			s.write(seg0, s.ends[5]+20, []byte{0xee})
			return s, want{end: 6, cut: 1}
		},
		"damaged where what is committed need not be durable": func(t *testing.T) (*state, want) {
			s := acknowledged(t, 0)
			s.write(seg0, s.ends[6]+20, []byte{0xee})
			return s, want{end: 7, cut: 1, powerLost: true}
		},
		"last committed batch damaged": func(t *testing.T) (*state, want) {
			s := acknowledged(t, 0)
			s.fsys = s.fsys.CrashClone(vfs.Crash{KeepPercent: 100}) // killed: the note is there
			s.write(seg0, s.ends[9]-5, []byte{0xee})
			return s, want{end: 10, damaged: damage(seg0, s.ends[8], 9, 10)}
		},
		"shorter than what was committed": func(t *testing.T) (*state, want) {
			s := acknowledged(t, 0)
			s.fsys = s.fsys.CrashClone(vfs.Crash{KeepPercent: 100})
			s.edit(seg0, func(f vfs.File) error { return f.Truncate(s.ends[5]) })
			return s, want{end: 10, damaged: damage(seg0, s.ends[5], 6, 10)}
		},
		"shorter than what was committed and need not be durable": func(t *testing.T) (*state, want) {
			s := acknowledged(t, 0)
			s.fsys = s.fsys.CrashClone(vfs.Crash{KeepPercent: 100})
			s.edit(seg0, func(f vfs.File) error { return f.Truncate(s.ends[5]) })
			return s, want{end: 6, powerLost: true}
		},
		"shorter than noted": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 8)
			s.edit(seg0, func(f vfs.File) error { return f.Truncate(s.ends[5] + 3) })
			return s, want{end: 8, damaged: damage(seg0, s.ends[5], 6, 8)}
		},
		"shorter, but not than noted": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 6)
			s.edit(seg0, func(f vfs.File) error { return f.Truncate(s.ends[6] + 3) })
			return s, want{end: 7, cut: 1}
		},
		"segment gone": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 8)
			s.remove(seg0)
			return s, want{end: 8, damaged: []Damage{{Path: testDir, From: 0, Next: 8}}}
		},
		"header of the segment damaged": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 8)
			s.write(seg0, 3, []byte{0xee})
			return s, want{end: 10}
		},
		"no checkpoint": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 8)
			s.remove(checkpointName)
			return s, want{end: 10}
		},
		"damaged checkpoint": func(t *testing.T) (*state, want) {
			s := oneSegment(t, 8)
			s.write(checkpointName, 30, []byte{0xee})
			return s, want{end: 10, lost: true}
		},
		"half-made new segment, empty": func(t *testing.T) (*state, want) {
			s := threeSegments(t)
			s.create(segmenthead.Name(10), nil)
			return s, want{end: 10, cut: 1}
		},
		"half-made new segment, all zero": func(t *testing.T) (*state, want) {
			s := threeSegments(t)
			s.create(segmenthead.Name(10), zeros)
			return s, want{end: 10, cut: 1}
		},
		"new segment with a torn first batch": func(t *testing.T) (*state, want) {
			s := threeSegments(t)
			head := segmenthead.Encode(10, 1000)
			s.create(segmenthead.Name(10), append(head, magic0, magic1, formatVersion, 0, 1, 2, 3, 4))
			return s, want{end: 10, cut: 1}
		},
		"new segment with nothing but a header": func(t *testing.T) (*state, want) {
			s := threeSegments(t)
			s.create(segmenthead.Name(10), segmenthead.Encode(10, 1000))
			return s, want{end: 10}
		},
		"index gone": func(t *testing.T) (*state, want) {
			s := threeSegments(t)
			s.remove(idx0)
			return s, want{end: 10}
		},
		"index damaged": func(t *testing.T) (*state, want) {
			s := threeSegments(t)
			s.write(idx0, 70, []byte{0xee})
			return s, want{end: 10}
		},
		"index of no segment, and temporary files": func(t *testing.T) (*state, want) {
			s := threeSegments(t)
			s.create("00000000000000000099.index", zeros[:64])
			s.create("checkpoint.tmp", zeros[:10])
			s.create("something else", zeros[:10])
			return s, want{end: 10}
		},
		"segment in the middle gone": func(t *testing.T) (*state, want) {
			s := threeSegments(t)
			s.remove(segmenthead.Name(4))
			return s, want{end: 10, damaged: damage(segmenthead.Name(8), 0, 4, 8)}
		},
		"first segment gone": func(t *testing.T) (*state, want) {
			s := threeSegments(t)
			s.remove(seg0)
			return s, want{end: 10, damaged: damage(segmenthead.Name(4), 0, 0, 4)}
		},
		"last segment gone": func(t *testing.T) (*state, want) {
			s := threeSegments(t)
			s.remove(segmenthead.Name(8))
			return s, want{end: 10, damaged: damage(segmenthead.Name(4), 0, 8, 10)}
		},
		"complete segment cut short": func(t *testing.T) (*state, want) {
			s := threeSegments(t)
			s.edit(seg0, func(f vfs.File) error { return f.Truncate(300) })
			return s, want{end: 10, damaged: damage(seg0, segmenthead.Bytes+224, 2, 4)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := c(t)
			o := Options{Alternating: w.alternating, FillBytes: -1, TailBytes: -1, CommittedMayBeLost: w.powerLost}
			before := s.fsys.CrashClone(vfs.Crash{KeepPercent: 100})
			for round := range 3 {
				l, r := mustOpen(t, s.fsys, o)
				if l.End() != w.end {
					t.Fatalf("round %d: end %d, want %d: %+v", round, l.End(), w.end, r)
				}
				got := r.Damaged
				if len(w.damaged) == 1 && w.damaged[0].Position == 0 && len(got) == 1 {
					got[0].Path, got[0].Position = w.damaged[0].Path, 0
				}
				if diff := cmp.Diff(w.damaged, got); diff != "" {
					t.Fatalf("round %d: %s", round, diff)
				}
				if round == 0 && (len(r.Cut) != w.cut || r.CheckpointLost != w.lost) || round > 0 && len(r.Cut) != 0 {
					t.Fatalf("round %d: %+v", round, r)
				}
				checkAround(t, l, w.damaged)
				if o.CommittedMayBeLost = false; round == 0 { // as if killed at once
					s.fsys = s.fsys.CrashClone(vfs.Crash{})
					continue
				}
				wr := mustWriter(t, l, seq.Epoch(round+1))
				mustAppend(t, wr, 1)
				mustSync(t, wr)
				w.end++
				mustClose(t, l)
			}
			report, err := Inspect(before, testDir, func(Batch) error { return nil })
			if err != nil || !w.alternating && !w.powerLost && len(report.Damaged) != len(w.damaged) {
				t.Fatalf("verify before: %+v: %v", report, err)
			}
		})
	}
}

// checkAround reads all of a log: damaged records are refused, and the error
// says where to continue. The rest is readable.
func checkAround(t *testing.T, l *Log, damaged []Damage) {
	t.Helper()
	r := l.NewReader()
	defer r.Release()
	for off := l.Start(); off < l.End(); {
		b, err := r.batch(off)
		if corrupt, ok := errors.AsType[*CorruptionError](err); ok {
			if len(damaged) != 1 || corrupt.From != damaged[0].From || corrupt.Next != damaged[0].Next || fate.Of(err) != fate.Corrupt {
				t.Fatalf("at %d: %v", off, err)
			}
			off = corrupt.Next
			continue
		}
		if err != nil {
			t.Fatalf("at %d: %v", off, err)
		}
		for _, d := range damaged {
			if off >= d.From && off < d.Next {
				t.Fatalf("read %d, which is damaged", off)
			}
		}
		off = b.End()
	}
}

func TestDamageErrorNamesNextIntactOffset(t *testing.T) {
	s := threeSegments(t)
	flip(t, s.fsys, at(segmenthead.Name(4)), segmenthead.Bytes+100)
	l, r := mustOpen(t, s.fsys, Options{TailBytes: -1})
	if !r.Clean() {
		t.Fatalf("complete segments were read: %+v", r)
	}
	checkAround(t, l, []Damage{{From: 4, Next: 6}})
	checkAround(t, l, []Damage{{From: 4, Next: 6}})
	report, err := Inspect(s.fsys, testDir, func(Batch) error { return nil })
	if err != nil || report.OK() || len(report.Damaged) != 1 || report.Damaged[0].From != 4 {
		t.Fatalf("verify: %+v: %v", report, err)
	}
}

// TestKillDoesNotMoveTheCommittedEndBack commits with and without appends, and
// checks the files of a killed process.
func TestKillDoesNotMoveTheCommittedEndBack(t *testing.T) {
	fsys := vfs.NewCrashable()
	l, _ := mustOpen(t, fsys, smallOptions())
	w := mustWriter(t, l, 1)
	for i := range 60 {
		mustAppend(t, w, 1)
		mustSync(t, w)
		if i%7 == 6 {
			l.Commit(l.End() - 3)
			l.Commit(l.End()) // nothing is appended in between
		}
		if i%20 == 0 {
			l.ReleaseTail()
		}
		again, r := mustOpen(t, fsys.CrashClone(vfs.Crash{KeepPercent: 100}), smallOptions())
		if again.CommittedEnd() != l.CommittedEnd() || !r.Clean() {
			t.Fatalf("the committed end was %d, and is %d after a kill: %+v", l.CommittedEnd(), again.CommittedEnd(), r)
		}
	}
	mustClose(t, l)
}

// TestOwnerIsNotifiedBeforeRepair checks that an error of the
// owner leaves everything unchanged.
func TestOwnerIsNotifiedBeforeRepair(t *testing.T) {
	s := oneSegment(t, 5)
	s.write(seg0, s.ends[9]-5, []byte{0xee})
	refusal := errors.New("not yet")
	for _, err := range []error{refusal, refusal, nil} {
		heard := 0
		_, _, got := Open(s.fsys, testDir, Options{BeforeRepair: func(r Recovery) error {
			heard += len(r.Cut)
			return err
		}})
		if heard != 1 || !errors.Is(got, err) {
			t.Fatalf("heard of %d, %v", heard, got)
		}
	}
}

// This program did not write the bytes after the slots of the note. They must not
// prevent the log from opening.
func TestAppendedGarbageDoesNotHideTheCommittedEnd(t *testing.T) {
	fsys := vfs.NewMem()
	l, _ := mustOpen(t, fsys, smallOptions())
	w := mustWriter(t, l, 1)
	if _, err := w.Append(build(0, 3), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	l.Commit(3)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(testDir, commitnote.Name)
	p, err := vfs.ReadFile(fsys, path, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	p = append(append(p, make([]byte, commitnote.Slots*commitnote.SlotBytes-len(p))...), "garbage"...)
	if err := vfs.WriteFileSynced(fsys, path, p); err != nil {
		t.Fatal(err)
	}
	l, r := mustOpen(t, fsys, smallOptions())
	if l.CommittedEnd() != 3 || !r.Clean() {
		t.Errorf("committed %d, %+v", l.CommittedEnd(), r)
	}
}
