package broker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// murder ends a broker like kill -9: its disk keeps everything that was written.
func (l *lan) murder(ids ...meta.NodeID) {
	for _, id := range ids {
		h := l.hosts[id]
		b := h.broker.Swap(nil)
		h.dead.Store(b)
		h.disk = h.disk.CrashClone(vfs.Crash{KeepPercent: 100})
		_ = b.Close()
		h.dead.Store(nil)
	}
	for _, id := range ids {
		l.tell(id, false)
	}
}

// control runs one step of the controller: partitions without a live leader get
// one.
func (l *lan) control() {
	l.t.Helper()
	nodes := controller.Conditions{}
	for id, h := range l.hosts {
		if h.broker.Load() != nil {
			nodes[id] = controller.Up
		}
	}
	es, _ := controller.Elect(l.store.View(), nodes)
	if len(es) > 0 {
		if _, err := l.store.Propose(l.t.Context(), meta.ElectLeaders{Elections: es}); err != nil {
			l.t.Fatal(err)
		}
	}
}

// recovers waits, with a controller at work, until all replicas of a topic are in
// sync, and checks that each holds the messages.
func (l *lan) recovers(name string, messages []string) {
	l.t.Helper()
	l.eventually("all replicas to be in sync with "+name, func() bool {
		l.control()
		p := &l.store.Topic(name).Partitions[0]
		return p.Leader != "" && len(p.ISR) == len(p.Replicas) && len(p.Suspects) == 0
	})
	for _, id := range l.store.Topic(name).Partitions[0].Replicas {
		l.eventually(fmt.Sprintf("%s to hold all messages", id), func() bool {
			l.control()
			return l.lacks(id, name, messages) == ""
		})
	}
}

// lacks returns what is wrong with a replica that should hold some messages first; "":
// nothing.
func (l *lan) lacks(id meta.NodeID, name string, messages []string) string {
	hp := l.at(id).Host.Lookup(name).Held(0)
	if hp == nil {
		return "no replica"
	}
	log := hp.Replica.Log()
	r := log.NewReader()
	defer r.Release()
	for o, m := range messages {
		b, err := r.Batch(seq.Offset(o))
		if err != nil {
			return err.Error()
		}
		records := b.Records(seq.Offset(o))
		if _, payload, _ := records.Next(); !strings.Contains(string(payload), m) {
			return fmt.Sprintf("message %d is another", o)
		}
	}
	return ""
}

func bodies(n int) []string {
	var all []string
	for i := range n {
		all = append(all, strings.Repeat(fmt.Sprintf("<%d>", i), 20))
	}
	return all
}

// TestDamagedBitAndRestartOfAllLoseNothing damages one message in the log of one
// replica, after its last checkpoint, while no node runs.
func TestDamagedBitAndRestartOfAllLoseNothing(t *testing.T) {
	for _, victim := range []meta.NodeID{"n1", "n2"} {
		for _, where := range []int{0, 10, 18, 19} {
			for _, first := range []meta.NodeID{"n1", "n2"} {
				t.Run(fmt.Sprintf("%s/%d/%s first", victim, where, first), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						l := newLan(t, soon, "n1", "n2", "n3")
						l.create("t", "n1", "n2", "n3")
						all := bodies(20)
						l.mustPut("t", 0, all...)
						l.inSync("t", 0, 3)
						l.murder("n1", "n2", "n3")
						l.spoil(victim, "t", 0, all[where])
						l.start(first)
						for id := range l.hosts {
							if id != first {
								l.control()
								time.Sleep(time.Millisecond)
								l.start(id)
							}
						}
						l.recovers("t", all)
					})
				})
			}
		}
	}
}

// TestQuickRestartOfDamagedLeaderLosesNothing keeps the other nodes running:
// none of them notices the restart.
func TestQuickRestartOfDamagedLeaderLosesNothing(t *testing.T) {
	for _, where := range []int{10, 19} {
		synctest.Test(t, func(t *testing.T) {
			l := newLan(t, soon, "n1", "n2", "n3")
			l.create("t", "n1", "n2", "n3")
			all := bodies(20)
			l.mustPut("t", 0, all...)
			l.inSync("t", 0, 3)
			l.murder("n1")
			l.spoil("n1", "t", 0, all[where])
			l.start("n1")
			l.recovers("t", all)
		})
	}
}

