package forward

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// samples are one payload of each kind, with the decoded value.
func samples() []sample {
	publish := Publish{Topic: "orders", Incarnation: 300, Partition: 2, Round: 7, Number: 130, Messages: []topic.Message{
		{Body: []byte("plain")},
		{Body: []byte("late"), Delay: 1_700_000_000_000_000_001},
		{Body: []byte{}, TraceID: 0xfeed, Header: []byte(`{"k":"v"}`)},
		{Body: []byte("x"), Key: []byte("order-7"), Dedup: []byte("p1/42"), TTL: time.Minute},
		{Body: []byte("x"), Address: &record.Address{Channel: 7, Partition: 3, Offset: 42, Timestamp: 9, Attempts: 2}},
	}}
	receipt := topic.Receipt{First: 1 << 40, Count: 3, Position: 1 << 33, RawSize: 77}
	again := topic.Receipt{First: 9, Count: 3, Position: 8, RawSize: 7, IDs: []seq.MessageID{9, 1 << 40, 4}}
	subscribe := Subscribe{
		Handle: 5, Topic: "orders", Incarnation: 300, Channel: "billing", Partitions: []int{0, 3}, Ordered: true,
		MsgTimeout: time.Minute, SampleRate: 20, Start: topic.Start{Kind: topic.StartAtPosition, Value: 4096},
		Tag: "vip", Filter: []byte(`{"type":1}`), Credit: 2500, Number: 1 << 63, Holding: []seq.MessageID{3, 1 << 50}, Client: []byte(`{"ClientID":"c"}`),
	}
	deliveries := []topic.Delivery{
		{ID: seq.NewMessageID(3, 9), Timestamp: 1_700_000_000_000_000_000, Attempts: 1, Body: []byte("a"), Position: 128, RawSize: 2},
		{ID: seq.NewMessageID(0, 1), Timestamp: 5, Attempts: 4000, TraceID: 1, Header: []byte("{}"), Body: []byte{}, Position: 1, RawSize: 30},
		{ID: 9, Timestamp: 8, Attempts: 4, Body: []byte("a suspect"), Position: 1, RawSize: 2, Alone: true},
	}
	batch := AppendDeliveriesHead(nil, true)
	for i := range deliveries {
		batch = AppendDelivery(batch, &deliveries[i])
	}
	answers := Answers{5, []Answer{{Verb: Finish, ID: 1}, {Verb: Requeue, ID: 2, Delay: time.Second}, {Verb: Touch, ID: 3}, {Verb: Unseen, ID: 4}}}
	refusals := []Refusal{{ID: 7, Reason: &peer.RemoteError{Code: 1<<14 | 24, Text: "ID not in flight"}}, {ID: 1 << 50, Reason: &peer.RemoteError{}}}
	refusal := refusals[1].Append(refusals[0].Append(nil))
	leave := Leave{5, true, []seq.MessageID{7, 1 << 50}}
	ids := []seq.MessageID{7, 1 << 50}
	inFlight := InFlight{Topic: "orders", Incarnation: 300, Partition: 3, Epoch: 9, Continues: true, Flights: []topic.Flights{{
		Channel: "billing", Version: 12, Consumer: topic.Identity{Node: "n1", Number: 1 << 63},
		Messages: []channel.Flight{{Offset: 40, Name: 40, Attempts: 1, Alone: true, Rest: time.Minute, Held: time.Second}, {Offset: 99, Name: 41, Attempts: 300}},
	}}}
	back := Return{Topic: "orders", Incarnation: 300, Channel: "billing", Partitions: []int{0, 3}, Number: 1 << 63}
	converge := Converge{Topic: "orders", Index: 12345}
	return []sample{
		{"publish", appendPublish(&publish), publish, into[Publish]},
		{"receipt", AppendReceipt(nil, receipt), receipt, of(DecodeReceipt)},
		{"receipt of duplicates", AppendReceipt(nil, again), again, of(DecodeReceipt)},
		{"subscribe", subscribe.Append(nil), subscribe, into[Subscribe]},
		{"fetch", Fetch{5, 1 << 16}.Append(nil), Fetch{5, 1 << 16}, into[Fetch]},
		{"deliveries", batch, deliveries, func(p []byte) (any, error) {
			d, starved, err := DecodeDeliveries(p, nil)
			if err == nil && len(p) > 0 && starved != (p[0] != 0) {
				err = errors.New("starved is wrong")
			}
			return d, err
		}},
		{"answers", answers.Append(nil), answers, into[Answers]},
		{"refusals", refusal, refusals, of(DecodeRefusals)},
		{"leave", leave.Append(nil), leave, into[Leave]},
		{"ready", Ready{5, 100}.Append(nil), Ready{5, 100}, into[Ready]},
		{"ids", AppendIDs(nil, ids), ids, of(DecodeIDs)},
		{"in flight", inFlight.Append(nil), inFlight, into[InFlight]},
		{"return", back.Append(nil), back, into[Return]},
		{"converge", bytes.Join(encodeConverge(converge), nil), converge, into[Converge]},
	}
}

