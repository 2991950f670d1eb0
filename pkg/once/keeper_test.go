package once

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/dedup"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

var (
	errRefused = fate.Refuse("refused")
	errUnknown = errors.New("written and not confirmed")
)

// rig is a partition of one replica whose term is controlled by the test.
type rig struct {
	answering sync.Mutex // guards the answers of publish: timers deliver answers, too
	t         *testing.T
	fs        vfs.FS
	epoch     seq.Epoch
	log       *commitlog.Log
	w         *commitlog.Writer
	part      *topic.Partition
	k         *Keeper
	refuse    error // of appends
	hold      bool  // appends wait for settle
	held      []heldEntry
}

type heldEntry struct {
	entry commitlog.Entry
	batch commitlog.Batch
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, fs: vfs.NewMem()}
	if err := r.fs.MkdirAll("p"); err != nil {
		t.Fatal(err)
	}
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

func (r *rig) open() {
	r.t.Helper()
	var err error
	if r.log, _, err = commitlog.Open(r.fs, "p", commitlog.Options{SegmentBytes: 1 << 16}); err != nil {
		r.t.Fatal(err)
	}
	r.lead()
}

// lead begins another term on the same log.
func (r *rig) lead() {
	r.t.Helper()
	var err error
	r.epoch++
	if r.w, err = r.log.Writer(r.epoch); err != nil {
		r.t.Fatal(err)
	}
	ages := age.NewClock(nil)
	r.part, err = topic.Open(topic.Options{
		Index: 2, FS: r.fs, Dir: "p", Log: r.log, Ages: ages, Observer: deaf{},
		Arm: func(*topic.Channel) {}, PositionsDamaged: func(error, bool) {}, Damaged: func(*commitlog.CorruptionError) {},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.part.Serve(r)
	if r.k, err = open(Options{Partition: r.part, Index: 2, Window: time.Hour, Ages: ages}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) resign() {
	for len(r.held) > 0 {
		r.settle(errUnknown)
	}
	if err := r.part.Close(errors.New("over")); err != nil {
		r.t.Fatal(err)
	}
	r.k.Close()
}

func (r *rig) close() {
	r.resign()
	if err := r.log.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// Append implements topic.Log.
func (r *rig) Append(e commitlog.Entry) error {
	if r.refuse != nil {
		return r.refuse
	}
	builder := new(commitlog.Builder)
	e.AppendTo(builder)
	batch, err := r.w.Append(builder, time.Now().UnixNano())
	if err == nil {
		_, err = r.w.Sync()
	}
	if err != nil {
		return err
	}
	r.held = append(r.held, heldEntry{e, batch})
	if !r.hold {
		r.settle(nil)
	}
	return nil
}

// settle completes the first append that is held.
func (r *rig) settle(err error) {
	h := r.held[0]
	r.held = r.held[1:]
	if err == nil {
		r.commit(h.batch.End())
	}
	h.entry.Complete(commitlog.Placed{Written: true, First: h.batch.First(), Position: h.batch.Position()}, err)
}

func (r *rig) commit(end seq.Offset) {
	r.log.Commit(end)
	r.k.Committed()
}

func (r *rig) Epoch() seq.Epoch                        { return r.epoch }
func (*rig) Shared() bool                              { return false }
func (*rig) SharePositions(_ []byte, done func(error)) { done(nil) }
func (*rig) FoldShares(uint64, []byte)                 {}
func (*rig) ShareAdvance(_ []byte, done func(error))   { done(nil) }
func (*rig) ShareUpdate(_ []byte, done func(error)) func([]byte) {
	done(nil)
	return func([]byte) {}
}

type deaf struct{}

func (deaf) ObservePublish(time.Duration, error) {}
func (deaf) ObserveBatch(int)                    {}
func (deaf) ObserveDelivery(time.Duration)       {}
func (deaf) ObserveFinish(time.Duration, int)    {}

// publish publishes messages with these ids ("": no id). The returned slice holds the answer once
// there is one.
func (r *rig) publish(ids ...string) *[]topic.Receipt {
	r.t.Helper()
	var got []topic.Receipt
	msgs := make([]topic.Message, len(ids))
	for i, id := range ids {
		msgs[i].Body = []byte("body of " + id)
		if id != "" {
			msgs[i].Dedup = []byte(id)
		}
	}
	done := func(x topic.Receipt) {
		r.answering.Lock()
		defer r.answering.Unlock()
		got = append(got, x)
	}
	if err := r.k.Offer(topic.Offered{Messages: msgs, Done: done}); err != nil {
		got = append(got, topic.Receipt{Err: err})
	}
	return &got
}

// want checks an answer: the offsets of the messages, or an error.
func (r *rig) want(got *[]topic.Receipt, err error, offsets ...seq.Offset) {
	r.t.Helper()
	if len(*got) != 1 {
		r.t.Fatalf("%d answers", len(*got))
	}
	x := (*got)[0]
	if !errors.Is(x.Err, err) {
		r.t.Fatalf("error %v, want %v", x.Err, err)
	}
	if err != nil {
		return
	}
	var at []seq.Offset
	for i := range x.Count {
		at = append(at, x.ID(i).Offset())
	}
	if x.Partition != 2 || fmt.Sprint(at) != fmt.Sprint(offsets) {
		r.t.Fatalf("at %d/%v, want %v", x.Partition, at, offsets)
	}
}

// stored returns the ids in the log, in order.
func (r *rig) stored() []string {
	r.t.Helper()
	var ids []string
	reader := r.log.NewReader()
	defer reader.Release()
	for o := r.log.Start(); o < r.log.End(); {
		b, err := reader.Written(o)
		if err != nil {
			r.t.Fatal(err)
		}
		eachDedup(b, func(_ seq.Offset, id []byte) { ids = append(ids, string(id)) })
		o = b.End()
	}
	return ids
}

func TestDuplicateGetsAnswerOfTheFirst(t *testing.T) {
	r := newRig(t)
	r.want(r.publish("a"), nil, 0)
	r.want(r.publish("b", "", "c"), nil, 1, 2, 3)
	r.want(r.publish("a"), nil, 0)
	r.want(r.publish("c", "new", "a", "new", ""), nil, 3, 4, 0, 4, 5)
	r.want(r.publish("a", "b"), nil, 0, 1)
	if got := fmt.Sprint(r.stored()); got != "[a b c new]" {
		t.Errorf("stored %s", got)
	}
	if got := r.k.Counts(); got != (dedup.Counts{IDs: 4, Duplicates: 6}) {
		t.Errorf("counts %+v", got)
	}
}

func TestDuplicateWaitsForPublishInProgress(t *testing.T) {
	for _, err := range []error{nil, errUnknown} {
		r := newRig(t)
		r.hold = true
		first, second, mixed := r.publish("a"), r.publish("a"), r.publish("b", "a")
		if len(*first)+len(*second)+len(*mixed) > 0 || len(r.held) != 2 {
			t.Fatalf("%d are answered, %d are appended", len(*first)+len(*second)+len(*mixed), len(r.held))
		}
		r.settle(err)
		r.want(first, err, 0)
		r.want(second, err, 0)
		r.settle(nil)
		r.want(mixed, err, 1, 0)
	}
}

func TestDuplicateOfRefusedPublishFailsAlike(t *testing.T) {
	r := newRig(t)
	r.refuse = errRefused
	r.want(r.publish("a", "a"), errRefused)
	r.refuse = nil
	r.want(r.publish("a"), nil, 0)
}

func TestPartlyStoredPublishIsUncertain(t *testing.T) {
	r := newRig(t)
	r.hold = true
	first, mixed := r.publish("a"), r.publish("b", "a")
	unwritten := r.held[0]
	r.held = r.held[1:]
	unwritten.entry.Complete(commitlog.Placed{}, errRefused)
	r.want(first, errRefused)
	r.settle(nil)
	r.want(mixed, errRefused)
	if fate.Of((*first)[0].Err) != fate.Refused || fate.Of((*mixed)[0].Err) != fate.Uncertain {
		t.Errorf("%v is %v, %v is %v", (*first)[0].Err, fate.Of((*first)[0].Err), (*mixed)[0].Err, fate.Of((*mixed)[0].Err))
	}
}

// TestWrittenIDIsNotWrittenAgain: the first publish timed out, or belonged to an earlier leader.
func TestWrittenIDIsNotWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hold = true
		first := r.publish("a")
		r.settle(errUnknown)
		r.want(first, errUnknown)
		r.resign()
		r.lead()
		again := r.publish("a")
		if len(*again) > 0 || len(r.held) > 0 {
			t.Fatal("it is answered, or appended again")
		}
		r.commit(1)
		r.want(again, nil, 0)
		r.publish("b")
		r.settle(errUnknown)
		late := r.publish("b")
		time.Sleep(confirmTimeout)
		synctest.Wait()
		r.want(late, errUnconfirmed)
		closed := r.publish("b")
		r.k.Close()
		r.want(closed, errUnconfirmed)
	})
}

func TestWindowIsReadFromTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.want(r.publish("old"), nil, 0)
		time.Sleep(59 * time.Minute)
		r.want(r.publish("young"), nil, 1)
		r.want(r.publish("old"), nil, 0)
		time.Sleep(2 * time.Minute)
		r.close()
		r.open()
		r.want(r.publish("young"), nil, 1)
		r.want(r.publish("old"), nil, 2)
		r.want(r.publish("old"), nil, 2)
		time.Sleep(time.Hour)
		r.want(r.publish("old"), nil, 3)
	})
}