// TestOlderDiskImageLosesNothing starts one node with an older state of its
// disk that ends at a batch: the disk does not show this.
func TestOlderDiskImageLosesNothing(t *testing.T) {
	for _, back := range []int{1, 5, 20} {
		for _, restarted := range [][]meta.NodeID{{"n1"}, {"n1", "n2", "n3"}, {"n1", "n2"}} {
			t.Run(fmt.Sprintf("by %d with %v", back, restarted), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLan(t, soon, "n1", "n2", "n3")
					l.create("t", "n1", "n2", "n3")
					all := bodies(30)
					l.mustPut("t", 0, all[:30-back]...)
					old := l.hosts["n1"].disk.CrashClone(vfs.Crash{KeepPercent: 100})
					l.mustPut("t", 0, all[30-back:]...)
					l.inSync("t", 0, 3)
					l.murder(restarted...)
					l.hosts["n1"].disk = old
					for _, id := range restarted {
						l.start(id)
						time.Sleep(50 * time.Millisecond) // the first leads alone for a moment
					}
					l.recovers("t", all)
				})
			})
		}
	}
}

// TestDamagedLastCopyServesIntactData loses the only in-sync replica permanently,
// and starts another one with a damaged message.
func TestDamagedLastCopyServesIntactData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2")
		l.create("t", "n1", "n2")
		all := bodies(5)
		l.mustPut("t", 0, all...)
		l.inSync("t", 0, 2)
		l.settleLog("n2", "t")
		l.kill("n2")
		l.inSync("t", 0, 1) // n1 continues alone
		l.kill("n1")        // its disk is lost
		l.down("n1")
		l.control()
		l.spoil("n2", "t", 0, all[1])
		l.start("n2")
		time.Sleep(time.Second)
		p := l.store.Topic("t").Partitions[0]
		r, err := l.store.Propose(t.Context(), meta.ElectLeaders{Elections: []meta.Election{
			{Topic: "t", Version: p.Version, Leader: "n2", Unclean: true},
		}})
		if err != nil || r.Failed != nil {
			t.Fatal(err, r.Failed)
		}
		time.Sleep(2 * time.Minute) // n1 might have returned with the damage here
		c := l.subscribe("t", "c", 0)
		got := c.take(4)
		for i, m := range all {
			if strings.Contains(got, m) != (i != 1) {
				t.Errorf("message %d: delivered %t", i, i == 1)
			}
		}
	})
}

// TestKillKeepsFollowersCommittedEnd checks a follower that learned of the
// last commit without a later message.
func TestKillKeepsFollowersCommittedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		l.inSync("t", 0, 3)
		l.mustPut("t", 0, bodies(50)...)
		committed := func() seq.Offset { return l.at("n2").Host.Lookup("t").Held(0).Replica.Log().CommittedEnd() }
		l.eventually("n2 to know all as committed", func() bool { return committed() == 50 })
		l.murder("n2", "n1", "n3")
		l.start("n2")
		if n := committed(); n != 50 {
			t.Errorf("committed end %d after a kill, was 50", n)
		}
	})
}

// TestSetAsideCopyStaysWhileLonger sets aside a copy of eight messages, of a
// replica that is in sync and holds five messages, and then ten.
func TestSetAsideCopyStaysWhileLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2")
		l.create("t", "n1", "n2")
		l.mustPut("t", 0, bodies(5)...)
		l.inSync("t", 0, 2)
		disk := l.hosts["n2"].disk
		dir := "data/quarantine/" + l.layAside("n2", "t", 8)
		aside := func() bool {
			_, err := disk.Stat(dir)
			return err == nil
		}
		time.Sleep(time.Second)
		if !aside() {
			t.Fatal("a longer copy was deleted")
		}
		l.mustPut("t", 0, bodies(5)...)
		l.eventually("the shorter copy to go", func() bool { return !aside() })
	})
}
