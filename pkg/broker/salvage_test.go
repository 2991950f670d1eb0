package broker

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// flip changes one byte of a file.
func flip(t *testing.T, disk vfs.FS, path string, at int64) {
	t.Helper()
	f, err := disk.OpenReadWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// spoilPositions damages every positions file of a replica.
func spoilPositions(t *testing.T, disk vfs.FS, dir string) {
	t.Helper()
	names, err := disk.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	spoiled := 0
	for _, name := range names {
		if strings.HasPrefix(name, "positions.") {
			flip(t, disk, filepath.Join(dir, name), 16)
			spoiled++
		}
	}
	if spoiled == 0 {
		t.Fatalf("no positions in %s: %v", dir, names)
	}
}

// removePositions removes every positions file of a replica.
func removePositions(t *testing.T, disk vfs.FS, dir string) {
	t.Helper()
	names, err := disk.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "positions.") {
			if err := disk.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func reasonCount(h health.Report, code string) int {
	for _, r := range h.Reasons {
		if r.Code == code {
			return r.Count
		}
	}
	return 0
}

func TestLeaderWithoutPositionsTransfersLeadership(t *testing.T) {
	t.Run("damaged", func(t *testing.T) { transfersWithoutPositions(t, spoilPositions) })
	t.Run("removed", func(t *testing.T) { transfersWithoutPositions(t, removePositions) })
}

func transfersWithoutPositions(t *testing.T, harm func(*testing.T, vfs.FS, string)) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		l.inSync("t", 0, 3)
		c := l.subscribe("t", "c", 0)
		l.mustPut("t", 0, "a", "b", "c")
		if got := c.take(2); got != "a b" {
			t.Fatal(got)
		}
		time.Sleep(2 * time.Second)
		harm(t, l.hosts["n2"].disk, datadir.At(nil, "data").Replica(l.store.Topic("t"), 0))
		l.elect("t", 0, "n2")
		b := l.leader("t", 0)
		if l.store.Topic("t").Partitions[0].Leader == "n2" {
			t.Fatal("the replica leads whose positions cannot be read")
		}
		if got := (&node{Broker: b, t: t}).subscribe("t", "c").take(1); got != "c" {
			t.Errorf("the next leader delivers %q", got)
		}
		time.Sleep(2 * time.Second) // the next leader sends n2 the positions
		l.elect("t", 0, "n2")
		l.leader("t", 0)
		if got := l.store.Topic("t").Partitions[0].Leader; got != "n2" {
			t.Errorf("%s leads, though n2 has intact positions again", got)
		}
	})
}

func TestLoneLeaderWithoutPositionsLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2")
		l.create("t", "n1", "n2")
		l.inSync("t", 0, 2)
		c := l.subscribe("t", "c", 0)
		l.mustPut("t", 0, "a", "b")
		if got := c.take(2); got != "a b" {
			t.Fatal(got)
		}
		time.Sleep(time.Second)
		l.kill("n1")
		spoilPositions(t, l.hosts["n2"].disk, datadir.At(nil, "data").Replica(l.store.Topic("t"), 0))
		l.failOver("n1") // n1 is still named as in sync
		time.Sleep(host.SalvageAfter)
		b := l.leader("t", 0)
		if got := (&node{Broker: b, t: t}).subscribe("t", "c").take(2); got != "a b" {
			t.Errorf("delivered %q", got)
		}
		if h := b.Node.Health(); !h.Degraded || reasonCount(h, "positions_lost") != 1 {
			t.Errorf("health %+v", h)
		}
	})
}

// TestLeaderWithoutPositionsWaitsForOthersThatStart restarts all nodes. The one that starts first
// cannot read its positions: the others, which start a moment later, have them.
func TestLeaderWithoutPositionsWaitsForOthersThatStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := []meta.NodeID{"n1", "n2", "n3"}
		l := newLan(t, soon, ids...)
		l.create("t", ids...)
		l.inSync("t", 0, 3)
		c := l.subscribe("t", "c", 0)
		l.mustPut("t", 0, "a", "b", "c")
		if got := c.take(2); got != "a b" {
			t.Fatal(got)
		}
		time.Sleep(2 * time.Second)
		for _, id := range ids {
			l.kill(id)
		}
		for _, id := range ids[1:] {
			if _, err := l.store.Propose(t.Context(), meta.SetNodeState{ID: id, State: meta.NodeDown}); err != nil {
				t.Fatal(err)
			}
		}
		spoilPositions(t, l.hosts["n1"].disk, datadir.At(nil, "data").Replica(l.store.Topic("t"), 0))
		l.start("n1")
		l.elect("t", 0, "n1")
		time.Sleep(host.SalvageAfter / 2)
		for _, id := range ids[1:] {
			l.start(id)
			if _, err := l.store.Propose(t.Context(), meta.SetNodeState{ID: id, State: meta.NodeUp}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(host.SalvageAfter / 2)
		b := l.leader("t", 0)
		if l.store.Topic("t").Partitions[0].Leader == "n1" {
			t.Error("the replica leads whose positions cannot be read")
		}
		if got := (&node{Broker: b, t: t}).subscribe("t", "c").take(1); got != "c" {
			t.Errorf("the leader delivers %q", got)
		}
	})
}

