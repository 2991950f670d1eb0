package topic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

var t0 = time.Unix(1_700_000_000, 0)

// bench is a partition on a disk in memory, whose log commits at once.
type bench struct {
	alone
	t     *testing.T
	fs    vfs.FS
	epoch seq.Epoch
	o     commitlog.Options // of the log; its segments are small
	log   *commitlog.Log
	w     *commitlog.Writer
	p     *Partition
	lazy  bool // appends are not synced
	armed []*Channel
	lost  []*commitlog.CorruptionError
	now   time.Time
	step  time.Duration // of the wall clock
	ages  *age.Clock
	told  *InFlight
	gone  func(node string) bool
}

func newBench(t *testing.T) *bench { return newBenchOn(t, vfs.NewMem()) }

// newBenchOn returns a bench on a disk.
func newBenchOn(t *testing.T, disk vfs.FS) *bench {
	b := &bench{t: t, fs: disk, now: t0}
	if err := b.fs.MkdirAll("p"); err != nil {
		t.Fatal(err)
	}
	b.open()
	t.Cleanup(func() { b.log.Close() })
	return b
}

func (b *bench) open() {
	b.t.Helper()
	b.o.SegmentBytes = 1 << 16
	var err error
	if b.log, _, err = commitlog.Open(b.fs, "p", b.o); err != nil {
		b.t.Fatal(err)
	}
	b.epoch++
	if b.w, err = b.log.Writer(b.epoch); err != nil {
		b.t.Fatal(err)
	}
	b.log.Commit(b.log.End())
	b.openPartition()
}

