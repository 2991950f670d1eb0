package broker

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
)

// rotting starts three brokers with a topic of several segments, all in sync.
func rotting(t *testing.T, opts func(*Options)) *lan {
	t.Helper()
	l := newLan(t, func(o *Options) {
		soon(o)
		o.Log = commitlog.Options{SegmentBytes: 4 << 10, FillBytes: -1, Buffers: o.Log.Buffers}
		if opts != nil {
			opts(o)
		}
	}, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	for i := range 8 {
		l.mustPut("t", 0, strings.Repeat(fmt.Sprint(i), 2000))
	}
	l.inSync("t", 0, 3)
	return l
}

// whole waits until all replicas are in sync and the disks of all nodes hold the
// same, entirely readable data.
func (l *lan) whole(within time.Duration) {
	l.t.Helper()
	state := ""
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		p := &l.store.Topic("t").Partitions[0]
		if state = fmt.Sprintf("leader %q, in sync %v", p.Leader, p.ISR); len(p.ISR) < 3 || p.Leader == "" {
			continue
		}
		sums := map[string]bool{}
		for id := range l.hosts {
			hp := l.at(id).Host.Lookup("t").Held(0)
			if hp == nil {
				sums[string(id)] = true // it is being set aside
				continue
			}
			log := hp.Replica.Log()
			c := commitlog.NewChecker(log, log.Start())
			sum, err := c.Digest(l.t.Context(), log.End())
			c.Close()
			if state += fmt.Sprintf(", %s: [%d,%d) %.8s %v", id, log.Start(), log.End(), sum, err); err == nil {
				sums[sum] = true
			} else {
				sums[string(id)] = true
			}
		}
		if len(sums) == 1 {
			return
		}
	}
	l.t.Fatalf("not repaired within %v: %s", within, state)
}

// A leader with a damaged log cannot serve a returning follower. It finds the
// damage when it reads for the follower, and transfers its leadership to an intact
// replica.
func TestCorruptLeaderKeepsNoReplicaOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, func(o *Options) {
			soon(o)
			o.Log.TailBytes, o.Log.FillBytes, o.Log.SegmentBytes = -1, -1, 4<<10
		}, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		l.mustPut("t", 0, "first")
		l.inSync("t", 0, 3)
		l.kill("n3")
		l.inSync("t", 0, 2)
		for i := range 8 {
			l.mustPut("t", 0, strings.Repeat(fmt.Sprint(i), 2000))
		}
		l.spoil("n1", "t", 0, "2222")
		l.start("n3")
		l.whole(30 * time.Second)
		if n := l.at("n1").Host.Topics.LogStats().Damaged; n != 1 {
			t.Errorf("%d damaged ranges were counted", n)
		}
	})
}

// harms are possible damages of a replica's files while the broker runs with all
// messages in memory.
var harms = map[string]func(l *lan, id meta.NodeID){
	"damage": func(l *lan, id meta.NodeID) { l.spoil(id, "t", 0, "2222") },
	"the segment that is written is gone": func(l *lan, id meta.NodeID) {
		l.remove(id, func(names []string) string { return names[len(names)-1] })
	},
	"an older segment is gone": func(l *lan, id meta.NodeID) { l.remove(id, func(names []string) string { return names[0] }) },
}

// remove removes the segment of partition 0 that is chosen from a node's disk.
func (l *lan) remove(id meta.NodeID, choose func([]string) string) {
	l.t.Helper()
	dir := datadir.At(nil, "data").Replica(l.store.Topic("t"), 0)
	all, err := l.hosts[id].disk.ReadDir(dir)
	if err != nil {
		l.t.Fatal(err)
	}
	var logs []string
	for _, name := range all {
		if strings.HasSuffix(name, ".log") {
			logs = append(logs, name)
		}
	}
	if err := l.hosts[id].disk.Remove(filepath.Join(dir, choose(logs))); err != nil {
		l.t.Fatal(err)
	}
}

// A comparison of the replicas reads the disks, reports damage, and starts its
// repair: at the leader and at a follower.
func TestVerifyFindsDamageAndStartsRepair(t *testing.T) {
	for name, harm := range harms {
		for _, id := range []meta.NodeID{"n1", "n2"} {
			t.Run(name+" at "+string(id), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := rotting(t, nil)
					harm(l, id)
					found, err := l.at("n3").Contents.Digest(t.Context(), "t")
					if err != nil || len(found) != 1 || found[0].Unreadable[string(id)] == "" || len(found[0].Digests) != 2 {
						t.Fatalf("found %+v, %v", found, err)
					}
					if h := l.at(id).Node.Health(); !h.Degraded {
						t.Errorf("the health of %s says nothing: %+v", id, h)
					}
					l.whole(30 * time.Second)
					found, err = l.at("n3").Contents.Digest(t.Context(), "t")
					if err != nil || len(found[0].Unreadable) > 0 || len(found[0].Digests) != 3 {
						t.Errorf("after the repair: %+v, %v", found, err)
					}
					if n := l.at(id).Host.Topics.LogStats(); n.Damaged == 0 || n.Unreadable != 0 {
						t.Errorf("%d damaged ranges were counted, %d are left", n.Damaged, n.Unreadable)
					}
				})
			})
		}
	}
}