// TestEachIDIsInTheLogOnce repeats failed publishes while appends are refused, time out, and
// leaders change.
func TestEachIDIsInTheLogOnce(t *testing.T) {
	rnd := testrand.New(t)
	for range 40 {
		synctest.Test(t, func(t *testing.T) { repeatRandomly(t, rnd) })
	}
}

// attempt is a publish in progress.
type attempt struct {
	id     int
	answer *[]topic.Receipt
}

func repeatRandomly(t *testing.T, rnd *rand.Rand) {
	const producers, messages = 4, 30
	r := newRig(t)
	var next [producers]int
	var waits [producers]*attempt
	done := 0
	for done < producers {
		r.hold = rnd.IntN(2) == 0
		r.refuse = nil
		if rnd.IntN(8) == 0 {
			r.refuse = errRefused
		}
		switch rnd.IntN(12) {
		case 0:
			r.resign()
			r.lead()
		case 1:
			r.commit(r.log.End())
		case 2:
			time.Sleep(confirmTimeout)
			synctest.Wait()
		}
		for len(r.held) > 0 && rnd.IntN(3) > 0 {
			r.settle([]error{nil, nil, errUnknown}[rnd.IntN(3)])
		}
		p := rnd.IntN(producers)
		if w := waits[p]; w != nil {
			r.answering.Lock()
			answered := len(*w.answer) > 0
			r.answering.Unlock()
			if !answered {
				continue
			}
			if (*w.answer)[0].Err == nil {
				if next[p]++; next[p] == messages {
					done++
				}
			}
			waits[p] = nil
		}
		if next[p] < messages {
			// the same id in two concurrent publishes, as from a client that retries after its timeout
			id := fmt.Sprintf("%d/%02d", p, next[p])
			if rnd.IntN(4) == 0 {
				r.publish(id)
			}
			waits[p] = &attempt{next[p], r.publish(id)}
		}
	}
	last := [producers]int{-1, -1, -1, -1}
	count := 0
	for _, id := range r.stored() {
		var p, n int
		if _, err := fmt.Sscanf(id, "%d/%d", &p, &n); err != nil {
			t.Fatal(err)
		}
		if n != last[p]+1 {
			t.Fatalf("%s follows %d/%d", id, p, last[p])
		}
		last[p], count = n, count+1
	}
	if count != producers*messages {
		t.Fatalf("%d are stored, want %d", count, producers*messages)
	}
}

