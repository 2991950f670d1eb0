package deadletter

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/pkg/filter"
	"github.com/brokerd/brokerd/pkg/topic"
)

func sample() Origin {
	return Origin{
		Topic: "orders", Partition: 3, Offset: 17, ID: "18ef8ddbaa4d0233", Channel: "bill", FirstTimestampNS: 1795560163075176451,
		Attempts: 5, LastConsumer: "worker-7 (10.0.0.7:4711)", Reason: reasonMaxAttempts, Header: json.RawMessage(`{"a":1}`),
	}
}

// The header is what programs read that look after dead letters.
func TestHeaderOfADeadLetterIsGolden(t *testing.T) {
	got, err := sample().AppendHeader(nil)
	const want = `{"dead_letter":{"topic":"orders","partition":3,"offset":17,"id":"18ef8ddbaa4d0233","channel":"bill",` +
		`"first_timestamp_ns":1795560163075176451,"attempts":5,"last_consumer":"worker-7 (10.0.0.7:4711)","reason":"max-attempts","header":{"a":1}}}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	o, err := ReadOrigin(got)
	if err != nil || o.ID != sample().ID || string(o.Header) != `{"a":1}` || o.Attempts != 5 || o.Offset != 17 {
		t.Errorf("read %+v, %v", o, err)
	}
}

// A message's own header stays out where the two are too long together, or it is no JSON.
func TestHeaderWithoutRoomIsOmitted(t *testing.T) {
	for _, own := range []string{`{"x":"` + string(bytes.Repeat([]byte("x"), topic.MaxHeader-20)) + `"}`, "no JSON"} {
		o := sample()
		o.Header = json.RawMessage(own)
		text, err := o.AppendHeader(nil)
		if err != nil || len(text) > topic.MaxHeader {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
		if back, err := ReadOrigin(text); err != nil || back.Header != nil || back.ID != o.ID {
			t.Errorf("%+v, %v", back, err)
		}
	}
}

func FuzzReadOrigin(f *testing.F) {
	text, _ := sample().AppendHeader(nil)
	f.Add(text)
	f.Add([]byte(`{"dead_letter":{"topic":"t","channel":""}}`))
	f.Add([]byte(`{"dead_letter":null}`))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := ReadOrigin(text)
		if err != nil {
			if !errors.Is(err, errNotDeadLetter) {
				t.Errorf("%v", err)
			}
			return
		}
		if o.Topic == "" || o.Channel == "" || o.Partition < 0 {
			t.Errorf("read %+v", o)
		}
		if _, err := o.AppendHeader(nil); err != nil {
			t.Errorf("write %+v: %v", o, err)
		}
	})
}

// A filter looks at what a message was before it became a dead letter, and why it did.
func TestFilterOfDeadLettersSeesTheMessage(t *testing.T) {
	o := sample()
	o.Header = json.RawMessage(`{"type":"order","##client_dispatch_tag":"red"}`)
	text, err := o.AppendHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := &topic.Seen{Message: topic.Message{Header: text, Key: []byte("k"), Body: []byte("four")}}
	for expression, want := range map[string]bool{
		`header.type == "order" && key == "k" && tag == "red"`:                  true,
		`partition == 3 && attempts == 5 && size == 4`:                          true,
		`timestamp < date("2026-12-01") && timestamp > date("2026-11-01")`:      true,
		`header.dead_letter.reason == "max-attempts" && "header" not in header`: true,
		`header.dead_letter.last_consumer startsWith "worker-7"`:                true,
		`header.type == "invoice"`:                                              false,
		`header.absent > 5`:                                                     false,
	} {
		f, err := filter.Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got, is := (Selection{"orders", "bill", f}).Has(seen); is != want || got.ID != o.ID || string(got.Header) != string(o.Header) {
			t.Errorf("%s: %v, %+v", expression, is, got)
		}
		if _, is := (Selection{"orders", "ship", f}).Has(seen); is {
			t.Errorf("%s: a dead letter of another channel", expression)
		}
	}
}

// A header that is not UTF-8, or has half of a surrogate pair, is valid JSON in the dead letter, and itself again
// when it is read.
func TestOriginKeepsBytesOfHeader(t *testing.T) {
	for _, own := range []string{"{\"a\":\"\xc1\"}", `{"a":"\ud800"}`, "{\"\xff\":1,\"\xfe\":2}"} {
		o := sample()
		o.Header = json.RawMessage(own)
		text, err := o.AppendHeader(nil)
		if err != nil || jsonbytes.Check(text) != nil {
			t.Fatalf("%q is in the header %q, %v", own, text, err)
		}
		back, err := ReadOrigin(text)
		if err != nil || string(back.Header) != own || back.HeaderBase64 != nil {
			t.Errorf("%q came back as %+v, %v", own, back, err)
		}
	}
	f, err := filter.Compile(`header.a == "\uFFFD"`)
	if err != nil {
		t.Fatal(err)
	}
	o := sample()
	o.Header = json.RawMessage("{\"a\":\"\xc1\"}")
	if o.chosen(f, &topic.Message{}) {
		t.Error("a byte is taken for U+FFFD")
	}
}
