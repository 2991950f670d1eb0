package host

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// adopting is a led partition that metadata is applied to.
type adopting struct {
	h        *Topic
	hp       *Held
	disk     *vfstest.Faulty // of the channels' positions
	s        *meta.State
	defaults policy.Policy // the cluster's
}

// newAdopting returns a partition that has the given number of channels: c0, c1, ...
func newAdopting(t testing.TB, channels int) *adopting {
	t.Helper()
	_, h, hp := newRepair(t)
	disk := vfstest.NewFaulty(h.fs)
	part, err := topic.Open(topic.Options{
		FS: disk, Dir: "p", Log: hp.Replica.Log(), Observer: deafObserver{},
		Arm: func(*topic.Channel) {}, PositionsDamaged: func(error, bool) {}, Damaged: func(*commitlog.CorruptionError) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &adopting{h: h, hp: hp, disk: disk, s: &meta.State{}}
	lp := &Led{Part: part, Replica: hp.Replica}
	hp.Led.Store(lp)
	h.held.Store(&[]*Held{})
	h.leading.Store(&[]*Led{lp})
	change(t, a.s, meta.NodeStarted{Node: meta.Node{ID: "n1"}})
	change(t, a.s, meta.CreateTopic{Name: "t", Config: meta.TopicConfig{}.WithDefaults(1, false), Assignment: [][]meta.NodeID{{"n1"}}})
	for i := range channels {
		change(t, a.s, meta.CreateChannel{Topic: "t", Channel: fmt.Sprint("c", i)})
	}
	a.adopt(t)
	return a
}

// attempts sets how often the topic's channels deliver a message.
func (a *adopting) attempts(t testing.TB, n int) {
	t.Helper()
	was := a.s.Topic("t").Config
	will := was
	will.Channels.MaxAttempts = n
	change(t, a.s, meta.AlterTopic{Name: "t", Was: was, Will: will})
}

// adopt applies the current metadata.
func (a *adopting) adopt(t testing.TB) {
	t.Helper()
	now := a.s.Topic("t")
	a.h.config.Store(now)
	if err := a.hp.match(a.h, now, a.defaults); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkAdopt changes one of 200 channels.
func BenchmarkAdopt(b *testing.B) {
	a := newAdopting(b, 200)
	for paused := true; b.Loop(); paused = !paused {
		b.StopTimer()
		change(b, a.s, meta.AlterChannel{Topic: "t", Channel: "c7", Paused: &paused})
		b.StartTimer()
		a.adopt(b)
	}
}

// TestUnchangedChannelsCostNothing counts allocations: each configuration of a channel makes some.
func TestUnchangedChannelsCostNothing(t *testing.T) {
	a := newAdopting(t, 200)
	paused := true
	change(t, a.s, meta.AlterChannel{Topic: "t", Channel: "c7", Paused: &paused})
	if n := testing.AllocsPerRun(1, func() { a.adopt(t) }); n > 20 {
		t.Errorf("%v allocations for one changed channel of 200", n)
	}
	if c := a.hp.Led.Load().Part.Channel("c7"); !c.Stats().Paused {
		t.Error("the changed channel is not configured")
	}
}

// TestInheritedPolicyReachesUnchangedChannels changes the topic's policy, and then the cluster's.
func TestInheritedPolicyReachesUnchangedChannels(t *testing.T) {
	a := newAdopting(t, 2)
	check := func(attempts, rate int) {
		t.Helper()
		a.adopt(t)
		for _, c := range a.hp.Led.Load().Part.Channels() {
			if p := topic.RetriesOf(c).Policy(); p.MaxAttempts != attempts || p.Rate != rate {
				t.Errorf("channel %s: %+v", c.Name(), p)
			}
		}
	}
	check(0, 0)
	a.attempts(t, 3)
	check(3, 0)
	a.defaults.Rate = 50
	check(3, 50)
}

// TestHalfAppliedChangeIsAppliedAgain has the metadata return to what it was before a change that could be applied to
// one channel only: the disk was full.
func TestHalfAppliedChangeIsAppliedAgain(t *testing.T) {
	a := newAdopting(t, 1)
	a.attempts(t, 3)
	change(t, a.s, meta.CreateChannel{Topic: "t", Channel: "unstored"})
	a.disk.Decide(func(int64, vfs.Op) vfstest.Fault { return vfstest.Fault{Err: syscall.ENOSPC} })
	now := a.s.Topic("t")
	if err := a.hp.match(a.h, now, a.defaults); err == nil {
		t.Fatal("a channel's start is stored on a full disk")
	}
	a.disk.Decide(nil)
	a.attempts(t, 0)
	a.adopt(t)
	if p := topic.RetriesOf(a.hp.Led.Load().Part.Channel("c0")).Policy(); p.MaxAttempts != 0 {
		t.Errorf("an earlier policy stays: %+v", p)
	}
}
