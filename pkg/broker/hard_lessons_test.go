package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// newNodeOn starts a node on a disk of the test's choice.
func newNodeOn(t *testing.T, fsys vfs.FS) *node {
	n := &node{t: t, fs: fsys, dir: t.TempDir()}
	n.start()
	t.Cleanup(n.stop)
	return n
}

func (n *node) try(name, body string) error {
	return n.publish(publish.Request{Topic: name, Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte(body)}}}).Err
}

func TestFullDiskRefusesPublishesAndConsumingContinues(t *testing.T) {
	faulty := vfstest.NewFaulty(vfs.NewMem())
	n := newNodeOn(t, faulty)
	n.put("t", "a", "b", "c")
	c := n.subscribe("t", "ch")
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpWrite || op.Kind == vfs.OpPreallocate || op.Kind == vfs.OpCreate {
			return vfstest.Fault{Err: syscall.ENOSPC}
		}
		return vfstest.Fault{}
	})
	if err := n.try("t", "x"); !errors.Is(err, syscall.ENOSPC) || fate.Of(err) != fate.Refused {
		t.Errorf("publish: %v, fate %v", err, fate.Of(err))
	}
	if got := c.take(3); got != "a b c" {
		t.Errorf("got %q", got)
	}
	faulty.Decide(nil)
	eventually(t, func() bool { // a write of positions that failed before may be noted after a look
		n.Host.Disk.Look()
		return n.try("t", "d") == nil
	})
	if got := c.take(1); got != "d" {
		t.Errorf("with room again got %q", got)
	}
}

// small is a disk with a settable free space.
type small struct {
	vfs.FS
	mu   sync.Mutex // guards free
	free uint64
}

func (s *small) set(free uint64) { s.mu.Lock(); s.free = free; s.mu.Unlock() }
func (s *small) Usage(string) (vfs.Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return vfs.Usage{Total: 1 << 40, Free: s.free}, nil
}

func TestDiskReserveIsKept(t *testing.T) {
	disk := &small{FS: vfs.NewMem(), free: 1 << 40}
	n := newNodeOn(t, disk)
	n.put("t", "a")
	c := n.subscribe("t", "ch")
	disk.set(host.DefaultDiskReserve - 1)
	n.Host.Disk.Look()
	if err := n.try("t", "x"); !errors.Is(err, failure.DiskFull) || fate.Of(err) != fate.Refused {
		t.Errorf("publish: %v", err)
	}
	if got := c.take(1); got != "a" {
		t.Errorf("got %q", got)
	}
	disk.set(host.DefaultDiskReserve + host.DefaultDiskReserve/diskspace.Margin - 1)
	n.Host.Disk.Look()
	if err := n.try("t", "x"); !errors.Is(err, failure.DiskFull) {
		t.Errorf("publish at the brink: %v", err)
	}
	disk.set(host.DefaultDiskReserve + host.DefaultDiskReserve/diskspace.Margin)
	n.Host.Disk.Look()
	n.put("t", "b")
}

func TestDamagedRangeIsSkippedAndReported(t *testing.T) {
	mem := vfs.NewMem()
	n := newNodeOn(t, mem)
	for i := range 5 {
		n.put("t", strings.Repeat(fmt.Sprint(i), 1000))
	}
	n.stop()
	dir := filepath.Join("data", "topics")
	var log string
	for log == "" {
		names, err := mem.ReadDir(dir)
		if err != nil || len(names) == 0 {
			t.Fatalf("no segment: %v", err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, ".log") {
				log = filepath.Join(dir, name)
			}
		}
		dir = filepath.Join(dir, names[0])
	}
	raw, err := vfs.ReadFile(mem, log, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	f, err := mem.OpenReadWrite(log)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(raw), "2222")
	if _, err := f.WriteAt([]byte("!"), int64(at)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	n.start()
	c := n.subscribe("t", "ch")
	for i, body := range strings.Fields(c.take(4)) {
		if want := strings.Repeat([]string{"0", "1", "3", "4"}[i], 1000); body != want {
			t.Errorf("message %d is %.10q…, want %.10q…", i, body, want)
		}
	}
	if h := n.Node.Health(); !h.Degraded || !h.Healthy || len(h.Reasons) == 0 || h.Reasons[0].Code != "log_corrupt" {
		t.Errorf("health: %+v", h)
	}
}

// TestPowerCut cuts the power at a random moment of publishing and consuming.
func TestPowerCut(t *testing.T) {
	for _, sync := range []meta.SyncPolicy{meta.SyncAlways(), {Interval: time.Minute}} {
		for seed := range uint64(8) {
			t.Run(fmt.Sprintf("%v/seed%d", sync, seed), func(t *testing.T) { powerCut(t, sync, seed) })
		}
	}
}

func powerCut(t *testing.T, policy meta.SyncPolicy, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	disk := vfs.NewCrashable()
	n := newNodeOn(t, disk)
	if _, err := n.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: 1, Replicas: 1, Sync: policy}); err != nil {
		t.Fatal(err)
	}
	c := n.subscribe("t", "ch")
	published, finished := 0, map[string]bool{}
	for range rnd.IntN(60) {
		n.put("t", fmt.Sprintf("m%d", published))
		published++
		if rnd.IntN(3) == 0 {
			finished[c.take(1)] = true
		}
		if rnd.IntN(8) == 0 {
			n.Host.Topics.EachHeld(func(_ *host.Topic, hp *host.Held) {
				if err := hp.Checkpoint(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	after := disk.CrashClone(vfs.Crash{Rand: rnd, KeepPercent: rnd.IntN(101), TornPercent: 30})
	n.stop()
	n.fs = after
	n.start()
	end := n.Host.Lookup("t").AllHeld()[0].Replica.Log().CommittedEnd()
	if policy.Always() && int(end) != published {
		t.Errorf("%d were acknowledged, %d are there", published, end)
	}
	if int(end) > published {
		t.Errorf("%d were published, %d are there", published, end)
	}
	c = n.subscribe("t", "ch")
	n.put("t", "fresh")
	seen := map[string]bool{}
	for !seen["fresh"] {
		seen[c.take(1)] = true
	}
	for i := range int(end) {
		if m := fmt.Sprintf("m%d", i); !seen[m] && !finished[m] {
			t.Errorf("%s was neither finished nor delivered again", m)
		}
		delete(seen, fmt.Sprintf("m%d", i))
	}
	if len(seen) != 1 {
		t.Errorf("delivered and never published: %v", seen)
	}
}

func TestIDsNeverRepeatAcrossRestarts(t *testing.T) {
	n := &node{t: t, fs: vfs.OS{}, dir: t.TempDir()}
	t.Chdir(t.TempDir())
	n.start()
	t.Cleanup(n.stop)
	next := n.publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: []byte("first")}}}).First + 1
	for range 5 {
		n.restart()
		r := n.publish(publish.Request{Topic: "t", Messages: make([]topic.Message, 100)})
		if r.Err != nil || r.First != next {
			t.Fatalf("batch begins at %d, want %d: %v", r.First, next, r.Err)
		}
		next = r.First + 100
	}
}