// openPartition opens the partition over the open log.
func (b *bench) openPartition() {
	b.t.Helper()
	b.ages = age.NewClock(b.wall)
	var err error
	b.p, err = Open(Options{
		Ages: b.ages, Now: func() time.Time { return b.now },
		Index: 3, FS: b.fs, Dir: "p", Log: b.log, InFlight: b.told, Gone: b.gone,
		Arm:     func(c *Channel) { b.armed = append(b.armed, c) },
		Damaged: func(err *commitlog.CorruptionError) { b.lost = append(b.lost, err) },

		Observer:         deaf{},
		PositionsDamaged: func(err error, _ bool) { b.t.Errorf("positions are damaged: %v", err) },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.p.Serve(b)
}

// wall is what the node's wall clock shows at now.
func (b *bench) wall(now time.Time) int64 { return now.Add(b.step).UnixNano() }

// alone is a Sharer without followers.
type alone struct{}

func (alone) Epoch() seq.Epoch                          { return 1 }
func (alone) Shared() bool                              { return false }
func (alone) SharePositions(_ []byte, done func(error)) { done(nil) }
func (alone) FoldShares(uint64, []byte)                 {}
func (alone) ShareUpdate(_ []byte, done func(error)) func([]byte) {
	done(nil)
	return func([]byte) {}
}
func (alone) ShareAdvance(_ []byte, done func(error)) { done(nil) }

// deaf is an Observer that ignores all calls.
type deaf struct{}

func (deaf) ObservePublish(time.Duration, error) {}
func (deaf) ObserveBatch(int)                    {}
func (deaf) ObserveDelivery(time.Duration)       {}
func (deaf) ObserveFinish(time.Duration, int)    {}

// restart closes the partition, as in a clean stop, and opens it again.
func (b *bench) restart() {
	b.t.Helper()
	if err := errors.Join(b.p.Close(errors.New("restart")), b.log.Close()); err != nil {
		b.t.Fatal(err)
	}
	b.open()
}

// Append implements Log: every entry is a batch of its own, committed at once.
func (b *bench) Append(e commitlog.Entry) error {
	builder, size := new(commitlog.Builder), e.Size()
	before := builder.End()
	if e.AppendTo(builder); builder.End() != before+size {
		b.t.Errorf("an entry of %d bytes has %d", size, builder.End()-before)
	}
	batch, err := b.w.Append(builder, b.wall(b.now))
	b.ages.Appended(ageOf(batch), b.now)
	if err == nil && !b.lazy {
		_, err = b.w.Sync()
	}
	if err != nil {
		return err
	}
	b.log.Commit(batch.End())
	b.p.Committed(batch)
	e.Complete(commitlog.Placed{Written: true, First: batch.First(), Position: batch.Position()}, nil)
	return nil
}

func (b *bench) publish(bodies ...string) {
	b.t.Helper()
	msgs := make([]Message, len(bodies))
	for i, s := range bodies {
		msgs[i] = Message{Body: []byte(s)}
	}
	b.publishAll(msgs)
}

func (b *bench) publishAll(msgs []Message) {
	b.t.Helper()
	calls := 0
	b.p.Publish(msgs, func(r Receipt) {
		calls++
		if r.Err != nil || r.Count != len(msgs) || r.Partition != 3 {
			b.t.Errorf("receipt %+v", r)
		}
	})
	if calls != 1 {
		b.t.Fatalf("done was called %d times", calls)
	}
}

func (b *bench) channel(name string, version uint64) *Channel {
	b.t.Helper()
	c, err := b.p.AddChannel(name, version, ChannelOptions{Ephemeral: strings.HasSuffix(name, "#ephemeral")})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// reader is a consumer that keeps its messages.
type reader struct {
	*Consumer
	t     *testing.T
	wakes int
	ended error
	got   map[string]seq.Offset
}

func (b *bench) join(c *Channel, change ...func(*ConsumerOptions)) *reader {
	b.t.Helper()
	r := &reader{t: b.t, got: map[string]seq.Offset{}}
	o := ConsumerOptions{
		Timeout: time.Minute, MaxTimeout: time.Hour,
		Wake: func() { r.wakes++ }, Ended: func(err error) { r.ended = err },
	}
	for _, f := range change {
		f(&o)
	}
	k, err := c.Join(o, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Consumer = k
	return r
}

// take takes up to n messages and returns their bodies.
func (r *reader) take(n int, now time.Time) string {
	r.t.Helper()
	var bodies []string
	for n > len(bodies) {
		k, err := r.Take(now, n-len(bodies), func(d *Delivery) error {
			bodies = append(bodies, string(d.Body))
			r.got[string(d.Body)] = d.ID.Offset()
			return nil
		})
		if err != nil {
			r.t.Fatal(err)
		}
		if k == 0 {
			break
		}
	}
	return strings.Join(bodies, " ")
}

func (r *reader) finish(bodies ...string) {
	r.t.Helper()
	for _, s := range bodies {
		if err := r.Finish(r.got[s]); err != nil {
			r.t.Fatalf("finish %q: %v", s, err)
		}
	}
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

func TestFirstChannelGetsBacklogLaterOnesStartAtEnd(t *testing.T) {
	b := newBench(t)
	b.publish("a", "b")
	first := b.join(b.channel("first", 1))
	second := b.join(b.channel("second", 2))
	b.publish("c")
	want(t, "first", first.take(9, t0), "a b c")
	want(t, "second", second.take(9, t0), "c")
}

func TestMessagesWaitForNextFirstChannel(t *testing.T) {
	b := newBench(t)
	r := b.join(b.channel("c", 1))
	b.publish("seen")
	r.finish(strings.Fields(r.take(9, t0))...)
	if err := b.p.RemoveChannel("c"); err != nil {
		t.Fatal(err)
	}
	if r.ended == nil {
		t.Error("the consumer of a removed channel was not told")
	}
	b.publish("kept")
	if n := b.p.Counts().Pending; n != 1 {
		t.Errorf("pending %d, want 1", n)
	}
	b.restart()
	want(t, "the next first channel", b.join(b.channel("c", 2)).take(9, t0), "kept")
}

func TestPositionsSurviveARestart(t *testing.T) {
	b := newBench(t)
	r := b.join(b.channel("c", 1))
	b.publish("a", "b", "c", "d", "e")
	r.take(4, t0)
	r.finish("b", "d")
	if err := r.Requeue(r.got["c"], t0, time.Hour); err != nil {
		t.Fatal(err)
	}
	b.restart()
	c := b.channel("c", 1)
	r = b.join(c)
	want(t, "after the restart", r.take(9, t0), "a e")
	for c.Tick(t0.Add(time.Hour)) {
		break
	}
	if got := r.take(9, t0.Add(time.Hour)); !strings.Contains(got, "c") {
		t.Errorf("the deferred message is lost: %q", got)
	}
}

func TestRecreatedChannelInheritsNoPosition(t *testing.T) {
	b := newBench(t)
	b.channel("other", 1)
	r := b.join(b.channel("c", 2))
	b.publish("a", "b")
	r.take(1, t0)
	r.finish("a")
	b.restart()
	b.channel("other", 1)
	c := b.channel("c", 5) // another incarnation of the name
	b.p.ChannelsComplete()
	b.publish("z")
	want(t, "the new channel", b.join(c).take(9, t0), "z")
}

func TestDeferredPublishIsDeliveredWhenDue(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	b.publishAll([]Message{{Body: []byte("late"), Delay: time.Hour}, {Body: []byte("now")}})
	if n := c.Stats(); n.Deferred != 1 || n.Depth != 1 {
		t.Errorf("counts %+v; want one deferred, one waiting", n)
	}
	r := b.join(c)
	want(t, "before", r.take(9, t0), "now")
	r.finish("now")
	b.restart()
	c = b.channel("c", 1)
	r = b.join(c)
	want(t, "after a restart", r.take(9, t0), "")
	woken := r.wakes
	if !c.Tick(t0) {
		t.Fatal("no tick is wanted while a message is deferred")
	}
	c.Tick(t0.Add(time.Hour))
	if r.wakes == woken {
		t.Error("the consumer was not woken when the message fell due")
	}
	want(t, "when due", r.take(9, t0.Add(time.Hour)), "late")
}

func TestInFlightMessagesOfClosedConsumerAreRedelivered(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	b.publish("a", "b")
	leaver, stayer := b.join(c), b.join(c)
	want(t, "leaver", leaver.take(9, t0), "a b")
	want(t, "stayer before", stayer.take(9, t0), "")
	if left := leaver.Leave(); left != 1 {
		t.Errorf("%d left, want 1", left)
	}
	if stayer.wakes == 0 {
		t.Error("the waiting consumer was not woken")
	}
	want(t, "stayer after", stayer.take(9, t0), "a b")
	if err := leaver.Finish(leaver.got["a"]); fate.Of(err) != fate.Refused {
		t.Errorf("a leaver's FIN: %v", err)
	}
}

func TestTimedOutMessageIsRedelivered(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	r := b.join(c)
	b.publish("a")
	r.take(1, t0)
	if !slices.Contains(b.armed, c) {
		t.Fatal("no tick was asked for")
	}
	c.Tick(t0.Add(time.Minute - time.Nanosecond))
	if r.InFlight() != 1 {
		t.Fatal("it timed out too early")
	}
	c.Tick(t0.Add(time.Minute))
	if r.InFlight() != 0 || r.Counts().TimedOut != 1 {
		t.Fatalf("counts %+v after the timeout", r.Counts())
	}
	want(t, "again", r.take(1, t0.Add(time.Minute)), "a")
}

func TestPausedTopicAcceptsAndDeliversNothing(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	r := b.join(c)
	b.publish("before")
	b.p.Configure(Settings{Paused: true})
	b.publish("during")
	want(t, "paused", r.take(9, t0), "before")
	if n := b.p.Counts().Pending; n != 1 {
		t.Errorf("pending %d, want 1", n)
	}
	b.p.Configure(Settings{Paused: false})
	want(t, "resumed", r.take(9, t0), "during")
}

func TestEmptyOfPausedTopicDropsUndelivered(t *testing.T) {
	b := newBench(t)
	r := b.join(b.channel("c", 1))
	b.publish("before")
	b.p.Configure(Settings{Paused: true})
	b.publish("during")
	if err := b.p.Empty(); err != nil {
		t.Fatal(err)
	}
	b.p.Configure(Settings{Paused: false})
	b.publish("after")
	want(t, "delivered", r.take(9, t0), "before after")
}

func TestPausedChannelAcceptsAnswers(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	r := b.join(c)
	b.publish("a", "b")
	r.take(1, t0)
	c.Configure(ChannelOptions{Paused: true})
	want(t, "paused", r.take(9, t0), "")
	r.finish("a")
	c.Configure(ChannelOptions{})
	want(t, "resumed", r.take(9, t0), "b")
}

func TestEmptiedChannelForgetsInFlight(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	r := b.join(c)
	b.publish("a", "b", "c")
	r.take(2, t0)
	if err := c.Seek(seq.MaxOffset); err != nil {
		t.Fatal(err)
	}
	if r.InFlight() != 0 {
		t.Errorf("%d in flight after empty", r.InFlight())
	}
	if err := r.Finish(r.got["a"]); !errors.Is(err, failure.NotInFlight) {
		t.Errorf("FIN after empty: %v", err)
	}
	b.publish("d")
	want(t, "after", r.take(9, t0), "d")
}

func TestSeekRedelivers(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	r := b.join(c)
	b.publish("a", "b")
	r.take(9, t0)
	r.finish("a", "b")
	if err := c.Seek(0); err != nil {
		t.Fatal(err)
	}
	want(t, "after the seek", r.take(9, t0), "a b")
}

func TestEmitErrorReturnsUnsentMessages(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	r := b.join(c)
	b.publish("a", "b", "c")
	broken, calls := errors.New("broken pipe"), 0
	n, err := r.Take(t0, 9, func(*Delivery) error {
		if calls++; calls == 2 {
			return broken
		}
		return nil
	})
	if n != 1 || !errors.Is(err, broken) {
		t.Fatalf("Take = %d, %v", n, err)
	}
	other := b.join(c)
	want(t, "the other", other.take(9, t0), "b c")
}

func TestSamplingFinishesSkippedMessages(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	r := b.join(c, func(o *ConsumerOptions) { o.SampleRate = 30 })
	for i := range 400 {
		b.publish(fmt.Sprint(i))
	}
	got := strings.Fields(r.take(400, t0))
	if len(got) < 60 || len(got) > 180 {
		t.Errorf("%d of 400 delivered at 30 %%", len(got))
	}
	r.finish(got...)
	if f := c.Floor(); f != 400 {
		t.Errorf("floor %d, want 400", f)
	}
}

func TestPeekChangesNothing(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	r := b.join(c)
	b.publish("a", "b", "c", "d")
	r.take(3, t0)
	r.finish("b")
	if err := r.Requeue(r.got["c"], t0, time.Hour); err != nil {
		t.Fatal(err)
	}
	seen, err := b.p.Peek(c, 0, 10, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range seen {
		got = append(got, fmt.Sprint(string(s.Message.Body), s.State, s.Attempts))
	}
	want(t, "peek", strings.Join(got, " "), fmt.Sprint("a", channel.InFlight, 1, " c", channel.Deferred, 1, " d", channel.Ready, 0))
	if all, err := b.p.Peek(nil, 1, 2, 1<<20); err != nil || len(all) != 2 || string(all[0].Message.Body) != "b" {
		t.Errorf("peek at the log: %v, %v", all, err)
	}
}

func TestRetentionKeepsUnfinishedMessages(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	r := b.join(c)
	big := strings.Repeat("x", 10_000)
	for range 40 {
		b.publish(big)
	}
	if err := b.p.Retain(commitlog.Retention{Now: t0}); err != nil {
		t.Fatal(err)
	}
	if b.log.Start() != 0 {
		t.Fatalf("log starts at %d although nothing is finished", b.log.Start())
	}
	for range 40 {
		if _, err := r.Take(t0, 1, func(d *Delivery) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for o := range seq.Offset(40) {
		if err := r.Finish(o); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.p.Retain(commitlog.Retention{Now: t0}); err != nil {
		t.Fatal(err)
	}
	if b.log.Start() == 0 {
		t.Error("finished segments were not dropped")
	}
}

func TestSizeLimitDropsOldestAndChannelsContinue(t *testing.T) {
	b := newBench(t)
	r := b.join(b.channel("c", 1))
	big := strings.Repeat("x", 10_000)
	for range 40 {
		b.publish(big)
	}
	b.publish("last")
	if err := b.p.Retain(commitlog.Retention{Now: t0, MaxBytes: 100_000}); err != nil {
		t.Fatal(err)
	}
	start := b.log.Start()
	if start == 0 {
		t.Fatal("nothing was dropped")
	}
	got := strings.Fields(r.take(99, t0))
	if len(got) != 41-int(start) || got[len(got)-1] != "last" {
		t.Errorf("%d messages delivered from offset %d on", len(got), start)
	}
}

func TestAbandonedChannelIsDeletedOnlyWithoutConsumers(t *testing.T) {
	b := newBench(t)
	c := b.channel("c#ephemeral", 0)
	r := b.join(c)
	if gone, err := b.p.RemoveAbandoned("c#ephemeral"); gone || err != nil {
		t.Fatalf("gone %v, %v with a consumer", gone, err)
	}
	r.Leave()
	if gone, err := b.p.RemoveAbandoned("c#ephemeral"); !gone || err != nil {
		t.Fatalf("gone %v, %v without a consumer", gone, err)
	}
	if _, err := c.Join(ConsumerOptions{}, 0); !errors.Is(err, failure.ChannelNotFound) {
		t.Errorf("joining a removed channel: %v", err)
	}
}

func TestCommitsWakeAsManyConsumersAsThereAreMessages(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	rs := []*reader{b.join(c), b.join(c), b.join(c)}
	for _, r := range rs {
		r.take(1, t0)
	}
	b.publish("a", "b")
	if got := fmt.Sprint(rs[0].wakes, rs[1].wakes, rs[2].wakes); got != "1 1 0" {
		t.Errorf("wakes %s, want 1 1 0", got)
	}
}
