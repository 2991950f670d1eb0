package raftstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// badDisk is a storage whose writes fail on request.
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

// reserveOn returns a reserve on a disk whose free space the test sets, and the size of its file.
func reserveOn(t *testing.T, size int64, log *slog.Logger) (r *reserve, free *atomic.Int64, file func() int64) {
	t.Helper()
	free = &atomic.Int64{}
	path := filepath.Join(t.TempDir(), "reserve")
	r = &reserve{path: path, size: size, log: log, free: func() (int64, error) { return free.Load(), nil }}
	return r, free, func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return info.Size()
	}
}

func TestFullDiskSpendsTheReserveInSteps(t *testing.T) {
	r, free, file := reserveOn(t, 1<<20, slog.New(slog.DiscardHandler))
	free.Store(2 << 20)
	if err := r.find(); err != nil || r.isLow() || file() != 1<<20 {
		t.Fatalf("%v, low %v, %d bytes", err, r.isLow(), file())
	}
	free.Store(0)
	var failed error
	g := &guard{late: &lateness{}, reserve: r, onFail: func(err error) { failed = err }}
	full := &os.PathError{Op: "write", Err: syscall.ENOSPC}
	fits := func(most int64) func() error {
		return func() error {
			if file() > most {
				return full
			}
			return nil
		}
	}
	if err := g.write("store log", fits(1<<20-3*stepLeast)); err != nil || failed != nil || file() != 1<<20-3*stepLeast {
		t.Fatalf("%v, %v, %d bytes left", err, failed, file())
	}
	for _, final := range []error{errors.New("file sync error: no space left on device"), syscall.EIO} {
		failed = nil
		tries := 0
		err := g.write("store log", func() error { tries++; return final })
		if err == nil || failed == nil || tries != 1 || file() != 1<<20-3*stepLeast {
			t.Errorf("%v: %v, reported %v, %d tries", final, err, failed, tries)
		}
	}
	failed = nil
	if err := g.write("store log", fits(-1)); !errors.Is(err, syscall.ENOSPC) || failed == nil || file() != 0 {
		t.Errorf("all is spent, and no space: %v, reported %v, %d bytes left", err, failed, file())
	}
	failed = nil
	if err := g.write("store log", func() error { return errors.New("file resize error: no space left on device") }); !errors.Is(err, syscall.ENOSPC) || failed == nil {
		t.Errorf("an error of text: %v", err)
	}
	now := time.Now().Add(reserveRetry)
	free.Store(1<<20 - 1) // half of it is left to others
	if r.restore(now) || file() != 31*stepLeast {
		t.Errorf("%d bytes of a disk with too little space", file())
	}
	free.Store(66 * stepLeast)
	if !r.restore(now.Add(reserveRetry)) || r.isLow() || file() != 1<<20 {
		t.Errorf("not whole again: %d bytes", file())
	}
}

func TestReserveRetriesArePaced(t *testing.T) {
	r, free, _ := reserveOn(t, 1, slog.New(slog.DiscardHandler))
	now := time.Unix(1000, 0)
	if r.restore(now) {
		t.Fatal("restored where there is no space")
	}
	free.Store(2)
	if r.restore(now.Add(reserveRetry / 2)) {
		t.Error("tried again at once")
	}
	if !r.restore(now.Add(reserveRetry)) || !r.restore(now) {
		t.Error("not restored")
	}
}

// The reserve does not take a large part of a small disk, and a disk without enough space is
// reported at once.
func TestReserveOfAnOpenedStore(t *testing.T) {
	var log strings.Builder
	r, free, file := reserveOn(t, 16<<20, slog.New(slog.NewTextHandler(&log, nil)))
	free.Store(8 << 20)
	if err := r.find(); err != nil || !r.isLow() || file() != 4<<20 {
		t.Errorf("%v, low %v, %d bytes", err, r.isLow(), file())
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, r.path) {
		t.Errorf("logged %q", got)
	}
	free.Store(24 << 20)
	if !r.restore(time.Now().Add(reserveRetry)) || strings.Count(log.String(), "\n") != 2 {
		t.Errorf("low %v, logged %q", r.isLow(), log.String())
	}
	if r, err := newReserve(r.path, 1<<20, r.log); err != nil || r.isLow() || file() != 1<<20 {
		t.Errorf("a smaller one: %v, %d bytes", err, file())
	}
}

// A disk that reports free space but refuses writes, such as one with a quota, counts as
// full.
func TestReserveDetectsQuota(t *testing.T) {
	r, free, _ := reserveOn(t, 1<<20, slog.New(slog.DiscardHandler))
	free.Store(1 << 30)
	if err := r.find(); err != nil {
		t.Fatal(err)
	}
	for r.takes(100) {
		if !r.release() {
			t.Fatal("all is spent, and more is taken")
		}
	}
	if r.left.Load() < stepLeast {
		t.Error("nothing is left for votes")
	}
}

