package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/repair"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// fill publishes messages that take several segments, and returns them. All replicas hold them and know
// them as committed.
func (l *lan) fill(name string, n int) (all []string) {
	l.t.Helper()
	for i := range n {
		all = append(all, strings.Repeat(string(rune('a'+i)), 2000))
		l.mustPut(name, 0, all[i])
	}
	l.inSync(name, 0, 3)
	for id := range l.hosts {
		l.eventually("all to be committed at "+string(id), func() bool {
			return int(l.at(id).Host.Lookup(name).Held(0).Replica.Log().CommittedEnd()) == n
		})
	}
	return all
}

// alone stops all nodes, one by one, so that a given one is the only one in sync.
func (l *lan) alone(name string, last meta.NodeID) {
	l.t.Helper()
	if l.store.Topic(name).Partitions[0].Leader != last {
		l.elect(name, 0, last)
	}
	for id := range l.hosts {
		if id != last {
			l.stop(id)
		}
	}
	l.inSync(name, 0, 1)
	l.stop(last)
}

// takes consumes until it has all messages of a channel, or a time has passed. The leader may change.
// It finishes nothing, because retention would then drop the messages.
func (l *lan) takes(name string, want []string, within time.Duration) {
	l.t.Helper()
	got := map[string]bool{}
	for end := time.Now().Add(within); len(got) < len(want) && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		l.control()
		c := l.subscribe(name, "c", 0)
		for c.ended.Load() == nil && len(got) < len(want) && time.Now().Before(end) {
			_, err := c.Take(time.Now(), 10, func(d *topic.Delivery) error {
				got[string(d.Body)] = true
				return nil
			})
			if err != nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		c.Close()
	}
	for i, m := range want {
		if !got[m] {
			l.t.Errorf("message %d was not delivered", i)
		}
	}
}

// lastCopies are ways to damage the only copy in sync.
var lastCopies = map[string]func(l *lan, all []string){
	"in the middle":  func(l *lan, all []string) { l.spoil("n1", "t", 0, all[3][:50]) },
	"at its end":     func(l *lan, all []string) { l.spoil("n1", "t", 0, all[7][:50]) },
	"at its start":   func(l *lan, all []string) { l.spoil("n1", "t", 0, all[0][:50]) },
	"a segment":      func(l *lan, _ []string) { l.remove("n1", func(names []string) string { return names[1] }) },
	"its last one":   func(l *lan, _ []string) { l.remove("n1", func(names []string) string { return names[len(names)-1] }) },
	"in many places": func(l *lan, all []string) { l.spoil("n1", "t", 0, all[1][:50]); l.spoil("n1", "t", 0, all[5][:50]) },
}

// The only replica in sync is damaged, and the others hold the lost messages, though they are not in
// sync. No consumer skips the messages, and no operator is needed.
func TestOnlyInSyncCopyIsRepairedFromOthers(t *testing.T) {
	for name, harm := range lastCopies {
		for _, late := range []time.Duration{0, 20 * time.Second} {
			t.Run(fmt.Sprintf("%s, the others start after %v", name, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := segmented(t)
					all := l.fill("t", 8)
					l.alone("t", "n1")
					harm(l, all)
					l.start("n1")
					done := make(chan struct{})
					go func() {
						defer close(done)
						l.takes("t", all, 2*time.Minute)
					}()
					time.Sleep(late)
					l.start("n2")
					l.start("n3")
					l.whole(time.Minute)
					<-done
					if n := l.at("n1").Host.Topics.LogStats(); n.Unreadable != 0 {
						t.Errorf("%d damaged ranges are left", n.Unreadable)
					}
				})
			})
		}
	}
}