func TestOneReplicaLeadsWithoutReadablePositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := []meta.NodeID{"n1", "n2", "n3"}
		l := newLan(t, soon, ids...)
		l.create("t", ids...)
		l.inSync("t", 0, 3)
		c := l.subscribe("t", "c", 0)
		l.mustPut("t", 0, "a", "b")
		if got := c.take(2); got != "a b" {
			t.Fatal(got)
		}
		time.Sleep(2 * time.Second)
		for _, id := range ids {
			l.stop(id)
		}
		for _, id := range ids {
			spoilPositions(t, l.hosts[id].disk, datadir.At(nil, "data").Replica(l.store.Topic("t"), 0))
		}
		for _, id := range ids {
			l.start(id)
		}
		epoch := l.store.Topic("t").Partitions[0].Epoch
		time.Sleep(3 * host.SalvageAfter)
		b := l.leader("t", 0)
		if got := (&node{Broker: b, t: t}).subscribe("t", "c").take(2); got != "a b" {
			t.Errorf("delivered %q", got)
		}
		if spent := l.store.Topic("t").Partitions[0].Epoch - epoch; spent > 30 {
			t.Errorf("%d epochs went by", spent)
		}
	})
}

func TestNodeStartsWithDamagedPositionsOfOneTopic(t *testing.T) {
	n := newNode(t)
	for i := range 3 {
		name := fmt.Sprint("t", i)
		c, d := n.subscribe(name, "c"), n.subscribe(name, "d")
		n.put(name, "a", "b")
		if c, d := c.take(2), d.take(2); c != "a b" || d != "a b" {
			t.Fatal(c, d)
		}
	}
	dir := datadir.At(nil, "data").Replica(n.meta.Topic("t1"), 0)
	n.stop()
	spoilPositions(t, n.fs, dir)
	n.start()
	for _, channel := range []string{"c", "d"} {
		if got := n.subscribe("t1", channel).take(2); got != "a b" {
			t.Errorf("channel %s starts with %q", channel, got)
		}
	}
	n.put("t0", "x")
	if got := n.subscribe("t0", "c").take(1); got != "x" {
		t.Errorf("another topic delivers %q", got)
	}
	if h := n.Node.Health(); !h.Degraded || reasonCount(h, "positions_lost") != 1 {
		t.Errorf("health %+v", h)
	}
	names, err := n.fs.ReadDir(dir)
	if err != nil || !strings.Contains(strings.Join(names, " "), positionsKept) {
		t.Errorf("the damaged files are not kept: %v, %v", names, err)
	}
	n.restart()
	if h := n.Node.Health(); reasonCount(h, "positions_lost") != 0 {
		t.Errorf("health after another start %+v", h)
	}
}

// positionsKept is a part of the names of damaged files that were replaced.
const positionsKept = ".damaged."

func TestFilesOfOneTopicNeverPreventStart(t *testing.T) {
	whole := vfs.NewCrashable()
	n := newNodeOn(t, whole)
	for _, name := range []string{"good", "bad"} {
		n.put(name, "a", "b")
		if err := n.Directory.CreateChannel(t.Context(), name, "ordered", true); err != nil {
			t.Fatal(err)
		}
		if got := n.subscribe(name, "ordered").take(2); got != "a b" {
			t.Fatal(got)
		}
	}
	dir := datadir.At(nil, "data").Replica(n.meta.Topic("bad"), 0)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := whole.ReadDir(dir)
	if err != nil || len(names) < 3 {
		t.Fatal(names, err)
	}
	harms := map[string]func(disk vfs.FS, path string) error{
		"first byte": func(disk vfs.FS, path string) error { flip(t, disk, path, 0); return nil },
		"tenth byte": func(disk vfs.FS, path string) error { flip(t, disk, path, 10); return nil },
		"empty": func(disk vfs.FS, path string) error {
			f, err := disk.Create(path)
			if err == nil {
				err = f.Close()
			}
			return err
		},
		"removed": func(disk vfs.FS, path string) error { return disk.Remove(path) },
		"a directory": func(disk vfs.FS, path string) error {
			if err := disk.Remove(path); err != nil {
				return err
			}
			return disk.MkdirAll(path)
		},
	}
	for _, name := range names {
		for harm, do := range harms {
			path := filepath.Join(dir, name)
			clone := whole.CrashClone(vfs.Crash{})
			if info, err := clone.Stat(path); err != nil || info.Size() < 11 && strings.HasSuffix(harm, "byte") {
				continue
			}
			if err := do(clone, path); err != nil {
				t.Fatal(err)
			}
			b, err := Open(t.Context(), Options{
				Options: host.Options{Self: "n1", FS: clone, DataDir: "data", Meta: n.meta, TickInterval: time.Millisecond}, AutoCreateTopics: true,
			})
			if err != nil {
				t.Errorf("%s, %s: the node does not start: %v", name, harm, err)
				continue
			}
			n.Broker = b
			n.put("good", "x")
			if err := b.Close(); err != nil {
				t.Logf("%s, %s: close: %v", name, harm, err) // damaged files may not be overwritten
			}
		}
	}
}