type sample struct {
	name    string
	payload []byte
	value   any
	decode  func([]byte) (any, error)
}

func of[T any](decode func([]byte) (T, error)) func([]byte) (any, error) {
	return func(p []byte) (any, error) { return decode(p) }
}

// into decodes a payload into an M.
func into[M any, P interface {
	*M
	Decode(payload []byte) error
}](payload []byte) (any, error) {
	var m M
	err := P(&m).Decode(payload)
	return m, err
}

func appendPublish(m *Publish) []byte { return m.Messages.Append(m.AppendHead(nil)) }

func TestEveryPayloadSurvivesTheWire(t *testing.T) {
	for _, s := range samples() {
		got, err := s.decode(s.payload)
		if err != nil || !reflect.DeepEqual(got, s.value) {
			t.Errorf("%s: got %+v, %v; want %+v", s.name, got, err, s.value)
		}
	}
}

func TestPayloadsAreGolden(t *testing.T) {
	var b strings.Builder
	for _, s := range samples() {
		fmt.Fprintf(&b, "%s\n%s\n", s.name, hex.Dump(s.payload))
	}
	golden.Compare(t, filepath.Join("testdata", "payloads.golden"), b.String())
}

func TestTruncatedOrOverlongPayloadsAreMalformed(t *testing.T) {
	for _, s := range samples() {
		open := s.name == "answers" || s.name == "refusals" || s.name == "deliveries" // they end with the payload
		for n := range s.payload {
			if _, err := s.decode(s.payload[:n]); !open && !errors.Is(err, errMalformed) {
				t.Errorf("%s cut to %d bytes: %v", s.name, n, err)
			}
		}
		if _, err := s.decode(append(bytes.Clone(s.payload), 0)); !errors.Is(err, errMalformed) || fate.Of(err) != fate.Refused {
			t.Errorf("%s with a byte behind it: %v", s.name, err)
		}
	}
}

func TestCountAloneAllocatesNothing(t *testing.T) {
	p := (&Publish{Topic: "t"}).AppendHead(nil)
	p = append(p, 0xff, 0xff, 0xff, 0xff, 0x0f) // so many messages
	p = append(p, 0, 0)
	if got := testing.AllocsPerRun(1, func() {
		if err := new(Publish).Decode(p); !errors.Is(err, errMalformed) {
			t.Errorf("got %v", err)
		}
	}); got > 100 { // the error takes some; pools keep nothing under the race detector
		t.Errorf("%v allocations", got)
	}
}