// segmented is three brokers with a topic of small segments and no messages.
func segmented(t *testing.T) *lan {
	t.Helper()
	l := newLan(t, func(o *Options) {
		soon(o)
		o.Log.TailBytes, o.Log.FillBytes, o.Log.SegmentBytes = -1, -1, 4<<10
		o.ScrubInterval = 10 * time.Second
	}, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	return l
}

// All three copies are damaged, each in a different place, while no node runs. One leads, the others
// are set aside, and the leader's lost messages come from them.
func TestThreeCopiesWithDamageInDifferentPlacesLoseNothing(t *testing.T) {
	for _, where := range [][3]int{{1, 3, 5}, {7, 3, 5}, {0, 1, 7}, {2, 3, 4}} {
		t.Run(fmt.Sprint(where), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := segmented(t)
				all := l.fill("t", 8)
				for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
					l.settleLog(id, "t")
				}
				l.murder("n1", "n2", "n3")
				for i, id := range []meta.NodeID{"n1", "n2", "n3"} {
					l.spoil(id, "t", 0, all[where[i]][:50])
					l.start(id)
				}
				l.control()
				l.takes("t", all, 2*time.Minute)
				l.recovers("t", all)
			})
		})
	}
}

// One copy has rotted, another is an older state of its disk, and the only one in sync is damaged elsewhere.
func TestCorruptOlderAndDamagedCopyLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := segmented(t)
		for i := range 3 {
			l.mustPut("t", 0, fmt.Sprint("before ", i))
		}
		l.inSync("t", 0, 3)
		old := l.hosts["n3"].disk.CrashClone(vfs.Crash{KeepPercent: 100})
		var all []string
		for i := range 8 {
			all = append(all, strings.Repeat(string(rune('a'+i)), 2000))
			l.mustPut("t", 0, all[i])
		}
		l.inSync("t", 0, 3)
		for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
			l.settleLog(id, "t")
		}
		time.Sleep(time.Second)
		l.alone("t", "n1")
		l.spoil("n1", "t", 0, all[4][:50])
		l.spoil("n2", "t", 0, all[2][:50])
		l.hosts["n3"].disk = old
		for _, id := range []meta.NodeID{"n3", "n2", "n1"} {
			l.start(id)
		}
		l.takes("t", all, 2*time.Minute)
		l.whole(time.Minute)
	})
}

// loseEverywhere damages a message in all three copies of a topic. Only the copy on n1 is in sync.
func (l *lan) loseEverywhere(topic, message string) {
	ids := []meta.NodeID{"n1", "n2", "n3"}
	for _, id := range ids {
		l.settleLog(id, topic)
	}
	l.alone(topic, "n1")
	for _, id := range ids {
		l.spoil(id, topic, 0, message[:50])
	}
	for _, id := range ids {
		l.start(id)
	}
}

// One message is lost in all copies. The health report lists it, and all others are
// delivered.
func TestUnrepairableRangeIsReportedAndSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := segmented(t)
		all := l.fill("t", 8)
		l.loseEverywhere("t", all[4])
		l.takes("t", slices.Delete(slices.Clone(all), 4, 5), 2*time.Minute)
		l.eventually("the health to say it", func() bool {
			l.control()
			leader := l.at(l.store.Topic("t").Partitions[0].Leader)
			return leader != nil && reasonCount(leader.Node.Health(), "log_corrupt") == 1
		})
	})
}

// The node with the damaged copy, or another one, is killed at any moment of a repair.
func TestRestartDuringRepairLosesNothing(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			rnd := testrand.New(t)
			l := segmented(t)
			all := l.fill("t", 8)
			l.alone("t", "n1")
			l.spoil("n1", "t", 0, all[rnd.IntN(4)][:50])
			l.spoil("n1", "t", 0, all[4+rnd.IntN(4)][:50])
			for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
				l.start(id)
			}
			for range 3 {
				time.Sleep(time.Duration(rnd.Int64N(int64(1500 * time.Millisecond))))
				id := []meta.NodeID{"n1", "n1", "n2"}[rnd.IntN(3)]
				l.murder(id)
				l.start(id)
				l.control()
			}
			l.takes("t", all, 2*time.Minute)
			l.recovers("t", all)
		})
	}
}

