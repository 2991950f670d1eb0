package topic

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/positions"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestOrderedFinishCountsOnceAllReplicasKnow(t *testing.T) {
	s := newSet(t)
	c := s.channel("c", 1, true)
	r := s.bench().join(c)
	s.publish("a", "b")
	s.line.deliverAll()
	want(t, "first", r.take(9, t0), "a")
	r.finish("a")
	if err := r.Finish(r.got["a"]); !errors.Is(err, failure.NotInFlight) {
		t.Errorf("a second FIN: %v", err)
	}
	if err := r.Requeue(r.got["a"], t0, 0); !errors.Is(err, failure.NotInFlight) {
		t.Errorf("REQ after FIN: %v", err)
	}
	if err := r.Touch(r.got["a"], t0); !errors.Is(err, failure.NotInFlight) {
		t.Errorf("TOUCH after FIN: %v", err)
	}
	want(t, "before it is shared", r.take(9, t0), "")
	c.Tick(t0.Add(time.Hour))
	s.line.deliver(1)
	want(t, "before everybody knows", r.take(9, t0.Add(time.Hour)), "")
	woken := r.wakes
	s.line.deliver(2)
	if r.wakes == woken {
		t.Error("the consumer was not woken when the message counted")
	}
	want(t, "next", r.take(9, t0), "b")
	if got := r.Counts().Finished; got != 1 || c.Floor() != 1 {
		t.Errorf("%d finished, floor %d", got, c.Floor())
	}
}

func TestReplicaContinuesAfterKnownOrderedFinish(t *testing.T) {
	for name, deliver := range map[string]int{"heard of it": 1, "has not": 0} {
		t.Run(name, func(t *testing.T) {
			s := newSet(t)
			r := s.bench().join(s.channel("c", 1, true))
			s.publish("a", "b")
			s.line.deliverAll()
			r.take(9, t0)
			r.finish("a")
			for range deliver {
				s.line.deliver(1)
			}
			s.line.end()
			want(t, "the old leader, after its term", r.take(9, t0), "")
			if err := r.Finish(r.got["a"]); !errors.Is(err, failure.NotLeased) || fate.Of(err) != fate.Refused {
				t.Errorf("FIN after the term: %v", err)
			}
			s.lead(1)
			s.line.deliverAll()
			if r.ended == nil {
				t.Error("the consumer was not told that the leader is another")
			}
			r = s.bench().join(s.channel("c", 1, true))
			if deliver > 0 {
				want(t, "delivered", r.take(9, t0), "b")
			} else {
				want(t, "delivered", r.take(9, t0), "a")
			}
		})
	}
}

// TestOrderedChannelWaitsUntilReplicasKnow: the previous leader
// reported to this node that a message is finished, and died. If this node
// continued from there and died too, the third node would go back.
func TestOrderedChannelWaitsUntilReplicasKnow(t *testing.T) {
	s := newSet(t)
	r := s.bench().join(s.channel("c", 1, true))
	s.publish("a", "b")
	s.line.deliverAll()
	r.take(9, t0)
	r.finish("a")
	s.line.deliver(1)
	s.lead(1)
	r = s.bench().join(s.channel("c", 1, true))
	plain := s.bench().join(s.channel("plain", 2, false))
	s.publish("c")
	want(t, "an unordered channel at once", plain.take(9, t0), "c")
	want(t, "before the others know", r.take(9, t0), "")
	woken := r.wakes
	s.line.deliverAll()
	if r.wakes == woken {
		t.Error("the consumer was not woken when the others knew")
	}
	want(t, "when they know", r.take(9, t0), "b")
	s.lead(2)
	s.line.deliverAll()
	want(t, "the third leader", s.bench().join(s.channel("c", 1, true)).take(9, t0), "b")
}

// TestSnapshotKeepsChangesSharedBefore: a checkpoint made while an
// ordered FIN is being shared must not move the other replicas back.
func TestSnapshotKeepsChangesSharedBefore(t *testing.T) {
	s := newSet(t)
	r := s.bench().join(s.channel("c", 1, true))
	s.publish("a", "b")
	s.line.deliverAll()
	r.take(9, t0)
	r.finish("a")
	if err := s.p.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	s.line.deliverAll()
	want(t, "next", r.take(9, t0), "b")
	s.lead(1)
	s.line.deliverAll()
	want(t, "the next leader", s.bench().join(s.channel("c", 1, true)).take(9, t0), "b")
}

