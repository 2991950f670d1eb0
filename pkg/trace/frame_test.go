package trace

import (
	"bytes"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/seq"
)

// story is a sequence of events with every kind of part.
func story() []Event {
	at := func(ms int64) int64 { return 1_795_230_522_000_000_000 + ms*1e6 }
	m := Message{7, seq.NewMessageID(2, 300)}
	c := Message{7, seq.NewMessageID(2, 310)}
	return []Event{
		{What: Published, Time: at(0), Message: m, Client: "10.0.0.1:1234", Note: "n2", TraceID: 1 << 60, KeyHash: HashKey([]byte("k"))},
		{What: Committed, Time: at(1), Message: Message{7, seq.NewMessageID(2, 298)}, Count: 5},
		{What: Delivered, Time: at(3), Message: m, Channel: "c", Client: "worker (10.0.0.2:99)", Attempt: 1},
		{What: Touched, Time: at(4), Message: m, Channel: "c", Client: "worker (10.0.0.2:99)"},
		{What: Requeued, Time: at(2), Message: m, Channel: "c", Client: "worker (10.0.0.2:99)", Delay: time.Hour},
		{What: Deferred, Time: at(5), Message: m, Channel: "c", Delay: time.Hour},
		{What: Published, Time: at(6), Message: c, IsCopy: true, CopyOf: m.ID, Replaces: true},
		{What: TimedOut, Time: at(7), Message: c, Channel: "c", Client: "worker (10.0.0.2:99)", Attempt: 4000},
		{What: DeadLettered, Time: at(8), Message: c, Channel: "c"},
		{What: Finished, Time: at(9), Message: c, Channel: "c", Note: "expired"},
	}
}

func frameOf(events []Event) []byte {
	var f frame
	for i := range events {
		f.add(&events[i])
	}
	return f.seal()
}

func scanned(data []byte) (events []Event, damaged int) {
	damaged = scan(data, func(e *Event) { events = append(events, *e) })
	return events, damaged
}

func TestFrameIsGolden(t *testing.T) {
	got := frameOf(story())
	golden.Compare(t, filepath.Join("testdata", "frame.golden"), got)
	events, damaged := scanned(got)
	if diff := cmp.Diff(story(), events); diff != "" || damaged != 0 {
		t.Errorf("%d bytes are damaged:\n%s", damaged, diff)
	}
}

func randomEvent(rnd *rand.Rand) Event {
	names := []string{"", "c", "worker", strings.Repeat("x", maxName), "\x00\xff\n"}
	e := Event{
		What: 1 + What(rnd.IntN(int(whats)-1)), Time: rnd.Int64(), Message: Message{rnd.Uint64(), seq.MessageID(rnd.Uint64() >> rnd.IntN(64))},
		Channel: names[rnd.IntN(len(names))], Client: names[rnd.IntN(len(names))], Note: names[rnd.IntN(len(names))],
		Attempt: uint16(rnd.IntN(4001)), Delay: time.Duration(rnd.Int64() >> rnd.IntN(64)), TraceID: rnd.Uint64() >> rnd.IntN(64), KeyHash: rnd.Uint64() >> rnd.IntN(64),
	}
	if rnd.IntN(3) == 0 {
		e.Count = 2 + rnd.IntN(1000)
	}
	if rnd.IntN(3) == 0 {
		e.IsCopy, e.CopyOf, e.Replaces = true, seq.MessageID(rnd.Uint64()), rnd.IntN(2) == 0
	}
	return e
}

// TestConsecutiveEventsAreStoredAsOne reads frames in between, as queries do, and compares each message's events.
func TestConsecutiveEventsAreStoredAsOne(t *testing.T) {
	rnd := testrand.New(t)
	for range 200 {
		var f frame
		var want []Event
		e := Event{What: Delivered, Time: 5, Message: Message{1, 0}, Channel: "c", Client: "w", Attempt: 1}
		for range 1 + rnd.IntN(40) {
			switch e.Message.ID++; rnd.IntN(24) {
			case 0:
				e.Message.ID++
			case 1:
				e.Message.Incarnation++
			case 2:
				e.Time += rnd.Int64N(2 * int64(joinable))
			case 3:
				e.Client += "x"
			case 4:
				e.Attempt++
			case 5:
				e.What = []What{Delivered, Finished, Published}[rnd.IntN(3)]
			case 6:
				e.Channel += "x"
			case 7:
				e.Message.ID -= 2
			case 8:
				e.Time -= rnd.Int64N(int64(joinable))
			case 9:
				e.Count = 1 + rnd.IntN(3)
			}
			f.add(&e)
			for range e.count() {
				one := e
				one.Count = 0
				want = append(want, one)
				e.Message.ID++
			}
			e.Message.ID--
			e.Count = 0
			if rnd.IntN(4) == 0 {
				compareEach(t, f.snapshot(), want)
			}
		}
		compareEach(t, f.seal(), want)
		if f.snapshot() != nil {
			t.Fatal("a sealed frame is continued")
		}
	}
	var run []Event
	for id := range seq.MessageID(100) {
		run = append(run, Event{What: Finished, Time: 1, Message: Message{1, id}, Channel: "c"})
	}
	if events, _ := scanned(frameOf(run)); len(events) != 1 || events[0].Count != 100 {
		t.Errorf("%+v", events)
	}
	for i := range run {
		run[i].What, run[i].KeyHash = Published, 7
	}
	if events, _ := scanned(frameOf(run)); len(events) != 100 {
		t.Errorf("%d events are left of 100 messages that are found by their key", len(events))
	}
}

