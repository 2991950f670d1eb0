package broker

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// spoil changes a byte of the first batch of a partition on a host's disk.
func (l *lan) spoil(id meta.NodeID, name string, i int, find string) {
	l.t.Helper()
	dir := datadir.At(nil, "data").Replica(l.store.Topic(name), i)
	disk := l.hosts[id].disk
	names, err := disk.ReadDir(dir)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, n := range names {
		if !strings.HasSuffix(n, ".log") {
			continue
		}
		path := filepath.Join(dir, n)
		raw, err := vfs.ReadFile(disk, path, 1<<30)
		if err != nil {
			l.t.Fatal(err)
		}
		at := strings.Index(string(raw), find)
		if at < 0 {
			continue
		}
		f, err := disk.OpenReadWrite(path)
		if err != nil {
			l.t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("!"), int64(at)); err != nil {
			l.t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			l.t.Fatal(err)
		}
		return
	}
	l.t.Fatalf("%q is in no log of %s: %v", find, id, names)
}

// soon shortens the time for which a leader waits for a lagging follower.
func soon(o *Options) {
	o.ReplicaLag, o.RetentionInterval, o.DiskInterval = 100*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
}

// wholeAt waits until a node follows with a copy of everything committed, and
// checks that every message in it can be read.
func (l *lan) wholeAt(id meta.NodeID, name string, messages int) {
	l.t.Helper()
	l.eventually("a whole copy", func() bool {
		hp := l.at(id).Host.Lookup(name).Held(0)
		return hp != nil && hp.Standby.Load() != nil && int(hp.Replica.Log().CommittedEnd()) == messages
	})
	r := l.at(id).Host.Lookup(name).Held(0).Replica.Log().NewReader()
	defer r.Release()
	for o := range messages {
		if _, err := r.Batch(seq.Offset(o)); err != nil {
			l.t.Errorf("message %d: %v", o, err)
		}
	}
}

// settleLog makes a replica note the durable end of its log.
func (l *lan) settleLog(id meta.NodeID, name string) {
	l.t.Helper()
	if err := l.at(id).Host.Lookup(name).Held(0).Replica.Log().Checkpoint(0); err != nil {
		l.t.Fatal(err)
	}
}

func TestDamagedFollowerIsCopiedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		for i := range 5 {
			l.mustPut("t", 0, strings.Repeat(fmt.Sprint(i), 100))
		}
		l.inSync("t", 0, 3)
		l.settleLog("n3", "t")
		l.kill("n3")
		l.spoil("n3", "t", 0, "111")
		l.start("n3")
		l.wholeAt("n3", "t", 5)
		l.inSync("t", 0, 3)
		if n := l.at("n3").Host.Topics.LogStats(); n.Unreadable != 0 || n.Damaged != 1 {
			t.Errorf("%d damaged ranges are left, %d were counted", n.Unreadable, n.Damaged)
		}
		l.eventually("what was set aside to go", func() bool {
			names, err := l.hosts["n3"].disk.ReadDir("data/quarantine")
			return err == nil && len(names) == 0
		})
	})
}

func TestDamagedLeaderTransfersAndIsCopiedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		for i := range 5 {
			l.mustPut("t", 0, strings.Repeat(fmt.Sprint(i), 100))
		}
		l.settleLog("n1", "t")
		l.crash("n1")
		l.spoil("n1", "t", 0, "111")
		l.start("n1") // it still leads, by the metadata
		l.eventually("another leader", func() bool {
			l.control()
			p := l.store.Topic("t").Partitions[0]
			return p.Leader != "" && p.Leader != "n1"
		})
		l.mustPut("t", 0, "after")
		l.inSync("t", 0, 3)
		l.wholeAt("n1", "t", 6)
	})
}

func TestReplicaWithoutDataDoesNotCountAsInSync(t *testing.T) {
	for _, lost := range []meta.NodeID{"n1", "n3"} {
		t.Run(string(lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLan(t, soon, "n1", "n2", "n3")
				l.create("t", "n1", "n2", "n3")
				l.mustPut("t", 0, "a", "b", "c")
				l.inSync("t", 0, 3)
				l.elect("t", 0, "n2") // it is no longer new
				l.mustPut("t", 0, "d")
				l.inSync("t", 0, 3)
				l.elect("t", 0, "n1")
				l.mustPut("t", 0, "e")
				l.crash(lost)
				if err := l.hosts[lost].disk.RemoveAll("data/topics"); err != nil {
					t.Fatal(err)
				}
				l.start(lost)
				l.eventually("a leader that has all", func() bool {
					l.control()
					p := l.store.Topic("t").Partitions[0]
					return p.Leader != lost && len(p.ISR) == 3
				})
				l.mustPut("t", 0, "f")
				l.wholeAt(lost, "t", 6)
			})
		})
	}
}

