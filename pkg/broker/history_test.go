package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
)

// movedLan starts three nodes that lead one partition of t each, with four messages in
// each, and channel c.
func movedLan(t *testing.T) *lan {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	l.spread("t", "n1", "n2", "n3")
	if err := l.at("n1").Directory.CreateChannel(t.Context(), "t", "c", false); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		for k := range 4 {
			l.mustPut("t", i, fmt.Sprintf("%d.%d", i, k))
		}
	}
	return l
}

func (l *lan) left() int64 {
	c := l.at("n2").Contents.ClusterStats(l.t.Context(), "t", "c", false)[0].Channels[0]
	return c.Depth + c.InFlight
}

// Operators can undo all their changes of a channel one by one, from any node.
func TestOperatorsChannelMovesAreUndone(t *testing.T) {
	l := movedLan(t)
	ctx := t.Context()
	// In partition 0, messages 0 and 2 are finished.
	c := l.subscribe("t", "c", 0)
	for _, d := range c.takeSome(3) {
		if string(d.Body) != "0.1" {
			if err := c.Finish(d.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.Close()
	two, zero := seq.Offset(2), 0
	steps := []struct {
		what string
		at   meta.NodeID
		do   func(b *Broker) error
		left int64
	}{
		{"seek of one partition", "n3", func(b *Broker) error {
			return b.Contents.SeekChannel(ctx, "t", "c", operate.SeekTo{Offset: &two, Partition: &zero})
		}, 10},
		{"empty", "n1", func(b *Broker) error { return b.Contents.EmptyChannel(ctx, "t", "c") }, 0},
		{"seek to the start", "n2", func(b *Broker) error { return b.Contents.SeekChannel(ctx, "t", "c", operate.SeekTo{Start: true}) }, 12},
		{"skip in one partition", "n2", func(b *Broker) error {
			return b.Contents.SeekChannel(ctx, "t", "c", operate.SeekTo{Offset: &two, Partition: &zero, Forward: true})
		}, 10},
	}
	want := []int64{10}
	for _, s := range steps {
		plan, err := l.at(s.at).Contents.PlanMove(ctx, "t", "c", &operate.SeekTo{Start: true})
		if err != nil || len(plan) != 3 {
			t.Fatal(plan, err)
		}
		if err := s.do(l.at(s.at)); err != nil || l.left() != s.left {
			t.Fatalf("%s: %d left, want %d, %v", s.what, l.left(), s.left, err)
		}
		want = append(want, s.left)
	}
	err := l.at("n1").Contents.SeekChannel(ctx, "t", "c", operate.SeekTo{Offset: new(seq.Offset), Partition: &zero, Forward: true})
	if fate.Of(err) != fate.Refused || !strings.Contains(err.Error(), "already past that offset") {
		t.Errorf("a skip back: %v", err)
	}
	for i := len(want) - 2; i >= 0; i-- {
		node := []meta.NodeID{"n1", "n2", "n3"}[i%3]
		u, err := l.at(node).Contents.UndoChannel(ctx, "t", "c")
		if err != nil || l.left() != want[i] {
			t.Errorf("undo of %s: %+v, %v: %d left, want %d", steps[i].what, u, err, l.left(), want[i])
		}
	}
	if _, err := l.at("n1").Contents.UndoChannel(ctx, "t", "c"); !errors.Is(err, failure.NothingToUndo) {
		t.Errorf("nothing is left: %v", err)
	}
	// Only message 2 of partition 0 is still finished.
	again := l.subscribe("t", "c", 0)
	if got := again.takeSome(2); string(got[0].Body) != "0.1" || string(got[1].Body) != "0.3" {
		t.Errorf("delivers %q and %q", got[0].Body, got[1].Body)
	}
}

func TestDeletedChannelIsRestoredAtItsPosition(t *testing.T) {
	l := movedLan(t)
	ctx := t.Context()
	c := l.subscribe("t", "c", 1)
	if err := c.Finish(c.takeSome(1)[0].ID); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := l.at("n2").Contents.RestoreChannel(ctx, "t", "c", true); !errors.Is(err, failure.ChannelThere) {
		t.Errorf("it is there: %v", err)
	}
	if err := l.at("n3").Contents.DeleteChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.at("n2").Contents.UndoChannel(ctx, "t", "c"); !errors.Is(err, failure.ChannelNotFound) {
		t.Errorf("it is deleted: %v", err)
	}
	l.mustPut("t", 2, "meanwhile")
	u, err := l.at("n2").Contents.RestoreChannel(ctx, "t", "c", false)
	if err != nil || u.Verb != operate.SavedDelete || l.left() != 12 {
		t.Errorf("%+v, %v: %d left, want 11 and the one meanwhile", u, err, l.left())
	}
	if _, err := l.at("n2").Contents.RestoreChannel(ctx, "t", "none", true); !errors.Is(err, failure.NothingToUndo) {
		t.Errorf("never there: %v", err)
	}
}

// Consumers that reconnect after a deletion create the channel again, with default settings.
func TestDeletedChannelReplacesTheOneThatConsumersCreated(t *testing.T) {
	l := movedLan(t)
	ctx := t.Context()
	b := l.at("n2")
	attempts, filter := 7, `key != "x"`
	if err := b.Directory.Change(ctx, "t", meta.AlterChannel{Topic: "t", Channel: "c", Policy: &policy.Patch{MaxAttempts: &attempts}, Filter: &filter, Paused: new(true)}); err != nil {
		t.Fatal(err)
	}
	if err := b.Contents.DeleteChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	if err := b.Directory.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	again := l.left()
	if _, err := b.Contents.RestoreChannel(ctx, "t", "c", false); !errors.Is(err, failure.ChannelAgain) || l.left() != again {
		t.Errorf("created again: %v, %d left", err, l.left())
	}
	if _, err := b.Contents.PlanMove(ctx, "t", "c", &operate.SeekTo{Deleted: true}); !errors.Is(err, failure.ChannelAgain) {
		t.Errorf("planned without replacing: %v", err)
	}
	moves, err := b.Contents.PlanMove(ctx, "t", "c", &operate.SeekTo{Deleted: true, Replace: true})
	after := again
	for _, m := range moves {
		after += m.Redelivered - m.Skipped
	}
	if err != nil || after != 12 || l.left() != again {
		t.Errorf("planned: %+v, %v: %d would be left, want 12, and %d are", moves, err, after, l.left())
	}
	if _, err := b.Contents.RestoreChannel(ctx, "t", "c", true); err != nil || l.left() != 12 {
		t.Errorf("%v: %d left, want 12", err, l.left())
	}
	if c := b.Directory.Topics()[0].Channels["c"]; c.Policy.MaxAttempts != attempts || c.Filter != filter || !c.Paused {
		t.Errorf("it has the settings %+v", c)
	}
	if _, err := b.Contents.UndoChannel(ctx, "t", "c"); err != nil || l.left() != again {
		t.Errorf("undone: %v, %d left, want %d", err, l.left(), again)
	}
	if _, err := b.Contents.RestoreChannel(ctx, "t", "c", true); !errors.Is(err, failure.ChannelThere) {
		t.Errorf("a second time: %v", err)
	}
}

// An operator sees who has which message for how long, and who left last, on any node.
func TestWhoHoldsAMessageAndWhoLeftIsKnownEverywhere(t *testing.T) {
	l := movedLan(t)
	c := l.subscribe("t", "c", 1)
	first := c.takeSome(2)[0]
	describe := func() stats.Channel {
		return l.at("n3").Contents.ClusterStats(t.Context(), "t", "c", true)[0].Channels[0]
	}
	now := describe()
	if len(now.Clients) == 0 || now.Clients[0].Oldest == nil || !now.LeftAt.IsZero() {
		t.Fatalf("%+v", now)
	}
	if held := now.Clients[0].Oldest; held.Partition != 1 || held.Seq != uint64(first.ID.Offset()) || time.Since(held.Since).Abs() > time.Minute {
		t.Errorf("%+v", held)
	}
	c.Close()
	if left := describe().LeftAt; time.Since(left).Abs() > time.Minute {
		t.Errorf("left at %v", left)
	}
}

// A message that was requeued for long is in the log as a copy for its channel alone. A restored channel
// had another version, so no channel matched the copy, and the message was lost.
func TestRestoredChannelHasLongRequeuedMessages(t *testing.T) {
	l := newLan(t, func(o *Options) { o.Moves.RequeueInMemory = time.Minute }, "n1", "n2", "n3")
	ctx := t.Context()
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	if err := l.at("n1").Directory.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	l.mustPut("t", 0, "later")
	c := l.subscribe("t", "c", 0)
	if err := c.Requeue(c.takeSome(1)[0].ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	deferred := func() int64 {
		if s := l.at("n2").Contents.ClusterStats(ctx, "t", "c", false); len(s) > 0 && len(s[0].Channels) > 0 {
			return s[0].Channels[0].Deferred
		}
		return 0
	}
	l.eventually("the message is copied", func() bool {
		return l.at("n1").Host.Lookup("t").Led(0).Part.Log().CommittedEnd() > 1 && deferred() == 1
	})
	c.Close()
	if err := l.at("n3").Contents.DeleteChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.at("n2").Contents.RestoreChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	again := l.subscribe("t", "c", 0)
	again.idle() // it is not due
	l.eventually("the message is known", func() bool { return deferred() == 1 })
	again.Close()

	// Also after another deletion.
	if err := l.at("n1").Contents.DeleteChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.at("n3").Contents.RestoreChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	last := l.subscribe("t", "c", 0)
	last.idle()
	l.eventually("the message is known again", func() bool { return deferred() == 1 })
	// A copy that the restored channel makes is for it.
	l.mustPut("t", 0, "later, too")
	if err := last.Requeue(last.takeSome(1)[0].ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	l.eventually("another message is copied", func() bool {
		return l.at("n1").Host.Lookup("t").Led(0).Part.Log().CommittedEnd() > 3 && deferred() == 2
	})
}

// A channel that consumers have created again takes the place of the deleted one, with the messages that
// are in the log for that one alone, and keeps its own.
func TestReplacingChannelHasLongRequeuedMessages(t *testing.T) {
	l := newLan(t, func(o *Options) { o.Moves.RequeueInMemory = time.Minute }, "n1", "n2", "n3")
	ctx := t.Context()
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	deferred := func() int64 {
		if s := l.at("n2").Contents.ClusterStats(ctx, "t", "c", false); len(s) > 0 && len(s[0].Channels) > 0 {
			return s[0].Channels[0].Deferred
		}
		return 0
	}
	requeue := func(body string, end seq.Offset) {
		if err := l.at("n1").Directory.CreateChannel(ctx, "t", "c", false); err != nil {
			t.Fatal(err)
		}
		l.mustPut("t", 0, body)
		c := l.subscribe("t", "c", 0)
		if err := c.Requeue(c.takeSome(1)[0].ID, time.Hour); err != nil {
			t.Fatal(err)
		}
		l.eventually("the message is copied", func() bool {
			return l.at("n1").Host.Lookup("t").Led(0).Part.Log().CommittedEnd() == end && deferred() == 1
		})
		c.Close()
	}
	requeue("of the deleted one", 2)
	if err := l.at("n3").Contents.DeleteChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	requeue("its own", 4)
	if _, err := l.at("n2").Contents.RestoreChannel(ctx, "t", "c", true); err != nil {
		t.Fatal(err)
	}
	c := l.subscribe("t", "c", 0)
	if got := c.take(1); got != "its own" { // moved back, the channel also gets the original again
		t.Errorf("got %q", got)
	}
	c.idle() // none is due
	c.Close()
	l.eventually("both copies are known", func() bool { return deferred() == 2 })

	// The second restore dropped what was for the channel of the first: one address was kept, the oldest.
	if err := l.at("n1").Contents.DeleteChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	requeue("of the third", 6)
	if _, err := l.at("n3").Contents.RestoreChannel(ctx, "t", "c", true); err != nil {
		t.Fatal(err)
	}
	c = l.subscribe("t", "c", 0)
	if got := c.take(1); got != "of the third" {
		t.Errorf("got %q", got)
	}
	c.idle()
	c.Close()
	l.eventually("all three copies are known", func() bool { return deferred() == 3 })
	if err := l.at("n1").Host.Lookup("t").Flush(ctx); err != nil {
		t.Fatal(err)
	}
	l.elect("t", 0, "n2") // which learns of them from the metadata and its log
	l.subscribe("t", "c", 0).idle()
	l.eventually("the next leader knows them", func() bool { return deferred() == 3 })
}

// What was published between the deletion of a channel and its restore counted as finished by it, if the channel had
// unfinished messages when it was deleted and did not get the backlog when it was created again.
func TestRestoredChannelHasWhatWasPublishedMeanwhile(t *testing.T) {
	for _, replace := range []bool{false, true} {
		l := newLan(t, nil, "n1")
		ctx, b := t.Context(), l.at("n1")
		l.create("t", "n1")
		for _, name := range []string{"other", "c"} {
			if err := b.Directory.CreateChannel(ctx, "t", name, false); err != nil {
				t.Fatal(err)
			}
		}
		l.mustPut("t", 0, "before")
		if err := b.Contents.DeleteChannel(ctx, "t", "c"); err != nil {
			t.Fatal(err)
		}
		l.mustPut("t", 0, "meanwhile")
		if replace {
			if err := b.Directory.CreateChannel(ctx, "t", "c", false); err != nil {
				t.Fatal(err)
			}
			l.mustPut("t", 0, "after")
		}
		if _, err := b.Contents.RestoreChannel(ctx, "t", "c", replace); err != nil {
			t.Fatal(err)
		}
		want := []string{"before", "meanwhile", "after"}
		if !replace {
			want = want[:2]
		}
		c := l.subscribe("t", "c", 0)
		for i, d := range c.takeSome(len(want)) {
			if string(d.Body) != want[i] {
				t.Errorf("replace %v: got %q, want %q", replace, d.Body, want[i])
			}
		}
		c.Close()
	}
}

// A restore that fails in part is repeated: it needs the position of the deleted channel again, also if that is the
// oldest one that was saved, and an undo returns to where the channel was before the first try.
func TestRestoreThatFailedInPartIsRepeated(t *testing.T) {
	l := newLan(t, nil, "n1")
	ctx, b := t.Context(), l.at("n1")
	l.create("t", "n1")
	channel := func(name string) {
		if err := b.Directory.CreateChannel(ctx, "t", name, false); err != nil {
			t.Fatal(err)
		}
	}
	channel("other")
	channel("c")
	l.mustPut("t", 0, "a")
	if err := b.Contents.DeleteChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	channel("c")
	l.mustPut("t", 0, "b")
	for i := range 9 {
		if err := b.Contents.SeekChannel(ctx, "t", "c", operate.SeekTo{End: i%2 == 1, Start: i%2 == 0}); err != nil {
			t.Fatal(err)
		}
	}
	history := func() []*meta.Saved { return meta.HistoryOf(l.store.View()).Of(l.store.Topic("t"), "c") }
	all := history()
	deleted, is := all[len(all)-1], l.store.Topic("t").Channels["c"]
	if deleted.Verb != operate.SavedDelete || len(all) != 10 {
		t.Fatalf("%d saved, the oldest: %+v", len(all), deleted)
	}
	// The first try has changed and saved, and not moved.
	for _, c := range []meta.Command{
		meta.AlterChannel{Topic: "t", Channel: "c", Restores: deleted.Version},
		meta.SavePositions{Saved: meta.Saved{
			At: time.Now().UnixNano(), Verb: "restore", Topic: "t", Incarnation: l.store.Topic("t").Incarnation, Channel: "c",
			Version: is.Version, Restores: deleted.Index, Partitions: []meta.SavedPartition{{Floor: 2, Target: 2}},
		}},
	} {
		if _, err := l.store.Propose(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	tried := history()
	if _, err := b.Contents.RestoreChannel(ctx, "t", "c", true); err != nil {
		t.Fatal(err)
	}
	if now := history(); len(now) != len(tried)-1 || now[0].Index != tried[0].Index {
		t.Errorf("%d saved, the last %+v; after the first try %d, the last %+v", len(now), now[0], len(tried), tried[0])
	}
	c := l.subscribe("t", "c", 0)
	if got := c.takeSome(1); string(got[0].Body) != "a" {
		t.Errorf("got %q", got[0].Body)
	}
	c.Close()
	u, err := b.Contents.UndoChannel(ctx, "t", "c")
	if err != nil || u.Verb != "restore" || u.Partitions[0].Confirmed != 2 {
		t.Errorf("undone: %+v, %v", u, err)
	}
}

// A consumer may create the channel between the restore's look at the metadata and its command. Moved to the
// position of the deleted channel, it would finish what is addressed to that one.
func TestRestoreRefusesAChannelThatIsCreatedMeanwhile(t *testing.T) {
	l := newLan(t, nil, "n1")
	ctx, b := t.Context(), l.at("n1")
	l.create("t", "n1")
	err := b.Directory.CreateChannel(ctx, "t", "c", false)
	if err == nil {
		err = b.Contents.DeleteChannel(ctx, "t", "c")
	}
	if err == nil {
		err = b.Directory.CreateChannel(ctx, "t", "c", false)
	}
	if err != nil {
		t.Fatal(err)
	}
	v := meta.HistoryOf(l.store.View()).Of(l.store.Topic("t"), "c")[0]
	if err := b.Directory.EnsureChannel(ctx, meta.CreateChannel{Topic: "t", Channel: "c", Version: v.Version}); !errors.Is(err, failure.ChannelAgain) {
		t.Errorf("restored over another channel: %v", err)
	}
}

// Saved positions are bounded: that of the current channel takes the place of the deleted one's.
func TestReplacingChannelUsesTheOldestSavedPosition(t *testing.T) {
	l := newLan(t, nil, "n1")
	ctx, b := t.Context(), l.at("n1")
	l.create("t", "n1")
	channel := func() {
		if err := b.Directory.CreateChannel(ctx, "t", "c", false); err != nil {
			t.Fatal(err)
		}
	}
	channel()
	l.mustPut("t", 0, "a")
	if err := b.Contents.DeleteChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	channel()
	l.mustPut("t", 0, "b")
	for i := range 9 {
		to := operate.SeekTo{End: i%2 == 0, Start: i%2 == 1}
		if err := b.Contents.SeekChannel(ctx, "t", "c", to); err != nil {
			t.Fatal(err)
		}
	}
	history := func() []*meta.Saved { return meta.HistoryOf(l.store.View()).Of(l.store.Topic("t"), "c") }
	before := history()
	deleted := before[len(before)-1]
	if _, err := b.Contents.RestoreChannel(ctx, "t", "c", true); err != nil {
		t.Fatal(err)
	}
	if last := history()[0]; deleted.Verb != operate.SavedDelete || last.Verb != "restore" || last.Restores != deleted.Index {
		t.Errorf("deleted at %+v, the restore saved %+v: a repetition would not find what to restore", deleted, last)
	}
	if got := l.subscribe("t", "c", 0).take(1); got != "a" { // the other one was skipped meanwhile
		t.Errorf("got %q", got)
	}
}

// A partition without a leader refuses the restore, and nothing is changed.
func TestRefusedReplacementChangesNothing(t *testing.T) {
	l := newLan(t, nil, "n1")
	ctx, b := t.Context(), l.at("n1")
	l.create("t", "n1")
	for i := range 2 {
		if err := b.Directory.CreateChannel(ctx, "t", "c", false); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := b.Contents.DeleteChannel(ctx, "t", "c"); err != nil {
				t.Fatal(err)
			}
		}
	}
	was := l.store.Topic("t").Channels["c"]
	resume := b.Host.Lookup("t").Suspend()
	_, err := b.Contents.RestoreChannel(ctx, "t", "c", true)
	resume()
	if is := l.store.Topic("t").Channels["c"]; fate.Of(err) != fate.Refused || is != was {
		t.Errorf("%v (%v), channel %+v", err, fate.Of(err), is)
	}
}

// A restored channel had the version of the deleted one: its positions were compared with those of that one
// on a replica that was down meanwhile, and it counted as placed on the replicas since long ago.
func TestRestoredChannelHasItsOwnPositions(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	ctx := t.Context()
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	if err := l.at("n1").Directory.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	l.mustPut("t", 0, "0", "1", "2", "3")
	c := l.subscribe("t", "c", 0)
	taken := c.takeSome(4)
	for _, i := range []int{0, 2} {
		if err := c.Finish(taken[i].ID); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	if err := l.at("n1").Host.Lookup("t").Flush(ctx); err != nil {
		t.Fatal(err)
	}
	l.stop("n3")
	l.inSync("t", 0, 2)
	if err := l.at("n1").Contents.SeekChannel(ctx, "t", "c", operate.SeekTo{Start: true}); err != nil {
		t.Fatal(err)
	}
	was := l.store.Topic("t").Channels["c"].Version
	if err := l.at("n1").Contents.DeleteChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	// The command alone: the restoring node has yet to return the channel to its position.
	r, err := l.store.Propose(ctx, meta.CreateChannel{Topic: "t", Channel: "c", Version: was})
	if err != nil {
		t.Fatal(err)
	}
	if r.Channel.Version <= was || !slices.Equal(r.Channel.Former, []meta.Incarnation{was}) {
		t.Errorf("restored as version %d of %d; deleted was %d", r.Channel.Version, r.Channel.Former, was)
	}
	if err := l.at("n2").Directory.CreateChannel(ctx, "t", "c", false); err != nil { // as a consumer that subscribes does
		t.Fatal(err)
	}
	if at := l.at("n2").Host.Lookup("t").ConvergedTo(); at < r.Index {
		t.Errorf("a consumer subscribed when the leaders had applied the metadata as of %d, before it was restored at %d", at, r.Index)
	}
	saved := meta.HistoryOf(l.store.View()).Of(l.store.Topic("t"), "c")
	if len(saved) != 2 || saved[0].Verb != operate.SavedDelete || saved[0].Version != was {
		t.Fatalf("saved: %+v", saved)
	}
	if _, err := l.at("n1").Contents.RestoreChannel(ctx, "t", "c", true); err != nil {
		t.Fatal(err)
	}
	l.start("n3")
	l.inSync("t", 0, 3)
	l.elect("t", 0, "n3")
	again := l.subscribe("t", "c", 0)
	for i, d := range again.takeSome(4) {
		if want := fmt.Sprint(i); string(d.Body) != want {
			t.Errorf("delivers %q, want %q: it was moved to the start", d.Body, want)
		}
	}
}