// TestLastEventFitsInAFullFrame fills a frame but for a byte, and adds two events with the longest names.
func TestLastEventFitsInAFullFrame(t *testing.T) {
	var f frame
	long := func(c string) string { return strings.Repeat(c, maxName) }
	n := 0
	for ; len(f.data) < frameBytes-16; n++ {
		f.add(&Event{What: Touched, Time: int64(n) * 2 * int64(joinable), Message: Message{1, seq.MessageID(n)}})
	}
	for i, c := range []string{"a", "b", "c", "d"} {
		if f.full() {
			break
		}
		f.add(&Event{What: Requeued, Time: math.MaxInt64 * int64(i%2), Message: Message{math.MaxUint64, math.MaxUint64}, Channel: long(c), Client: long(c + "1")[:maxName], Note: long(c + "2")[:maxName], Attempt: 1, Delay: math.MaxInt64})
	}
	events, damaged := scanned(f.seal())
	if damaged > 0 || len(events) < n {
		t.Errorf("%d events of %d, %d bytes are damaged", len(events), n+3, damaged)
	}
}

// compareEach compares what a frame holds with events of one message each. Of those stored as one, a
// delivery may have an earlier time, and another event a later one.
func compareEach(t *testing.T, data []byte, want []Event) {
	t.Helper()
	events, damaged := scanned(data)
	var got []Event
	for _, e := range events {
		for range e.count() {
			one := e
			one.Count = 0
			if i := len(got); i < len(want) {
				from, to := one.Time-int64(joinable), one.Time
				if one.What == Delivered {
					from, to = one.Time, one.Time+int64(joinable)
				}
				if at := want[i].Time; at >= from && at <= to {
					one.Time = at
				}
			}
			got = append(got, one)
			e.Message.ID++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || damaged > 0 {
		t.Fatalf("%d bytes are damaged:\n%s", damaged, diff)
	}
}

func TestFramesReadBackAndDamageLosesOnlyItsFrame(t *testing.T) {
	rnd := testrand.New(t)
	for range 200 {
		var data []byte
		var want [][]Event
		var starts []int
		for range 1 + rnd.IntN(4) {
			events := make([]Event, 1+rnd.IntN(20))
			for i := range events {
				events[i] = randomEvent(rnd)
			}
			starts = append(starts, len(data))
			data = append(data, frameOf(events)...)
			want = append(want, events)
		}
		hurt := rnd.IntN(len(want))
		end := len(data)
		if hurt+1 < len(starts) {
			end = starts[hurt+1]
		}
		bad := bytes.Clone(data)
		bad[starts[hurt]+rnd.IntN(end-starts[hurt])] ^= byte(1 + rnd.IntN(255))
		for i, d := range [][]byte{data, bad} {
			var all []Event
			for j, events := range want {
				if i == 0 || j != hurt {
					all = append(all, events...)
				}
			}
			got, damaged := scanned(d)
			if diff := cmp.Diff(all, got); diff != "" || (damaged > 0) != (i == 1) {
				t.Fatalf("damaged %d, %d bytes: %s", i, damaged, diff)
			}
		}
	}
}

func TestTornFrameIsSkipped(t *testing.T) {
	whole := frameOf(story())
	data := append(bytes.Clone(whole), whole[:len(whole)/2]...)
	if events, damaged := scanned(data); len(events) != len(story()) || damaged != len(whole)/2 {
		t.Errorf("%d events, %d bytes damaged", len(events), damaged)
	}
}

func TestEventSizeIsBounded(t *testing.T) {
	long := strings.Repeat("x", 3*maxName)
	e := Event{
		What: Finished, Time: -1 << 62, Message: Message{1<<64 - 1, 1<<64 - 1}, Count: 1<<31 - 1, Channel: long + "a", Client: "b" + long, Note: "c" + long,
		Attempt: 1<<16 - 1, Delay: 1<<63 - 1, TraceID: 1, KeyHash: 1, IsCopy: true, CopyOf: 1<<64 - 1,
	}
	var f frame
	f.add(&Event{What: Finished, Time: 1 << 62})
	before := len(f.data)
	f.add(&e)
	if n := len(f.data) - before; n > maxEvent {
		t.Errorf("%d bytes, limit is %d", n, maxEvent)
	}
	if events, damaged := scanned(f.seal()); damaged > 0 || len(events) != 2 || len(events[1].Note) != maxName {
		t.Errorf("%d bytes damaged, %+v", damaged, events)
	}
}

func FuzzScan(f *testing.F) {
	f.Add(frameOf(story()))
	f.Add([]byte(frameMagic))
	f.Add(sealed(append(make([]byte, frameHeader), "12345678\x01\x00\x00"...)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, damaged := scanned(data); damaged < 0 || damaged > len(data) {
			t.Errorf("%d of %d bytes are damaged", damaged, len(data))
		}
		var again []Event
		if decode(data, func(e *Event) { again = append(again, *e) }) == nil && len(again) > 0 {
			got, damaged := scanned(frameOf(again))
			if diff := cmp.Diff(again, got); diff != "" || damaged > 0 {
				t.Errorf("what was read does not read back:\n%s", diff)
			}
		}
	})
}
