package trace

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// running runs a store until stop.
func running(s *Store) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

func event(o seq.Offset) *Event {
	return &Event{What: Finished, Time: int64(o) * 2 * int64(joinable), Message: Message{1, seq.NewMessageID(0, o)}, Channel: "c"}
}

func (s *Store) knows(o seq.Offset) bool {
	return len(s.Find(Query{Messages: []Message{event(o).Message}}).Events) == 1
}

func TestEventsOutliveTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		for process := range seq.Offset(3) {
			s := Open(Options{FS: disk, Dir: "trace"})
			stop := running(s)
			s.add(event(process), nil, Context{})
			if !s.knows(process) {
				t.Error("what is in memory is not found")
			}
			time.Sleep(flushInterval)
			synctest.Wait()
			killed := Open(Options{FS: disk, Dir: "trace"}) // like a killed process
			for o := range process + 1 {
				if !killed.knows(o) {
					t.Errorf("process %d lost event %d", process, o)
				}
			}
			if n := s.Stats(); n.Events != 1 || n.Segments != int(process)+1 || n.Bytes == 0 {
				t.Errorf("%+v", n)
			}
			stop()
		}
	})
}

func TestLastEventsAreStoredAtClose(t *testing.T) {
	disk := vfs.NewMem()
	s := Open(Options{FS: disk, Dir: "trace"})
	stop := running(s)
	s.add(event(1), nil, Context{})
	stop()
	if !Open(Options{FS: disk, Dir: "trace"}).knows(1) {
		t.Error("lost")
	}
}

func TestOldestEventsAreDropped(t *testing.T) {
	disk := vfs.NewMem()
	s := Open(Options{FS: disk, Dir: "trace", Bytes: MinBytes})
	stop := running(s)
	last := seq.Offset(0)
	for s.Stats().Segments == 0 || s.knows(0) {
		if last == 1_000_000 {
			t.Fatal("the first of a million events is still known")
		}
		for range 20_000 {
			last++
			s.add(event(last), nil, Context{})
		}
		if last == 20_000 {
			s.add(event(0), nil, Context{})
		}
	}
	stop()
	names, err := disk.ReadDir("trace")
	total := int64(0)
	for _, name := range names {
		at, err := disk.Stat(filepath.Join("trace", name))
		if err != nil {
			t.Fatal(err)
		}
		total += at.Size()
	}
	if err != nil || total > MinBytes || !s.knows(last) {
		t.Errorf("%d bytes in %d files, the last is known: %v, %v", total, len(names), s.knows(last), err)
	}
}

func TestManyStartsLeaveFewFiles(t *testing.T) {
	disk := vfs.NewMem()
	for o := range seq.Offset(2 * maxSegments) {
		s := Open(Options{FS: disk, Dir: "trace"})
		stop := running(s)
		s.add(event(o), nil, Context{})
		stop()
	}
	if names, _ := disk.ReadDir("trace"); len(names) != maxSegments {
		t.Errorf("%d files", len(names))
	}
}

func TestFailingDiskLosesEventsAndReportsIt(t *testing.T) {
	faulty := vfstest.NewFaulty(vfs.NewMem())
	broken := true
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if broken && op.Kind == vfs.OpWrite {
			return vfstest.Fault{Err: syscall.ENOSPC}
		}
		return vfstest.Fault{}
	})
	var told []error
	s := Open(Options{FS: faulty, Dir: "trace", Failed: func(err error) { told = append(told, err) }})
	s.add(event(1), nil, Context{})
	s.flush(true)
	broken = false
	s.add(event(2), nil, Context{})
	s.flush(true)
	if s.knows(1) || !s.knows(2) || s.Stats().Lost != 1 || len(told) != 1 || !errors.Is(told[0], syscall.ENOSPC) {
		t.Errorf("%+v, told %v", s.Stats(), told)
	}
}

