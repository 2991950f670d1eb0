package client

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHeadersMatchProtocol(t *testing.T) {
	for name, tt := range map[string]struct {
		c    *call
		want string
	}{
		"a dedup id": {
			&call{out: Outgoing{Topic: "t", Body: []byte("hi"), DedupID: "a1"}},
			"PUB_EXT t\n\x00\x00\x00\x17\x00\x13{\"##dedup_id\":\"a1\"}hi",
		},
		"one of the client's": {
			&call{out: Outgoing{Topic: "t", Body: []byte("hi"), Partition: InPartition(2)}, producer: "P", sequence: 36},
			"PUB_EXT t 2\n\x00\x00\x00\x19\x00\x15{\"##dedup_id\":\"P-10\"}hi",
		},
		"everything": {
			&call{out: Outgoing{Topic: "t", Body: []byte("hi"), DedupID: "d", Key: "k", TTL: 1500 * time.Millisecond, Headers: map[string]string{"b": "2", "a": "1"}}},
			"PUB_EXT t\n\x00\x00\x00\x41\x00\x3d{\"##dedup_id\":\"d\",\"##key\":\"k\",\"##ttl\":\"1500\",\"a\":\"1\",\"b\":\"2\"}hi",
		},
		"a batch with an id": {
			&call{out: Outgoing{Topic: "t", Bodies: [][]byte{[]byte("x"), []byte("y")}, DedupID: "a", Partition: InPartition(1)}},
			"MPUB_EXT t 1\n\x00\x00\x00\x3a\x00\x00\x00\x02" +
				"\x00\x00\x00\x17\x00\x14{\"##dedup_id\":\"a/0\"}x" + "\x00\x00\x00\x17\x00\x14{\"##dedup_id\":\"a/1\"}y",
		},
		"a batch": {
			&call{out: Outgoing{Topic: "t", Bodies: [][]byte{[]byte("x"), []byte("yz")}}, producer: "P", sequence: 1},
			"MPUB_EXT t\n\x00\x00\x00\x3b\x00\x00\x00\x02" +
				"\x00\x00\x00\x17\x00\x14{\"##dedup_id\":\"P-1\"}x" + "\x00\x00\x00\x18\x00\x14{\"##dedup_id\":\"P-2\"}yz",
		},
	} {
		got := appendPublish(nil, tt.c)
		if string(got) != tt.want {
			t.Errorf("%s:\n%q, want\n%q", name, got, tt.want)
		}
	}
}

func TestStringsAreJSON(t *testing.T) {
	for _, s := range []string{"", "plain", `quo"te`, `back\slash`, "\n", "ä", "\x00", strings.Repeat("x", 300)} {
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil || back != s {
			t.Errorf("%q came back as %q, %v", s, back, err)
		}
	}
}

func TestInvalidHeadersAreRefusedByClient(t *testing.T) {
	for name, o := range map[string]Outgoing{
		"a long key":             {Key: strings.Repeat("k", 256)},
		"a long dedup id":        {DedupID: strings.Repeat("k", 65)},
		"a time to live below 0": {TTL: -1},
		"a reserved name":        {Headers: map[string]string{"##x": "1"}},
		"large headers":          {Headers: map[string]string{"x": strings.Repeat("x", 60000)}},
		"ids of a batch":         {DedupID: strings.Repeat("k", 62), Bodies: make([][]byte, 11)},
		"a delayed key":          {Key: "k", Delay: time.Second},
	} {
		if checkHeader(&o) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := checkHeader(&Outgoing{Key: strings.Repeat("k", 255), DedupID: strings.Repeat("d", 64), TTL: 1, Headers: map[string]string{"a": "b"}}); err != nil {
		t.Error(err)
	}
}

func TestHeadersAreSplitFromBody(t *testing.T) {
	for in, want := range map[string][3]string{
		"\x00body":           {"", "body", ""},
		"\x00":               {"", "", ""},
		"\x04\x00\x02{}body": {"{}", "body", ""},
		"":                   {"", "", "truncated"},
		"\x04\x00":           {"", "", "truncated"},
		"\x04\x00\x09{}":     {"", "", "truncated"},
		"\x02\x00\x02{}body": {"", "", "version 2"},
	} {
		header, body, err := splitHeader([]byte(in))
		if string(header) != want[0] || string(body) != want[1] || (err != nil) != (want[2] != "") || err != nil && !strings.Contains(err.Error(), want[2]) {
			t.Errorf("%q: %q, %q, %v", in, header, body, err)
		}
	}
	m := Message{Header: []byte(`{"a":"x","n":5}`)}
	for name, want := range map[string]string{"a": "x", "n": "5"} {
		if got, ok := m.HeaderValue(name); got != want || !ok {
			t.Errorf("%s is %q, %v", name, got, ok)
		}
	}
	if _, ok := m.HeaderValue("b"); ok {
		t.Error("there is a header b")
	}
}

func FuzzSplitHeader(f *testing.F) {
	f.Add([]byte("\x04\x00\x02{}body"))
	f.Add([]byte("\x00x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		header, body, err := splitHeader(data)
		if err == nil && len(header)+len(body) >= len(data) {
			t.Errorf("%q has header %q and body %q", data, header, body)
		}
	})
}

// TestUncertainPublishWithIDIsRetried loses the connection after the first publish.
func TestUncertainPublishWithIDIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		take := func(p peer) bool {
			p.greet("OK")
			line := p.line()
			body := p.body()
			if line != "" {
				got = append(got, line+" "+body)
			}
			return line != ""
		}
		f := one(t, func(p peer) { take(p) }, func(p peer) {
			if take(p) {
				p.fails("E_PUB_FAILED PUB failed, outcome unknown: timeout")
				got = append(got, p.line()+" "+p.body())
				p.ok()
				p.drain()
			}
		})
		c := f.client([]string{node}, WithDedup())
		if err := c.Publish(t.Context(), "t", []byte("x")); err != nil {
			t.Errorf("%v, want it published in the end", err)
		}
		f.end(c)
		if len(got) != 3 || got[0] != got[1] || got[1] != got[2] || !strings.HasPrefix(got[0], "PUB_EXT t ") {
			t.Errorf("sent %q, want the same three times", got)
		}
	})
}