func TestSizesAreUpperBounds(t *testing.T) {
	messages := Messages{{}, {Body: make([]byte, 300), TraceID: 1, Header: make([]byte, 200), Delay: time.Second}}
	if got, most := len(messages.Append(nil)), messages.Size(); got > most {
		t.Errorf("messages take %d bytes, said %d", got, most)
	}
	d := topic.Delivery{Body: make([]byte, 1000), Header: make([]byte, 500), TraceID: 1, Position: 1<<63 - 1, RawSize: 1<<31 - 1}
	if got, most := len(AppendDelivery(nil, &d)), DeliverySize(&d); got > most {
		t.Errorf("a delivery takes %d bytes, said %d", got, most)
	}
}

func TestOperateSurvivesTheWire(t *testing.T) {
	p, err := encodeOperate("seek", map[string]int{"offset": 4})
	if err != nil {
		t.Fatal(err)
	}
	var m Operate
	if err := m.Decode(bytes.Join(p, nil)); err != nil || m.Op != "seek" || string(m.Args) != `{"offset":4}` {
		t.Errorf("got %q %s, %v", m.Op, m.Args, err)
	}
	if err := new(Operate).Decode([]byte("{")); !errors.Is(err, errMalformed) {
		t.Errorf("got %v", err)
	}
	if _, err := encodeOperate("x", func() {}); err == nil {
		t.Error("a function has no JSON")
	}
}

func TestErrorsKeepTextFateAndKind(t *testing.T) {
	var gone, full error = failure.TopicNotFound, failure.Unconfirmed
	for _, c := range []struct {
		err      error
		sentinel error
		fate     fate.Fate
	}{
		{gone, gone, fate.Refused},
		{fmt.Errorf("topic x: %w", gone), gone, fate.Refused},
		{full, full, fate.Uncertain},
		{fate.Mark(fmt.Errorf("disk: %w", full), fate.Corrupt), full, fate.Corrupt},
		{fate.Mark(fmt.Errorf("after the append: %w", gone), fate.Uncertain), gone, fate.Uncertain},
		{fate.Refuse("something else"), nil, fate.Refused},
		{errors.New("anything"), nil, fate.Uncertain},
	} {
		got := FromRemote(ToRemote(c.err))
		if got.Error() != c.err.Error() || fate.Of(got) != c.fate {
			t.Errorf("%v: got %v, %v", c.err, got, fate.Of(got))
		}
		for _, s := range []error{gone, full, failure.NotLeading} {
			if errors.Is(got, s) != (c.sentinel != nil && errors.Is(s, c.sentinel)) {
				t.Errorf("%v is %v: %v", got, s, errors.Is(got, s))
			}
		}
	}
	if err := FromRemote(peer.ErrDisconnected); !errors.Is(err, peer.ErrDisconnected) || fate.Of(err) != fate.Uncertain {
		t.Errorf("an error that did not travel: %v", err)
	}
	if err := FromRemote(&peer.RemoteError{Code: 3 << fateShift, Text: "x"}); fate.Of(err) != fate.Uncertain {
		t.Errorf("a fate that is not known: %v", fate.Of(err))
	}
}

func FuzzDecode(f *testing.F) {
	for i, s := range samples() {
		f.Add(byte(i), s.payload)
	}
	f.Fuzz(func(t *testing.T, kind byte, payload []byte) {
		all := samples()
		s := all[int(kind)%len(all)]
		got, err := s.decode(payload)
		if err != nil {
			return
		}
		var again []byte
		switch v := got.(type) {
		case Publish:
			again = appendPublish(&v)
		case topic.Receipt:
			again = AppendReceipt(nil, v)
		case Subscribe:
			again = v.Append(nil)
		case Fetch:
			again = v.Append(nil)
		case Ready:
			again = v.Append(nil)
		case Answers:
			again = v.Append(nil)
		case InFlight:
			again = v.Append(nil)
		case Return:
			again = v.Append(nil)
		case Converge:
			again = bytes.Join(encodeConverge(v), nil)
		default:
			return
		}
		if back, err := s.decode(again); err != nil || !reflect.DeepEqual(back, got) {
			t.Errorf("%s: %+v became %+v, %v", s.name, got, back, err)
		}
	})
}