// While writes fail, stored events must not be pushed out.
func TestLongDiskFailureKeepsStoredEvents(t *testing.T) {
	faulty := vfstest.NewFaulty(vfs.NewMem())
	broken := false
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if broken && op.Kind == vfs.OpWrite {
			return vfstest.Fault{Err: syscall.ENOSPC}
		}
		return vfstest.Fault{}
	})
	s := Open(Options{FS: faulty, Dir: "trace"})
	s.add(event(1), nil, Context{})
	s.flush(true)
	broken = true
	for i := range seq.Offset(2 * maxSegments) {
		s.add(event(10+i), nil, Context{})
		s.flush(true)
	}
	broken = false
	s.add(event(2), nil, Context{})
	s.flush(true)
	if !s.knows(1) || !s.knows(2) || s.Stats().Segments != 2 {
		t.Errorf("the first is known: %v, the last: %v; %+v", s.knows(1), s.knows(2), s.Stats())
	}
}

// An answer uses bounded memory, however many events there are.
func TestAnswerIsBoundedWhileItIsGathered(t *testing.T) {
	var l latest
	for i := range 5*maxEvents + 7 {
		l.add(Event{Time: int64(i)})
	}
	got := l.last()
	if len(got) != maxEvents || got[0].Time != 4*maxEvents+7 || got[maxEvents-1].Time != 5*maxEvents+6 || !l.dropped || cap(l.events) > 4*maxEvents {
		t.Errorf("%d events from %d to %d, dropped %v, room for %d", len(got), got[0].Time, got[len(got)-1].Time, l.dropped, cap(l.events))
	}
}

func TestStalledDiskBoundsMemory(t *testing.T) {
	s := Open(Options{FS: vfs.NewMem(), Dir: "trace"}) // nothing writes
	for o := range seq.Offset(500_000) {
		s.add(event(o), nil, Context{})
	}
	if len(s.waiting) > maxWaiting || s.Stats().Lost == 0 || !s.knows(499_999) || s.knows(0) {
		t.Errorf("%d frames wait, %+v", len(s.waiting), s.Stats())
	}
}

func TestDamageLosesEventsAndReportsIt(t *testing.T) {
	disk := vfs.NewMem()
	s := Open(Options{FS: disk, Dir: "trace"})
	s.add(event(1), nil, Context{})
	s.flush(true)
	s.add(event(2), nil, Context{})
	s.flush(true)
	s.closeFile()
	f, err := disk.OpenReadWrite(filepath.Join("trace", nameOf(1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, frameHeader); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileSynced(disk, filepath.Join("trace", nameOf(9)), []byte("no trace")); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileSynced(disk, filepath.Join("trace", "notes.txt"), []byte("mine")); err != nil {
		t.Fatal(err)
	}
	var told []string
	again := Open(Options{FS: disk, Dir: "trace", Failed: func(err error) { told = append(told, err.Error()) }})
	if again.knows(1) || !again.knows(2) || len(told) == 0 || !strings.Contains(told[0], "lost") {
		t.Errorf("told %q", told)
	}
	again.add(event(3), nil, Context{})
	again.flush(true)
	if !again.knows(3) || again.segments[len(again.segments)-1].number != 10 {
		t.Errorf("%+v", again.segments)
	}
}

func TestNoStoreKnowsNothing(t *testing.T) {
	var s *Store
	if f := s.Find(Query{}); len(f.Events) > 0 || s.Stats() != (Stats{}) {
		t.Errorf("%+v", f)
	}
}

// TestFrameBeingWrittenIsNotDropped: while a disk is slow, frames after it are.
func TestFrameBeingWrittenIsNotDropped(t *testing.T) {
	s := Open(Options{FS: vfs.NewMem(), Dir: "trace"})
	for o := range seq.Offset(3) {
		s.active.add(event(o))
		s.sealLocked()
	}
	s.writing = 2
	for o := range seq.Offset(maxWaiting) {
		s.active.add(event(3 + o))
		s.sealLocked()
	}
	if len(s.waiting) != maxWaiting || s.Stats().Lost != 3 || !s.knows(0) || !s.knows(1) || s.knows(2) || s.knows(4) || !s.knows(5) {
		t.Errorf("%d frames wait, %+v", len(s.waiting), s.Stats())
	}
}