func TestOnlyCopyServesIntactData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1")
		for i := range 5 {
			l.mustPut("t", 0, strings.Repeat(fmt.Sprint(i), 100))
		}
		l.stop("n1")
		l.spoil("n1", "t", 0, "111")
		l.start("n1")
		c := l.subscribe("t", "c", 0)
		if got := c.take(4); strings.Contains(got, "1") {
			t.Errorf("got %q", got)
		}
		if h := l.at("n1").Node.Health(); !h.Degraded {
			t.Errorf("health %+v", h)
		}
	})
}

func TestDamageFoundByConsumerTransfersLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		var want []string
		for i := range 5 {
			want = append(want, strings.Repeat(fmt.Sprint(i), 100))
		}
		l.mustPut("t", 0, want...)
		l.inSync("t", 0, 3)
		l.stop("n1") // a clean stop: it does not check what it wrote when it starts
		l.spoil("n1", "t", 0, "111")
		l.start("n1")
		l.inSync("t", 0, 3)
		if l.store.Topic("t").Partitions[0].Leader != "n1" {
			l.elect("t", 0, "n1")
		}
		var got []string
		for range 2 { // the first leader's consumers are disconnected
			c := l.subscribe("t", "c", 0)
			for len(got) < len(want) && c.ended.Load() == nil {
				_, err := c.Take(time.Now(), 1, func(d *topic.Delivery) error {
					got = append(got, string(d.Body))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if n := len(got); n > 0 && c.Sources.Load().InFlight() > 0 {
					_ = c.Finish(seq.NewMessageID(0, seq.Offset(n-1)))
				}
				time.Sleep(time.Millisecond) // of the bubble
			}
			c.Close()
		}
		if !slices.Equal(got, want) {
			t.Errorf("delivered %.3q", got)
		}
		l.inSync("t", 0, 3)
		l.wholeAt("n1", "t", 5)
	})
}

func TestNewTopicLosesNothingWhenLeaderDies(t *testing.T) {
	l := newLan(t, func(o *Options) { o.ReplicaLag = time.Hour }, "n1", "n2", "n3")
	for i := range 20 {
		name := fmt.Sprint("t", i)
		l.create(name, "n1", "n2", "n3")
		l.elect(name, 0, "n2") // perhaps before that one knows the topic
		l.mustPut(name, 0, "a")
		if p := l.store.Topic(name).Partitions[0]; p.Leader != "n2" || len(p.ISR) != 3 {
			t.Errorf("%+v", p)
		}
	}
}

// TestPeekGoesOnAfterDamage reads a partition, of which the only copy is damaged, from another node: pages of messages
// end before the damaged range, and a page that would begin in it is refused with the range.
func TestPeekGoesOnAfterDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1")
		for i := range 5 {
			l.mustPut("t", 0, strings.Repeat(fmt.Sprint(i), 100))
		}
		l.stop("n1")
		l.spoil("n1", "t", 0, "222")
		l.start("n1")
		page := func(from seq.Offset, filter string) string {
			seen, err := l.at("n2").Contents.Peek(t.Context(), operate.Peek{Topic: "t", Partition: 0, From: &from, Max: 9, Filter: filter})
			if lost, is := errors.AsType[*commitlog.CorruptionError](err); is && fate.Of(err) == fate.Corrupt {
				return fmt.Sprintf("lost %d to %d", lost.From, lost.Next)
			} else if err != nil {
				t.Fatal(err)
			}
			found := ""
			for i := range seen {
				found += string(seen[i].Body[:1])
			}
			return found
		}
		for _, filter := range []string{"", "size > 0"} {
			if got := fmt.Sprint(page(0, filter), ", ", page(2, filter), ", ", page(3, filter)); got != "01, lost 2 to 3, 34" {
				t.Errorf("filter %q: %s", filter, got)
			}
		}
		if got := page(0, "size > 1000"); got != "lost 2 to 3" {
			t.Errorf("without a match before the range: %s", got)
		}
		if seen, err := l.at("n2").Contents.Peek(t.Context(), operate.Peek{Topic: "t", Partition: 0, Max: 9}); fate.Of(err) != fate.Corrupt {
			t.Errorf("without a position, the damage is hidden: %d messages, %v", len(seen), err)
		}
	})
}