func TestFreeingCommandsAreAcceptedOnReserve(t *testing.T) {
	o := options(t.TempDir())
	o.ReserveBytes = 1 << 20
	s := open(t, o)
	populate(t, s, 1)
	free := &atomic.Int64{}
	r := s.guard.reserve
	r.free = func() (int64, error) { return free.Load(), nil }
	if !r.release() {
		t.Fatal("no reserve")
	}
	if err := s.Members().Admits(topic("x"), 100); !errors.Is(err, failure.MetadataDiskFull) {
		t.Errorf("a command that would be refused is admitted: %v", err)
	}
	_, err := s.Propose(t.Context(), topic("x"))
	if !errors.Is(err, failure.MetadataDiskFull) || fate.Of(err) != fate.Refused || !r.isLow() {
		t.Fatal(err)
	}
	for _, want := range []string{"node n1", o.Dir, "0 B free", "1008.0 KiB of the reserve of 1.0 MiB left"} {
		if !strings.Contains(err.Error(), want) || strings.HasPrefix(want, "0 ") && !strings.Contains(s.Members().FullDisk(), want) {
			t.Errorf("%v, disk %s: want %s", err, s.Members().FullDisk(), want)
		}
	}
	name := s.Topics()[0].Name
	if err := s.Members().Admits(meta.DeleteTopic{Name: name}, 100); err != nil {
		t.Error(err)
	}
	propose(t, s, meta.DeleteTopic{Name: name})
	for d := range meta.TrashOf(s.View()).All() {
		propose(t, s, meta.PurgeTopics{Incarnations: []meta.Incarnation{d.Topic.Incarnation}})
	}
	for r.release() {
	}
	if _, err := s.Propose(t.Context(), meta.DeleteTopic{Name: "x"}); !errors.Is(err, failure.MetadataDiskFull) {
		t.Errorf("nothing is left: %v", err)
	}
	free.Store(1 << 20)
	if _, err := s.Propose(t.Context(), meta.DeleteTopic{Name: "x"}); !errors.Is(err, failure.TopicNotFound) {
		t.Errorf("the disk has space: %v", err)
	}
	free.Store(16 << 20)
	if !r.restore(time.Now().Add(2 * reserveRetry)) {
		t.Fatal("not whole again")
	}
	propose(t, s, topic("x"))
	if s.Members().FullDisk() != "" {
		t.Error(s.Members().FullDisk())
	}
}

// Each command either frees space or waits for space.
func TestCommandsThatFreeSpace(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		c    meta.Command
		want bool
	}{
		{meta.DeleteTopic{}, true},
		{meta.PurgeTopics{}, true},
		{meta.DeleteChannel{}, true},
		{meta.SavePositions{}, true},
		{meta.DropSaved{}, true},
		{meta.NodeStarted{}, true},
		{meta.SetNodeDisk{}, true},
		{meta.SetNodeState{}, true},
		{meta.SetNodeIntent{}, true},
		{meta.RemoveNode{}, true},
		{meta.ElectLeaders{}, true},
		{meta.AlterISR{}, true},
		{meta.ReportSuspects{}, true},
		{meta.YieldLeader{}, true},
		{meta.StartReassign{}, true},
		{meta.FinishReassign{}, true},
		{meta.AlterTopic{Will: meta.TopicConfig{RetentionBytes: 1}}, true},
		{meta.AlterTopic{}, false},
		{meta.PauseTopic{}, true},
		{meta.PauseTopic{Paused: true}, false},
		{meta.AlterChannel{Paused: &no}, true},
		{meta.AlterChannel{Paused: &yes}, false},
		{meta.AlterChannel{}, false},
		{meta.RecordAct{Act: meta.Act{Status: 204}}, true},
		{meta.RecordAct{Act: meta.Act{Status: 500}}, true},
		{meta.RecordAct{Act: meta.Act{Status: 409}}, false},
		{meta.InitCluster{}, false},
		{meta.SetSettings{}, false},
		{meta.FinalizeUpgrade{}, false},
		{meta.ChangeAccess{}, false},
		{meta.CreateTopic{}, false},
		{meta.CreateChannel{}, false},
		{meta.AddPartitions{}, false},
		{meta.FitTopic{}, false},
		{meta.RestoreTopic{}, false},
	} {
		if frees(tt.c) != tt.want {
			t.Errorf("%s %+v: %v", meta.NameOf(tt.c), tt.c, !tt.want)
		}
	}
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

func TestFailedWriteStopsTheStore(t *testing.T) {
	disk := &badDisk{InmemStore: raft.NewInmemStore()}
	s := openOn(t, disk)
	disk.err.Store(new(error(syscall.EIO)))
	if _, err := s.Propose(t.Context(), topic("x")); !errors.Is(err, failure.CommandUnknown) || !errors.Is(err, syscall.EIO) || fate.Of(err) != fate.Uncertain {
		t.Fatal(err)
	}
	<-s.Failed()
	if err := s.Err(); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if _, err := s.Propose(t.Context(), topic("x")); !errors.Is(err, failure.MetadataClosed) {
		t.Error(err)
	}
	if err := s.WaitLeader(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
}

func TestStalledWriteIsDetected(t *testing.T) {
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
	if !errors.Is(err, failure.CommandUnknown) || !errors.Is(err, context.Canceled) {
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

func TestUnknownCommandStopsTheStore(t *testing.T) {
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