// A leader cannot read its messages with dedup ids, and other replicas can: a repeated publish gets
// the place of the first one, and is not stored again.
func TestLeaderThatCannotReadDedupIDsStoresNothingTwice(t *testing.T) {
	for name, alone := range map[string]bool{"others are in sync": false, "it is alone in sync": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := segmented(t)
				for i := range 8 {
					if r := l.putOnce("n1", "t", strings.Repeat(fmt.Sprint(i), 20)); r.Err != nil {
						t.Fatal(r.Err)
					}
				}
				l.inSync("t", 0, 3)
				time.Sleep(time.Second)
				if alone {
					l.alone("t", "n1")
				} else {
					l.stop("n1")
				}
				l.spoil("n1", "t", 0, "2222")
				l.start("n1")
				if alone {
					l.start("n2")
					l.start("n3")
				} else {
					l.inSync("t", 0, 3)
					l.elect("t", 0, "n1")
				}
				for i := range 8 {
					var r topic.Receipt
					l.eventually("an answer", func() bool {
						l.control()
						r = l.putOnce("n2", "t", strings.Repeat(fmt.Sprint(i), 20))
						return r.Err == nil
					})
					if int(r.First) != i {
						t.Errorf("message %d, stored at %d, was stored again at %d", i, i, r.First)
					}
				}
			})
		})
	}
}

// An operator asks a damaged leader, the only in-sync replica, to transfer its leadership: it stays,
// delivers the intact messages, and is repaired once another node is there.
func TestDamagedLeaderAloneInSyncStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := segmented(t)
		all := l.fill("t", 8)
		l.alone("t", "n1")
		l.spoil("n1", "t", 0, all[3][:50])
		l.start("n1")
		for range 3 {
			if err := l.transfer(t.Context(), "t", ""); err == nil {
				t.Error("it has handed over to no replica")
			}
			time.Sleep(time.Second)
		}
		epoch := l.store.Topic("t").Partitions[0].Epoch
		l.takes("t", slices.Delete(slices.Clone(all), 3, 4), 2*time.Minute)
		time.Sleep(10 * time.Minute)
		if p := l.store.Topic("t").Partitions[0]; p.Epoch != epoch || p.Leader != "n1" {
			t.Errorf("led by %q in epoch %d, after %d", p.Leader, p.Epoch, epoch)
		}
		l.start("n3")
		l.eventually("n3 to be in sync", func() bool { return len(l.store.Topic("t").Partitions[0].ISR) == 2 })
		l.start("n2")
		l.whole(2 * time.Minute)
	})
}

// The disk of the only copy in sync refuses the file for its repair, which costs no epoch, or refuses
// to rename it, which costs one each time: the node retries less and less often. Intact messages are
// delivered. The repair succeeds once the disk works.
func TestFailedRepairCostsFewEpochs(t *testing.T) {
	for kind, most := range map[vfs.OpKind]seq.Epoch{vfs.OpCreate: 0, vfs.OpRename: 12} {
		t.Run(string(kind), func(t *testing.T) { refusesRepair(t, kind, most) })
	}
}