func TestSeekWaitsForSharing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		c := s.channel("c", 1, true)
		r := s.bench().join(c)
		s.publish("a", "b", "c")
		s.line.deliverAll()
		for _, body := range []string{"a", "b"} {
			want(t, "before", r.take(1, t0), body)
			r.finish(body)
			if body == "a" {
				s.line.deliverAll()
			}
		}
		moved := make(chan error, 1)
		go func() { moved <- c.Seek(0) }()
		synctest.Wait()
		if len(moved) > 0 {
			t.Fatal("the channel was moved while a finish of its was being sent to the others")
		}
		c.Configure(ChannelOptions{}) // not ordered: nothing else holds the next one back
		want(t, "while an operator waits", r.take(1, t0), "")
		c.Configure(ChannelOptions{Order: policy.Strict})
		s.line.deliverAll()
		synctest.Wait()
		if err := <-moved; err != nil {
			t.Fatal(err)
		}
		s.line.deliverAll()
		want(t, "moved", r.take(1, t0), "a")
		s.lead(1)
		s.line.deliverAll()
		want(t, "moved at the next leader", s.bench().join(s.channel("c", 1, true)).take(1, t0), "a")
	})
}

func TestSeekTimesOutAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		c := s.channel("c", 1, true)
		r := s.bench().join(c)
		s.publish("a", "b")
		s.line.deliverAll()
		r.take(1, t0)
		r.finish("a")
		if err := c.Seek(0); !errors.Is(err, errNotQuiescent) || fate.Of(err) != fate.Refused {
			t.Fatal(err)
		}
		s.line.deliverAll()
		want(t, "as without the call", r.take(1, t0), "b")
	})
}

func TestFlushReturnsOnceAllReplicasHavePositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.channel("first", 1, false)
		s.publish("a", "b")
		s.channel("later", 2, false)
		flushed := make(chan error, 2)
		for range cap(flushed) {
			go func() { flushed <- s.p.Flush(t.Context()) }()
		}
		synctest.Wait()
		if n := s.line.snapshots(); n > 3 {
			t.Errorf("%d snapshots were shared for two channels", n)
		}
		for s.line.deliver(1) {
		}
		synctest.Wait()
		if len(flushed) > 0 {
			t.Fatal("flushed before everybody has it")
		}
		s.line.deliverAll()
		for range cap(flushed) {
			if err := <-flushed; err != nil {
				t.Error(err)
			}
		}
		s.publish("c")
		s.lead(2)
		s.channel("first", 1, false)
		want(t, "a channel that began late", s.bench().join(s.channel("later", 2, false)).take(9, t0), "c")
	})
}

func TestFlushReportsUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.channel("c", 1, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.p.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) || fate.Of(err) != fate.Uncertain {
			t.Errorf("in time: %v", err)
		}
		flushed := make(chan error, 1)
		go func() { flushed <- s.p.Flush(t.Context()) }()
		synctest.Wait()
		s.line.end()
		if err := <-flushed; !errors.Is(err, errEnded) || fate.Of(err) != fate.Uncertain {
			t.Errorf("when the term ends: %v", err)
		}
	})
}

func TestNothingIsSharedWithoutReplicas(t *testing.T) {
	s := newSet(t)
	s.line.deliverAll()
	s.line.alone = true
	before := len(s.line.parcels)
	r := s.bench().join(s.channel("c", 1, true))
	s.publish("a", "b")
	want(t, "first", r.take(1, t0), "a")
	r.finish("a")
	want(t, "next", r.take(1, t0), "b")
	if err := s.p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(s.line.parcels); n != before {
		t.Errorf("%d parcels were shared", n-before)
	}
	s.line.alone = false
	if err := s.p.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if n := len(s.line.parcels); n != before+1 {
		t.Errorf("%d parcels when there were others again, want a snapshot", n-before)
	}
	if err := s.p.Checkpoint(); err != nil || len(s.line.parcels) != before+1 {
		t.Errorf("shared again although nothing changed (%v)", err)
	}
}

func TestUnorderedPositionsAreSharedWithCheckpoint(t *testing.T) {
	s := newSet(t)
	r := s.bench().join(s.channel("c", 1, false))
	s.publish(strings.Fields("a b c d e")...)
	r.take(9, t0)
	r.finish("b", "d")
	if err := r.Requeue(r.got["e"], t0, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.p.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	r.finish("c")
	s.line.deliverAll()
	s.lead(1)
	c := s.channel("c", 1, false)
	r = s.bench().join(c)
	want(t, "what was not shared as finished", r.take(9, t0), "a c")
	r.finish("a", "c")
	c.Tick(t0.Add(time.Hour))
	want(t, "what was requeued", r.take(9, t0.Add(time.Hour)), "e")
}

func TestPublishersDelaysHoldAtNextLeader(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		s := newSet(t)
		s.channel("c", 1, ordered)
		s.publishLate("late", time.Hour)
		s.line.deliverAll()
		s.lead(1)
		s.line.deliverAll()
		c := s.channel("c", 1, ordered)
		r := s.bench().join(c)
		want(t, "before it is due", r.take(9, t0), "")
		if n := c.Stats().Deferred; n != 1 {
			t.Errorf("%d deferred", n)
		}
		c.Tick(t0.Add(time.Hour))
		want(t, "when due", r.take(9, t0.Add(time.Hour)), "late")
	}
}

