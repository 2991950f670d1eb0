package host

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/removal"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// noRoom is a full disk.
type noRoom struct{ vfs.FS }

func (noRoom) Usage(string) (vfs.Usage, error) { return vfs.Usage{Total: 1 << 40}, nil }

// A node purges deleted topics when its disk is full even if the metadata cannot record this, and logs
// the failure once.
func TestFullDiskPurgesIfMetadataCannotRecordIt(t *testing.T) {
	store, err := raftstore.Open(raftstore.Options{InMemory: true, NodeID: "n1", Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	propose := func(c meta.Command) meta.Result {
		r, err := store.Propose(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	propose(meta.NodeStarted{Node: meta.Node{ID: "n1"}})
	config := meta.TopicConfig{Replicas: 1}.WithDefaults(1, false)
	in := propose(meta.CreateTopic{Name: "t", Config: config, Assignment: [][]meta.NodeID{{"n1"}}}).Topic.Incarnation
	propose(meta.DeleteTopic{Name: "t"})

	var logged strings.Builder
	log := slog.New(slog.NewTextHandler(&logged, nil))
	dirs := datadir.At(vfs.NewMem(), "data")
	dir := filepath.Join(dirs.Topic("t", in), "0")
	if err := vfs.MkdirAllSynced(dirs.FS, dir); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileSynced(dirs.FS, filepath.Join(dir, "log"), make([]byte, purgeLeast)); err != nil {
		t.Fatal(err)
	}
	remover := removal.New(removal.Options{Dirs: dirs, Ledger: datadir.NewLedger(dirs), Self: "n1", Log: log, Go: func(func()) bool { return true }})
	if err := remover.Deleted("t", in, store.View()); err != nil {
		t.Fatal(err)
	}
	var purged []meta.Command
	d := &fullDisk{
		o: &Options{Self: "n1", Meta: store}, log: log, life: newLife(log, nil),
		disk: diskspace.New(noRoom{dirs.FS}, "data", 1<<30, slog.New(slog.DiscardHandler)), removal: remover,
		propose: func(_ context.Context, c meta.Command) (meta.Result, error) {
			if _, is := c.(meta.SetNodeDisk); is {
				return meta.Result{}, fmt.Errorf("%w on node n1", failure.MetadataDiskFull)
			}
			purged = append(purged, c)
			return meta.Result{}, nil
		},
	}
	d.disk.Look()
	d.report(t.Context())
	d.report(t.Context())
	if len(purged) != 1 || meta.NameOf(purged[0]) != "purge-topics" {
		t.Errorf("proposed %+v", purged)
	}
	if n := strings.Count(logged.String(), "cannot record in the metadata"); n != 1 {
		t.Errorf("told %d times: %s", n, logged.String())
	}
}

// lookedAt counts the measurements of a disk.
type lookedAt struct {
	vfs.FS
	times atomic.Int32
}

func (l *lookedAt) Usage(string) (vfs.Usage, error) {
	l.times.Add(1)
	return vfs.Usage{Total: 1 << 40, Free: 1 << 30}, nil
}

// TestOverfullTopicDoesNotPostponeDiskCheck: messages that exceed the share of an ephemeral topic all
// the time are dropped all the time, and the disk is checked nevertheless.
func TestOverfullTopicDoesNotPostponeDiskCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := raftstore.Open(raftstore.Options{InMemory: true, NodeID: "n1", Bootstrap: true})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		o := &Options{Self: "n1", Meta: store, DiskInterval: 10 * time.Millisecond, RetentionInterval: time.Hour}
		o.WallClock = func(now time.Time) int64 {
			time.Sleep(2 * o.DiskInterval) // dropping messages takes longer than the interval
			return now.UnixNano()
		}
		log := slog.New(slog.DiscardHandler)
		disk, topics := &lookedAt{FS: vfs.NewMem()}, &Topics{o: o, overfull: make(chan struct{})}
		d := &diskLoop{
			o: o, disk: diskspace.New(disk, "data", 1<<20, log), overfull: topics.overfull,
			full: &fullDisk{o: o, log: log, life: newLife(log, nil)}, retention: &retention{o: o, log: log, topics: topics},
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			for ctx.Err() == nil {
				select {
				case topics.overfull <- struct{}{}:
				case <-ctx.Done():
				}
			}
		})
		running.Go(func() { d.run(ctx, diskspace.Enough) })
		time.Sleep(10 * time.Second)
		stop()
		running.Wait()
		if n := disk.times.Load(); n < 5 {
			t.Errorf("checked %d times in 10 s", n)
		}
	})
}