// BenchmarkOpen reads a million ids, like a new leader.
func BenchmarkOpen(b *testing.B) {
	const ids, batch = 1_000_000, 500
	fs := vfs.OS{}
	dir := b.TempDir()
	log, _, err := commitlog.Open(fs, dir, commitlog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	w, err := log.Writer(1)
	if err != nil {
		b.Fatal(err)
	}
	ages := age.NewClock(nil)
	part, err := topic.Open(topic.Options{
		FS: fs, Dir: dir, Log: log, Ages: ages, Observer: deaf{},
		Arm: func(*topic.Channel) {}, PositionsDamaged: func(error, bool) {}, Damaged: func(*commitlog.CorruptionError) {},
	})
	if err != nil {
		b.Fatal(err)
	}
	part.Serve(&appender{w: w})
	msgs := make([]topic.Message, batch)
	for n := 0; n < ids; n += batch {
		for i := range msgs {
			msgs[i] = topic.Message{Body: make([]byte, 100), Dedup: fmt.Appendf(nil, "producer-1/%d", n+i)}
		}
		if err := part.Offer(topic.Offered{Messages: msgs, Done: func(topic.Receipt) {}}); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Sync(); err != nil {
		b.Fatal(err)
	}
	log.Commit(log.End())
	log.ReleaseTail()
	b.ResetTimer()
	for range b.N {
		k, err := open(Options{Partition: part, Window: time.Hour, Ages: ages})
		if err != nil {
			b.Fatal(err)
		}
		if n := k.Counts().IDs; n != ids {
			b.Fatalf("%d ids", n)
		}
	}
}

// appender is a term that appends and has no followers.
type appender struct {
	rig
	w *commitlog.Writer
}

func (a *appender) Append(e commitlog.Entry) error {
	builder := new(commitlog.Builder)
	e.AppendTo(builder)
	_, err := a.w.Append(builder, time.Now().UnixNano())
	return err
}