func TestPausedAndDeletedStatesAreShared(t *testing.T) {
	s := newSet(t)
	s.channel("kept", 1, false)
	s.channel("deleted", 2, false)
	s.publish("before")
	s.p.Configure(Settings{Paused: true})
	s.publish("during")
	if err := s.p.RemoveChannel("deleted"); err != nil {
		t.Fatal(err)
	}
	if err := s.p.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	s.line.deliverAll()
	s.lead(2)
	s.p.Configure(Settings{Paused: true})
	r := s.bench().join(s.channel("kept", 1, false))
	want(t, "while the topic is paused", r.take(9, t0), "before")
	again := s.bench().join(s.channel("deleted", 9, false))
	s.p.Configure(Settings{Paused: false})
	want(t, "a recreated channel", again.take(9, t0), "")
}

func TestInheritedMessagesWakeWaitingConsumers(t *testing.T) {
	b := newBench(t)
	r := b.join(b.channel("c", 1))
	r.take(1, t0)
	b.p.Committed(commitlog.Batch{})
	if r.wakes != 1 {
		t.Errorf("%d wakes", r.wakes)
	}
}

// TestAnswerNeedsALease: without one a message is not finished, and a consumer
// that gets that error no longer holds it: it is delivered again as soon as
// there is a lease.
func TestAnswerNeedsALease(t *testing.T) {
	leased := true
	s := newSet(t)
	s.leased = func(time.Time) bool { return leased }
	s.lead(1)
	r := s.bench().join(s.channel("c", 1, false))
	s.publish("a", "b", "c")
	want(t, "with a lease", r.take(2, t0), "a b")
	leased = false
	want(t, "without a lease", r.take(1, t0), "")
	for name, err := range map[string]error{
		"touch":   r.Touch(r.got["a"], t0),
		"finish":  r.Finish(r.got["a"]),
		"requeue": r.Requeue(r.got["b"], t0, time.Minute),
	} {
		if !errors.Is(err, failure.NotLeased) {
			t.Errorf("%s without a lease: %v", name, err)
		}
	}
	if n := r.Counts().InFlight; n != 0 {
		t.Errorf("%d in flight", n)
	}
	want(t, "without a lease", r.take(1, t0), "")
	if r.Leased(t0) || s.p.Gate.Leased(t0) {
		t.Error("leased")
	}
	leased = true
	woken := r.wakes
	s.p.Gate.Wake()
	if r.wakes == woken {
		t.Error("no consumer was woken")
	}
	want(t, "with a lease again", r.take(3, t0), "a c b") // redelivered and new messages, alternately
	r.finish("a", "b", "c")
}

func TestQuiesceWaitsForInFlight(t *testing.T) {
	answers := map[string]func(*set, *reader){
		"finished":  func(_ *set, r *reader) { r.finish("a") },
		"requeued":  func(_ *set, r *reader) { _ = r.Requeue(r.got["a"], t0, time.Hour) },
		"timed out": func(s *set, _ *reader) { s.p.Channel("c").Tick(t0.Add(time.Hour)) },
		"left":      func(_ *set, r *reader) { r.Leave() },
		"emptied":   func(s *set, _ *reader) { _ = s.p.Channel("c").Seek(1 << 40) },
		"finished late": func(s *set, r *reader) {
			s.p.Channel("c").Configure(ChannelOptions{Order: policy.Strict})
			r.finish("a")
			s.line.deliverAll()
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				r := s.bench().join(s.channel("c", 1, false))
				s.publish("a", "b")
				r.take(1, t0)
				quiet := make(chan error, 2)
				for range cap(quiet) {
					go func() { quiet <- s.p.Gate.Quiesce(t.Context()) }()
				}
				synctest.Wait()
				want(t, "while it waits", r.take(1, t0), "")
				if len(quiet) > 0 {
					t.Fatal("quiet although a message is in flight")
				}
				answer(s, r)
				for range cap(quiet) {
					if err := <-quiet; err != nil {
						t.Fatal(err)
					}
				}
				want(t, "quiet", r.take(1, t0), "")
				woken := r.wakes
				s.p.Gate.Resume()
				if name != "left" && r.wakes == woken {
					t.Error("the end of it woke no consumer")
				}
			})
		})
	}
}

func TestQuiesceTimesOutAndStaysSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		r := s.bench().join(s.channel("c", 1, false))
		s.publish("a", "b")
		r.take(1, t0)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := s.p.Gate.Quiesce(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		want(t, "suspended", r.take(1, t0), "")
		s.p.Gate.Disconnect(errDeposed)
		if !errors.Is(r.ended, errDeposed) {
			t.Errorf("the consumer got %v", r.ended)
		}
		r.Leave()
		s.p.Gate.Resume()
		want(t, "what a consumer that was sent away had", s.bench().join(s.p.Channel("c")).take(9, t0), "a b")
	})
}

// TestClosedPartitionWritesNothing: a Standby owns its directory by then.
func TestClosedPartitionWritesNothing(t *testing.T) {
	s := newSet(t)
	c := s.channel("c", 1, false)
	r := s.bench().join(c)
	s.publish("a", "b")
	r.take(9, t0)
	old := s.p
	s.lead(1)
	r.finish2(t, "a")
	number := stored(t, s.nodes[0].fs, "p").Number
	if err := old.Checkpoint(); err != nil {
		t.Errorf("a late checkpoint: %v", err)
	}
	if err := old.Close(errDeposed); err != nil {
		t.Errorf("a second close: %v", err)
	}
	for name, err := range map[string]error{"flush": old.Flush(t.Context()), "seek": c.Seek(0)} {
		if fate.Of(err) != fate.Refused || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := old.AddChannel("new", 7, ChannelOptions{}); fate.Of(err) != fate.Refused || err == nil {
		t.Errorf("a new channel: %v", err)
	}
	if n := stored(t, s.nodes[0].fs, "p").Number; n != number {
		t.Errorf("snapshot %d is stored, want %d", n, number)
	}
}

// finish2 sends an answer that must be refused, because the partition is
// closed.
func (r *reader) finish2(t *testing.T, body string) {
	t.Helper()
	if err := r.Finish(r.got[body]); !errors.Is(err, failure.NotInFlight) {
		t.Errorf("FIN at a closed partition: %v", err)
	}
}

// known is the source of given positions.
type known positions.Snapshot

func (s known) Current() positions.Snapshot     { return positions.Snapshot(s) }
func (known) Changes() (positions.Update, bool) { return positions.Update{}, false }

// catcher is a Sharer that keeps the last snapshot.
type catcher struct {
	prompt
	data []byte
}

func (c *catcher) SharePositions(data []byte, done func(error)) {
	c.data = data
	done(nil)
}

// told returns a snapshot as the first leader shares it.
func told(t *testing.T, s positions.Snapshot) []byte {
	t.Helper()
	k, _, err := positions.OpenKeeper(positions.KeeperOptions{FS: vfs.NewMem(), Source: known(s), United: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	to := new(catcher)
	k.Serve(to)
	return to.data
}

// TestPositionsBeyondLogAreIgnored: other messages may take the offsets to
// which they refer.
func TestPositionsBeyondLogAreIgnored(t *testing.T) {
	s := newSet(t)
	s.channel("c", 1, false)
	s.publish("a")
	standby := s.nodes[1].standby
	if err := standby.Replace(told(t, positions.Snapshot{BacklogFrom: 50, Channels: []positions.Channel{
		{Name: "c", Version: 1, Position: position.Position{Floor: 40, Finished: []position.Range{{From: 45, End: 60}}}},
	}})); err != nil {
		t.Fatal(err)
	}
	if got := standby.Floor(); got != 40 {
		t.Errorf("floor %d: what the leader told is kept until the messages come", got)
	}
	s.lead(1)
	r := s.bench().join(s.channel("c", 1, false))
	s.publish("b", "c")
	want(t, "what took the offsets", r.take(9, t0), "b c")
}

// TestOrderedConsumerKeepsItsBatch: it is asked for more while its one
// message is in flight, and would read the whole batch again for the next.
func TestOrderedConsumerKeepsItsBatch(t *testing.T) {
	b := newBench(t)
	b.publish("a", "b")
	c, err := b.p.AddChannel("c", 1, ChannelOptions{Order: policy.Strict})
	if err != nil {
		t.Fatal(err)
	}
	r := b.join(c)
	for _, body := range []string{"a", "b"} {
		want(t, "taken", r.take(1, t0), body)
		want(t, "while it is in flight", r.take(1, t0), "")
		if r.at.Batch().Size() == 0 {
			t.Errorf("the batch is let go while %q is in flight", body)
		}
		r.finish(body)
	}
	want(t, "at the end", r.take(1, t0), "")
	if r.at.Batch().Size() != 0 {
		t.Error("the batch is kept although there is nothing to read")
	}
}