func refusesRepair(t *testing.T, kind vfs.OpKind, most seq.Epoch) {
	synctest.Test(t, func(t *testing.T) {
		l := segmented(t)
		all := l.fill("t", 8)
		ids := []meta.NodeID{"n1", "n2", "n3"}
		for _, id := range ids {
			l.settleLog(id, "t")
		}
		l.murder(ids...)
		var full atomic.Bool
		full.Store(true)
		was := l.opts
		l.opts = func(o *Options) {
			was(o)
			faulty := vfstest.NewFaulty(o.FS)
			faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
				if full.Load() && op.Kind == kind && (strings.HasSuffix(op.Name, ".log"+vfs.TempSuffix) || strings.HasSuffix(op.Name, ".log")) {
					return vfstest.Fault{Err: syscall.ENOSPC}
				}
				return vfstest.Fault{}
			})
			o.FS = faulty
		}
		lost := map[meta.NodeID]int{"n1": 1, "n2": 3, "n3": 5}
		for _, id := range ids {
			l.spoil(id, "t", 0, all[lost[id]][:50])
			l.start(id)
		}
		before := meta.Partition{}
		time.Sleep(9 * time.Second) // until the disks are read
		l.eventually("one to lead alone", func() bool {
			l.control()
			before = l.store.Topic("t").Partitions[0]
			return before.Leader != "" && len(before.ISR) == 1
		})
		at := lost[before.Leader]
		l.takes("t", slices.Delete(slices.Clone(all), at, at+1), 2*time.Minute)
		time.Sleep(30 * time.Minute)
		if p := l.store.Topic("t").Partitions[0]; p.Epoch > before.Epoch+most || p.Leader != before.Leader {
			t.Errorf("led by %q in epoch %d, before by %q in %d", p.Leader, p.Epoch, before.Leader, before.Epoch)
		}
		full.Store(false)
		time.Sleep(15 * time.Minute)
		l.recovers("t", all)
	})
}

// No copy holds a certain message, and consumers skip it. An hour later another message is damaged,
// which other copies hold.
func TestLaterDamageIsRepairedIfFirstIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := segmented(t)
		all := l.fill("t", 8)
		l.loseEverywhere("t", all[2])
		l.takes("t", all[:2], 2*time.Minute)
		time.Sleep(time.Hour)
		l.control()
		l.spoil(l.store.Topic("t").Partitions[0].Leader, "t", 0, all[6][:50])
		l.takes("t", slices.Delete(slices.Clone(all), 2, 3), 2*time.Minute)
		l.eventually("the health to say what is lost", func() bool {
			l.control()
			leader := l.at(l.store.Topic("t").Partitions[0].Leader)
			return leader != nil && reasonCount(leader.Node.Health(), "log_corrupt") == 1
		})
	})
}

// The only copy in sync is an older state of its disk, and was written on: the others hold another
// message at the same offset, committed as well. When that place is damaged, the other copies hold a
// different message, not the lost one.
func TestRewrittenLogIsNotRepairedWithOldData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := segmented(t)
		cfg := meta.TopicConfig{Replicas: 3, MinISR: 1}.WithDefaults(3, false)
		if _, err := l.store.Propose(t.Context(), meta.CreateTopic{Name: "u", Config: cfg, Assignment: [][]meta.NodeID{{"n1", "n2", "n3"}}}); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			l.mustPut("u", 0, fmt.Sprint("message ", i))
		}
		l.inSync("u", 0, 3)
		l.settleLog("n1", "u")
		older := l.hosts["n1"].disk.CrashClone(vfs.Crash{KeepPercent: 100})
		before, after := strings.Repeat("before", 20), strings.Repeat("behind", 20)
		l.mustPut("u", 0, before)
		l.inSync("u", 0, 3)
		for id := range l.hosts {
			l.eventually("all to be committed at "+string(id), func() bool {
				return int(l.at(id).Host.Lookup("u").Held(0).Replica.Log().CommittedEnd()) == 6
			})
		}
		l.alone("u", "n1")
		l.hosts["n1"].disk = older
		l.start("n1")
		l.eventually("a message at the same offset", func() bool { return l.put("u", 0, after) == nil })
		l.settleLog("n1", "u")
		l.murder("n1")
		l.spoil("n1", "u", 0, after)
		for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
			l.start(id)
		}
		time.Sleep(3 * time.Minute)
		l.control()
		if leader := l.store.Topic("u").Partitions[0].Leader; leader != "n1" {
			t.Fatalf("%q leads", leader)
		}
		log := l.at("n1").Host.Lookup("u").Held(0).Replica.Log()
		if b, err := commitlog.Decode(repair.InLog(log).Batch(5)); err == nil {
			t.Errorf("at offset 5 is %q", b.Raw())
		}
	})
}