func TestEachMessageHasItsOwnID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		f := one(t, func(p peer) {
			p.greet("OK")
			for line := p.line(); line != ""; line = p.line() {
				sent = append(sent, line+" "+p.body())
				p.ok()
			}
		})
		c := f.client([]string{node}, WithDedup())
		for _, err := range []error{
			c.Publish(t.Context(), "t", []byte("x")),
			c.PublishBatch(t.Context(), "t", [][]byte{[]byte("x"), []byte("x")}),
			c.Publish(t.Context(), "t", []byte("x")),
			c.Send(t.Context(), Outgoing{Topic: "t", Body: []byte("x"), DedupID: "mine"}),
			c.Send(t.Context(), Outgoing{Topic: "t", Body: []byte("x"), Delay: time.Second}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		f.end(c)
		all := strings.Join(sent, "\n")
		for _, id := range []string{"-0\"", "-1\"", "-2\"", "-3\"", "\"mine\""} {
			if strings.Count(all, id) != 1 {
				t.Errorf("%s is not there once: %q", id, sent)
			}
		}
		if !slices.Contains(sent, "DPUB t 1000 x") {
			t.Errorf("sent %q", sent)
		}
	})
}

func TestConsumerWithHeadersGetsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := "\x00\x04\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x00"
		f := one(t, func(p peer) {
			p.expect("  V2IDENTIFY\n")
			if asked := p.body(); !strings.Contains(asked, `"extend_support":true`) {
				p.t.Errorf("asked for %s", asked)
			}
			p.send(0, "{}")
			p.expect("SUB t c\n")
			p.ok()
			p.expect("RDY 64\n")
			p.message(id, "\x04\x00\x0a{\"k\": \"v\"}body")
			p.expect("FIN " + id + "\n")
			p.expect("RDY 0\nCLS\n")
			p.send(0, "CLOSE_WAIT")
			p.drain()
		})
		c := f.client([]string{node})
		x, err := c.Subscribe("t", "c", WithHeaders())
		if err != nil {
			t.Fatal(err)
		}
		for m := range x.Messages(t.Context()) {
			if v, _ := m.HeaderValue("k"); v != "v" || string(m.Body) != "body" || m.ID.String() != "000400000000000a" {
				t.Errorf("%q %q %s", m.Header, m.Body, m.ID)
			}
			if err := m.Finish(); err != nil {
				t.Error(err)
			}
			break
		}
		f.end(c)
		if _, err := c.Subscribe("t", "c"); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

func TestIDsAreWrittenAsHexadecimalDigits(t *testing.T) {
	for id, want := range map[string]string{
		"70002d108cd541d2": "70002d108cd541d2",
		"\x00\x04\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x00": "000400000000000a",
		"\x70\x00\x2d\x10\x8c\xd5\x41\xd2trace id":                         "70002d108cd541d2",
		"00000000\x00\x00\x00\x00\x00\x00\x00\x01":                         "3030303030303030",
	} {
		if got := ID([]byte(id)).String(); got != want {
			t.Errorf("%q is written as %q, want %q", id, got, want)
		}
	}
}

// A broker stores ids and keys as bytes, so different ones must be different in a header.
func TestHeadersPreserveBytes(t *testing.T) {
	for c := range 256 {
		want := string([]byte{byte(c)})
		raw := appendHeader(nil, &call{out: Outgoing{Body: []byte("b"), DedupID: want, Key: want, Headers: map[string]string{want: want}}}, 0)
		m := Message{Header: raw}
		id, _ := m.HeaderValue(nameDedup)
		value, _ := m.HeaderValue(want)
		if id != want || m.Key() != want || value != want {
			t.Errorf("%#x in %q came back as %q, %q, %q", c, raw, id, m.Key(), value)
		}
	}
}
