package commitlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// history is the state of a recorded run at a moment: the minimum and the
// maximum that a recovery may find.
type history struct {
	durable, committed, start, end seq.Offset
	retired                        seq.Offset // the log was emptied here
}

// crashPoints runs a history of appends, syncs, truncation, retention and
// checkpoints, and calls at after each file operation with the expected state.
func crashPoints(t *testing.T, o Options, at func(fsys *vfs.Mem, h history)) {
	t.Helper()
	fsys := vfs.NewCrashable()
	var h history
	fsys.Observe(func(vfs.Op) { at(fsys, h) })
	l, _ := mustOpen(t, fsys, o)
	w := mustWriter(t, l, 1)
	add := func(count int) {
		h.end = max(h.end, l.End()+seq.Offset(count))
		mustAppend(t, w, count)
	}
	sync := func() {
		mustSync(t, w)
		h.durable = l.DurableEnd()
	}
	for i := range 50 {
		add(i%4 + 1)
		if o.Alternating || i%3 == 0 {
			sync()
		}
		switch i {
		case 11:
			h.committed = l.DurableEnd()
			l.Commit(h.committed)
			if err := l.Checkpoint(0); err != nil {
				t.Fatal(err)
			}
		case 20, 28:
			w = mustWriter(t, l, seq.Epoch(i))
			var end seq.Offset
			for end = l.CommittedEnd(); end < l.CommittedEnd()+4; {
				b, err := l.NewReader().batch(end)
				if err != nil {
					t.Fatal(err)
				}
				end = b.End()
			}
			h.durable = min(h.durable, end)
			if err := w.TruncateTo(end); err != nil {
				t.Fatal(err)
			}
			h.durable, h.end = end, end
		case 35:
			sync()
			h.committed = l.DurableEnd()
			l.Commit(h.committed)
			h.start = h.committed
			if n, err := l.Retain(Retention{Floor: h.committed - 8}); err != nil || n == 0 {
				t.Fatalf("retention dropped %d: %v", n, err)
			}
			h.start = l.Start()
		case 37, 44:
			sync()
			h.committed = l.DurableEnd()
			l.Commit(h.committed)
			h.start = l.End() // at most
			if n, err := l.Retain(Retention{Floor: h.end, Last: true}); err != nil || n == 0 || l.Start() != l.End() {
				t.Fatalf("retention of everything dropped %d of [%d,%d): %v", n, l.Start(), l.End(), err)
			}
			h.retired = l.End()
		}
	}
	mustClose(t, l)
}

// checkRecovered opens the log after a crash and compares it with the history.
func checkRecovered(fsys *vfs.Mem, o Options, h history) (*Log, error) {
	l, r, err := Open(fsys, testDir, o)
	if err != nil {
		return nil, err
	}
	if len(r.Damaged) != 0 || r.CheckpointLost {
		return l, fmt.Errorf("damage: %+v", r)
	}
	if l.End() < h.durable || l.End() > h.end {
		return l, fmt.Errorf("log ends at %d, was durable to %d of %d", l.End(), h.durable, h.end)
	}
	if l.Start() > max(h.start, h.committed) {
		return l, fmt.Errorf("log starts at %d", l.Start())
	}
	if l.Start() < h.retired {
		return l, fmt.Errorf("log starts at %d, was emptied at %d", l.Start(), h.retired)
	}
	if h.retired > 0 && l.LastEpoch() == 0 {
		return l, errors.New("last epoch forgotten")
	}
	return l, checkRecords(l, l.Start(), l.End())
}

func TestCrashAfterAnyOperationLosesNoSyncedData(t *testing.T) {
	variants := crashVariants
	if testing.Short() {
		variants = 2
	}
	for _, alternating := range []bool{false, true} {
		t.Run(fmt.Sprintf("alternating=%t", alternating), func(t *testing.T) {
			rng := testrand.New(t)
			o := smallOptions()
			o.Alternating, o.Buffers = alternating, new(Buffers)
			points := 0
			crashPoints(t, o, func(fsys *vfs.Mem, h history) {
				points++
				for v := range variants {
					crash := vfs.Crash{Rand: rng, KeepPercent: v * 100 / (variants - 1), TornPercent: 40}
					if alternating && v%3 == 0 {
						crash.TornPercent = 0
					}
					checkCrash(t, fsys, fsys.CrashClone(crash), o, h)
				}
			})
			t.Logf("%d crash points, %d variants each", points, variants)
		})
	}
}