// Damage is found even if no consumer reads there: the scrubber reads
// everything once in an interval.
func TestScrubberFindsDamageBeforeItIsNeeded(t *testing.T) {
	for name, harm := range harms {
		for _, id := range []meta.NodeID{"n1", "n2"} {
			t.Run(name+" at "+string(id), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := rotting(t, func(o *Options) { o.ScrubInterval = time.Hour })
					time.Sleep(time.Hour + time.Minute)
					if s := l.at(id).Host.Scrubber.Stats(); s.Bytes == 0 || s.Oldest > time.Hour+time.Minute {
						t.Errorf("scrubbed before: %+v", s)
					}
					harm(l, id)
					time.Sleep(time.Hour + time.Minute)
					if n := l.at(id).Host.Topics.LogStats().Damaged; n == 0 {
						t.Error("nothing was found in an interval")
					}
					l.whole(time.Minute)
				})
			})
		}
	}
}

// Nearly empty replicas take one step each: a node with many of them also reads all
// of them in an interval.
func TestScrubberReadsManySmallReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, func(o *Options) { o.ScrubInterval = time.Hour }, "n1")
		for i := range 30 {
			name := fmt.Sprint("t", i)
			l.create(name, "n1")
			l.mustPut(name, 0, "little")
		}
		time.Sleep(3 * time.Hour)
		if s := l.at("n1").Host.Scrubber.Stats(); s.Oldest > time.Hour+5*time.Minute {
			t.Errorf("a replica was not read for %v", s.Oldest)
		}
	})
}

// A restarted node continues its check, and forgets replicas that it no longer
// holds.
func TestScrubberContinuesAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rotting(t, func(o *Options) { o.ScrubInterval = time.Hour })
		time.Sleep(90 * time.Minute)
		noted := func() [2]float64 {
			hp := l.at("n2").Host.Lookup("t").Held(0)
			at, part := l.at("n2").Host.Scrubber.Checked(hp.Name(), hp.Replica.Log())
			return [2]float64{float64(at), part}
		}
		before := noted()
		if before[0] == 0 {
			t.Fatalf("noted %v", before)
		}
		l.stop("n2")
		l.start("n2")
		time.Sleep(time.Second)
		if after := noted(); after != before {
			t.Errorf("before %v, after %v", before, after)
		}
	})
}

// smallSegments is three nodes with a topic of eight messages, in segments of a few each.
func smallSegments(t *testing.T) *lan {
	l := newLan(t, func(o *Options) {
		soon(o)
		o.Log.TailBytes, o.Log.FillBytes, o.Log.SegmentBytes = -1, -1, 4<<10
	}, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	for i := range 8 {
		l.mustPut("t", 0, strings.Repeat(fmt.Sprint(i), 2000))
	}
	l.inSync("t", 0, 3)
	return l
}

// The leader's newest messages are damaged when it has to compare logs with all
// its followers: none of them can be compared, and each holds the leader's lost
// messages.
func TestCorruptionBeforeComparisonEndsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := smallSegments(t)
		l.spoil("n1", "t", 0, "7777")
		l.crash("n2")
		l.crash("n3")
		l.start("n2")
		l.start("n3")
		l.eventually("the leader to be deposed", func() bool { return l.store.Topic("t").Partitions[0].Leader == "" })
		if isr := l.store.Topic("t").Partitions[0].ISR; len(isr) != 3 {
			t.Fatalf("in sync are %v: those who could not be compared were taken out", isr)
		}
		l.elect("t", 0, "n2") // as the controller does
		l.whole(30 * time.Second)
	})
}

// The leader finds damage and transfers its leadership to a replica whose log was opened from
// disk, the only other one in sync. That one must not append, nor remove a replica, before it
// was compared with the damaged one, which answers no request: the damaged one has to be known
// as suspect.
func TestDamagedLeaderIsReportedDuringTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := smallSegments(t)
		l.kill("n3")
		l.inSync("t", 0, 2)
		l.stop("n2")
		l.inSync("t", 0, 1)
		l.start("n2")
		l.inSync("t", 0, 2)
		l.mustPut("t", 0, "n2 is back")
		l.spoil("n1", "t", 0, "2222")
		if _, err := l.at("n1").Contents.Digest(t.Context(), "t"); err != nil { // which finds it
			t.Fatal(err)
		}
		l.eventually("n2 to lead", func() bool { return l.store.Topic("t").Partitions[0].Leader == "n2" })
		l.wholeAt("n1", "t", 9)
		l.inSync("t", 0, 2)
		l.mustPut("t", 0, "after")
		l.start("n3")
		l.whole(30 * time.Second)
	})
}

// An operator who looks at a log that is damaged on its leader alone is asked to try again: the damage is recorded, and
// another replica leads.
func TestRotThatAnOperatorMeetsIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rotting(t, func(o *Options) { o.Log.TailBytes = -1 })
		leader := l.leader("t", 0)
		l.spoil(leader.Node.Self, "t", 0, "2222")
		if _, err := leader.Node.PeekHere(t.Context(), operate.Peek{Topic: "t", Partition: 0, Max: 8}); !errors.Is(err, failure.Unreadable) {
			t.Fatalf("peek: %v", err)
		}
		if n := leader.Host.Topics.LogStats().Damaged; n != 1 {
			t.Errorf("%d damaged ranges were recorded", n)
		}
		l.eventually("another leader", func() bool {
			now := l.store.Topic("t").Partitions[0].Leader
			return now != "" && now != leader.Node.Self
		})
		if seen, err := leader.Contents.Peek(t.Context(), operate.Peek{Topic: "t", Partition: 0, Max: 8}); err != nil || len(seen) != 8 {
			t.Errorf("%d messages are seen: %v", len(seen), err)
		}
	})
}
