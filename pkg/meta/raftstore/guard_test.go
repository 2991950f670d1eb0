package raftstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// badDisk is a storage whose writes fail as told.
type badDisk struct {
	*raft.InmemStore
	err   atomic.Pointer[error]
	block atomic.Pointer[chan struct{}]
	hangs chan struct{} // told when block holds a write; may be nil
}

func (d *badDisk) StoreLogs(l []*raft.Log) error {
	if block := d.block.Load(); block != nil {
		signal.Poke(d.hangs)
		<-*block
	}
	if err := d.err.Load(); err != nil {
		return *err
	}
	return d.InmemStore.StoreLogs(l)
}

func TestAFullDiskLetsTheReserveGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reserve")
	r, err := newReserve(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	g := &guard{late: &lateness{}, reserve: r, onFail: func(err error) { failed = err }}
	full := &os.PathError{Op: "write", Err: syscall.ENOSPC}
	err = g.write("store log", func() error {
		if _, err := os.Stat(path); err == nil {
			return full
		}
		return nil
	})
	if err != nil || failed != nil || !r.isLow() {
		t.Fatalf("%v, %v, low %v", err, failed, r.isLow())
	}
	now := time.Unix(1000, 0)
	if !r.restore(now) || r.isLow() {
		t.Error("not restored")
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 1<<20 {
		t.Errorf("reserve: %v, %v", info, err)
	}
	for _, final := range []error{errors.New("file sync error: no space left on device"), syscall.EIO} {
		failed = nil
		tries := 0
		err := g.write("store log", func() error { tries++; return final })
		if err == nil || failed == nil || tries != 1 || r.isLow() {
			t.Errorf("%v: %v, reported %v, %d tries", final, err, failed, tries)
		}
	}
}

func TestTheReserveIsNotTriedAllTheTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	r := &reserve{path: filepath.Join(dir, "reserve"), size: 1, low: true}
	now := time.Unix(1000, 0)
	if r.restore(now) {
		t.Fatal("restored where there is no directory")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if r.restore(now.Add(reserveRetry / 2)) {
		t.Error("tried again at once")
	}
	if !r.restore(now.Add(reserveRetry)) || !r.restore(now) {
		t.Error("not restored")
	}
}

func TestCommandsAreRefusedWhileTheReserveIsLow(t *testing.T) {
	o := options(t.TempDir())
	o.ReserveBytes = 4096
	s := open(t, o)
	populate(t, s, 1)
	name := filepath.Join(o.Dir, reserveFile)
	s.guard.reserve.release()
	// Something that cannot be removed by writing stands in its place.
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Propose(t.Context(), topic("x")); !errors.Is(err, errDiskFull) || fate.Of(err) != fate.Refused || !s.Stats().DiskFull {
		t.Fatalf("%v, %+v", err, s.Stats())
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	s.guard.reserve.restore(time.Now().Add(reserveRetry))
	propose(t, s, topic("x"))
}

func openOn(t *testing.T, disk *badDisk) *Store {
	t.Helper()
	o := Options{NodeID: "n1", Bootstrap: true, InMemory: true}.withDefaults()
	s, err := openWith(o, &parts{log: disk, close: func() error { return nil }, snapshots: raft.NewInmemSnapshotStore()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	populate(t, s, 1)
	return s
}

func TestAFailedWriteStopsTheStore(t *testing.T) {
	disk := &badDisk{InmemStore: raft.NewInmemStore()}
	s := openOn(t, disk)
	disk.err.Store(new(error(syscall.EIO)))
	if _, err := s.Propose(t.Context(), topic("x")); !errors.Is(err, errUnknownOutcome) || !errors.Is(err, syscall.EIO) || fate.Of(err) != fate.Uncertain {
		t.Fatal(err)
	}
	<-s.Failed()
	if err := s.Err(); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if _, err := s.Propose(t.Context(), topic("x")); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	if err := s.WaitLeader(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
}

func TestAHangingWriteIsSeen(t *testing.T) {
	disk := &badDisk{InmemStore: raft.NewInmemStore(), hangs: make(chan struct{}, 1)}
	s := openOn(t, disk)
	block := make(chan struct{})
	disk.block.Store(&block)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	go func() {
		<-disk.hangs
		giveUp()
	}()
	_, err := s.Propose(ctx, topic("x"))
	if !errors.Is(err, errUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if st := s.Stats(); st.Stalled == 0 || s.guard.stalled(time.Now().Add(2*StallLimit)) < StallLimit {
		t.Errorf("stalled %v", st.Stalled)
	}
	disk.block.Store(nil)
	close(block)
	if err := s.Barrier(t.Context()); err != nil {
		t.Error(err)
	}
	if s.Topic("x") == nil {
		t.Error("the command of unknown outcome was not applied after all")
	}
}

func TestAnUnknownCommandStopsTheStore(t *testing.T) {
	s := open(t, Options{NodeID: "n1", Bootstrap: true, InMemory: true})
	populate(t, s, 1)
	before := s.Applied()
	f := s.raft.Apply([]byte("from the future"), time.Second)
	if err := f.Error(); err != nil {
		t.Fatal(err)
	}
	<-s.Failed()
	if err := s.Err(); !errors.Is(err, meta.ErrCorrupt) && !errors.Is(err, meta.ErrUnknownCommand) {
		t.Error(err)
	}
	data, err := meta.EncodeCommandAt(topic("x"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.machine.Apply(&raft.Log{Index: 1000, Data: data}); s.Applied() != before || s.Topic("x") != nil {
		t.Errorf("applied %v on top, index %d", got, s.Applied())
	}
	if _, err := s.machine.Snapshot(); err == nil {
		t.Error("a snapshot of a state that was stopped")
	}
}

func BenchmarkPropose(b *testing.B) {
	s := open(b, options(b.TempDir()))
	populate(b, s, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		propose(b, s, topic(fmt.Sprint("t", i)))
	}
}