// checkCrash recovers a crashed file system, then crashes it again during that
// recovery, and continues with the log.
func checkCrash(t *testing.T, origin, crashed *vfs.Mem, o Options, h history) {
	t.Helper()
	fail := func(fsys *vfs.Mem, err error) {
		trace := origin.Trace()
		last := trace[max(0, len(trace)-8):]
		names, _ := fsys.ReadDir(testDir)
		t.Fatalf("after %d operations, the last %v: %v\nfiles: %s\nhistory: %+v", len(trace), last, err, strings.Join(names, " "), h)
	}
	again := crashed.CrashClone(vfs.Crash{KeepPercent: 100})
	var twice []*vfs.Mem
	again.Observe(func(vfs.Op) { twice = append(twice, again.CrashClone(vfs.Crash{})) })
	first, err := checkRecovered(again, o, h)
	if err != nil {
		fail(again, err)
	}
	for _, fsys := range twice {
		l, err := checkRecovered(fsys, o, h)
		if err == nil && (l.End() != first.End() || l.Start() != first.Start()) {
			err = fmt.Errorf("recovered to [%d,%d) first and to [%d,%d) after a crash in recovery", first.Start(), first.End(), l.Start(), l.End())
		}
		if err != nil {
			fail(fsys, err)
		}
	}
	end := first.End()
	w := mustWriter(t, first, 100)
	mustAppend(t, w, 3)
	mustSync(t, w)
	l, err := checkRecovered(again.CrashClone(vfs.Crash{}), o, history{durable: end + 3, end: end + 3, committed: h.committed, start: h.start, retired: h.retired})
	if err != nil {
		fail(again, fmt.Errorf("appending after recovery: %w", err))
	}
	if l.LastEpoch() != 100 {
		fail(again, errors.New("epoch lost"))
	}
}

func TestErrorAtAnyOperationLosesNoSyncedData(t *testing.T) {
	errDisk := errors.New("disk broke")
	for index := int64(0); ; index++ {
		mem := vfs.NewCrashable()
		fsys := vfstest.NewFaulty(mem)
		hit := false
		fsys.Decide(func(i int64, op vfs.Op) vfstest.Fault {
			if i != index {
				return vfstest.Fault{}
			}
			hit = true
			return vfstest.Fault{Err: errDisk, Short: 13}
		})
		durable := runUntilError(fsys)
		if !hit {
			t.Logf("%d operations", index)
			return
		}
		for _, keep := range []int{0, 100} {
			l, r, err := Open(mem.CrashClone(vfs.Crash{KeepPercent: keep}), testDir, smallOptions())
			if err != nil {
				t.Fatalf("error at operation %d, then open: %v", index, err)
			}
			if len(r.Damaged) > 0 || l.End() < durable {
				t.Fatalf("error at operation %d: end %d, was durable to %d, %+v", index, l.End(), durable, r)
			}
			mustRead(t, l, l.Start(), l.End())
		}
	}
}

// runUntilError uses a log until a failure ends it, and returns the end that
// was reported as durable.
func runUntilError(fsys vfs.FS) (durable seq.Offset) {
	l, _, err := Open(fsys, testDir, smallOptions())
	if err != nil {
		return 0
	}
	w, err := l.Writer(1)
	if err != nil {
		return 0
	}
	for i := range 30 {
		if _, err := w.Append(build(l.End(), i%4+1), 0); err != nil {
			continue
		}
		end, err := w.Sync()
		if err == nil {
			durable = max(durable, end)
			l.Commit(end)
		}
		if i == 15 {
			_ = l.Checkpoint(0)
		}
		if i == 25 {
			_, _ = l.Retain(Retention{Floor: 20})
		}
		if i == 27 {
			_, _ = l.Retain(Retention{Floor: l.End(), Last: true})
		}
	}
	_ = l.Close()
	return durable
}
