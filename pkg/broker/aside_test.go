package broker

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/logtest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// layAside makes a set-aside copy of partition 0 with some messages on a node's disk,
// and returns its name.
func (l *lan) layAside(id meta.NodeID, topic string, messages int) string {
	l.t.Helper()
	name := datadir.TopicName(topic, l.store.Topic(topic).Incarnation) + ".0.1"
	log, _, err := commitlog.Open(l.hosts[id].disk, "data/quarantine/"+name, commitlog.Options{FillBytes: -1})
	if err != nil {
		l.t.Fatal(err)
	}
	w, err := log.Writer(1)
	if err != nil {
		l.t.Fatal(err)
	}
	for range messages {
		b := new(commitlog.Builder)
		b.Next(10)
		if _, err := w.Append(b, 0); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		l.t.Fatal(err)
	}
	return name
}

// TestOperatorListsAndDiscardsASetAsideCopy asks one node about a copy on another.
func TestOperatorListsAndDiscardsASetAsideCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2")
		l.create("t", "n1", "n2")
		l.mustPut("t", 0, bodies(5)...)
		l.inSync("t", 0, 2)
		name := l.layAside("n2", "t", 8)
		l.eventually("the health to name the copy", func() bool { return reasonCount(l.at("n2").Node.Health(), "copies_set_aside") == 1 })

		all, err := l.at("n1").Contents.Copies(t.Context(), "t", 0)
		if err != nil || len(all.MissingNodes) > 0 || len(all.Copies) != 2 || len(all.SetAside) != 1 || all.SetAside[0].Node != "n2" {
			t.Fatalf("%+v: %v", all, err)
		}
		s := all.SetAside[0]
		if s.Name != name || s.LogEnd != 8 || !s.Waits || !strings.Contains(s.Why, "beyond") {
			t.Errorf("set aside: %+v", s)
		}
		if c := all.Copies[0]; c.Node != "n1" || !c.Leader || !c.InSync || !c.Open || c.LogEnd != 5 {
			t.Errorf("the leader's: %+v", c)
		}

		for _, wrong := range []string{"", "..", "../topics", name + "0", strings.Replace(name, ".0.", ".1.", 1)} {
			if err := l.at("n1").Contents.DiscardCopy(t.Context(), "t", 0, "n2", wrong); err == nil {
				t.Errorf("%q was discarded", wrong)
			}
		}
		if err := l.at("n1").Contents.DiscardCopy(t.Context(), "t", 0, "n1", name); !errors.Is(err, failure.NoSetAside) {
			t.Errorf("discarded on the wrong node: %v", err)
		}
		if err := l.at("n1").Contents.DiscardCopy(t.Context(), "t", 0, "n2", name); err != nil {
			t.Fatal(err)
		}
		if _, err := l.hosts["n2"].disk.Stat("data/quarantine/" + name); err == nil {
			t.Error("the copy is still there")
		}
		if n := reasonCount(l.at("n2").Node.Health(), "copies_set_aside"); n != 0 {
			t.Errorf("the health names %d copies", n)
		}
	})
}

// TestSetAsideCopyOfAnUnknownTopicStays sets aside a copy of a topic that this metadata
// never had, and one of a deleted topic.
func TestSetAsideCopyOfAnUnknownTopicStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1")
		disk := l.hosts["n1"].disk
		unknown, deleted := "data/quarantine/u.1000000.0.1", "data/quarantine/u.1.0.1"
		for _, dir := range []string{unknown, deleted} {
			if err := vfs.MkdirAllSynced(disk, dir); err != nil {
				t.Fatal(err)
			}
		}
		l.eventually("the deleted topic's copy to go", func() bool {
			_, err := disk.Stat(deleted)
			return err != nil
		})
		if _, err := disk.Stat(unknown); err != nil {
			t.Errorf("the unknown topic's copy: %v", err)
		}
	})
}

// TestDamageOfOnlyCopyIsListed: with the offsets that consumers skip.
func TestDamageOfOnlyCopyIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1")
		l.create("t", "n1")
		all := bodies(5)
		l.mustPut("t", 0, all...)
		l.settleLog("n1", "t")
		l.stop("n1")
		l.spoil("n1", "t", 0, all[1])
		l.start("n1")
		l.subscribe("t", "c", 0).take(4)
		found, err := l.at("n1").Contents.Copies(t.Context(), "t", 0)
		if err != nil || len(found.Copies) != 1 || !found.Copies[0].Open || len(found.Copies[0].Damage) != 1 {
			t.Fatalf("%+v: %v", found, err)
		}
		if d := found.Copies[0].Damage[0]; d.From != 1 || d.Next != 2 || !strings.HasSuffix(d.File, ".log") || !found.Copies[0].Damaged {
			t.Errorf("%+v", found.Copies[0])
		}
	})
}

// TestHealthNamesALostOnlyReplicaUntilTheLossIsAccepted removes the directory
// of the only replica: the topic is served without messages.
func TestHealthNamesALostOnlyReplicaUntilTheLossIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1")
		l.create("t", "n1")
		l.mustPut("t", 0, "a", "b", "c")
		if err := l.at("n1").Contents.AcceptLoss(t.Context(), "t", 0, "n1"); !errors.Is(err, failure.NoLoss) {
			t.Errorf("nothing was lost: %v", err)
		}
		l.stop("n1")
		l.lose("n1")
		for range 2 { // a restart does not forget it
			l.start("n1")
			if n := reasonCount(l.at("n1").Node.Health(), "data_lost"); n != 1 {
				t.Fatalf("the health names %d partitions: %+v", n, l.at("n1").Node.Health())
			}
			l.stop("n1")
		}
		l.start("n1")
		l.eventually("the partition to be led", func() bool { return l.at("n1").Host.Lookup("t").Led(0) != nil })
		l.mustPut("t", 0, "d")
		if err := l.at("n1").Contents.AcceptLoss(t.Context(), "t", 0, "n1"); err != nil {
			t.Fatal(err)
		}
		l.stop("n1")
		l.start("n1")
		if n := reasonCount(l.at("n1").Node.Health(), "data_lost"); n != 0 {
			t.Errorf("accepted, and the health names %d partitions", n)
		}
		if n := l.at("n1").Host.Lookup("t").Held(0).Replica.Log().End(); n != 1 {
			t.Errorf("log end %d", n)
		}
	})
}

// TestHealthNamesAReplicaThatRefusesItsLeader starts the only in-sync replica with an
// older state of its disk: the other replica holds more.
func TestHealthNamesAReplicaThatRefusesItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Journal
		l := newLan(t, func(o *Options) { soon(o); o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, "n1", "n2")
		l.create("t", "n1", "n2")
		all := bodies(30)
		l.mustPut("t", 0, all[:20]...)
		old := l.hosts["n1"].disk.CrashClone(vfs.Crash{KeepPercent: 100})
		l.mustPut("t", 0, all[20:]...)
		l.inSync("t", 0, 2)
		l.wholeAt("n2", "t", 30)
		l.murder("n2")
		l.eventually("n1 to be alone in sync", func() bool {
			return slices.Equal(l.store.Topic("t").Partitions[0].ISR, []meta.NodeID{"n1"})
		})
		l.murder("n1")
		l.hosts["n1"].disk = old
		l.start("n1")
		l.control()
		l.start("n2")
		time.Sleep(time.Second)
		l.eventually("the health to name the replica", func() bool { return reasonCount(l.at("n2").Node.Health(), "replica_refusing") == 1 })
		if !log.Has("ERROR", "refuses its leader", "partition=0", "committed_end=30") {
			t.Error("the log does not say it")
		}
		found, err := l.at("n1").Contents.Copies(t.Context(), "t", 0)
		if err != nil || len(found.Copies) != 2 || !found.Copies[1].Refusing || found.Copies[1].LogEnd != 30 {
			t.Errorf("%+v: %v", found, err)
		}
		d, err := l.at("n1").Contents.Digest(t.Context(), "t")
		if err != nil || d[0].Identical || d[0].Compared() != "NO" || len(d[0].Longer) != 1 || d[0].Longer["n2"] != 30 {
			t.Errorf("verify: %+v, %v", d, err)
		}
	})
}
