package nsq

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/buffer"
	"github.com/brokerd/brokerd/pkg/failure"
)

func TestFramesGolden(t *testing.T) {
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{"response", AppendFrame(nil, FrameResponse, OK), "\x00\x00\x00\x06\x00\x00\x00\x00OK"},
		{"heartbeat", AppendFrame([]byte("x"), FrameResponse, Heartbeat), "x\x00\x00\x00\x0f\x00\x00\x00\x00_heartbeat_"},
		{"error", AppendFrame(nil, FrameError, []byte("E_INVALID x")), "\x00\x00\x00\x0f\x00\x00\x00\x01E_INVALID x"},
		{
			"message", AppendMessage(nil, 0x0102030405060708, 3, 0x0004000000000abc, []byte("body")),
			"\x00\x00\x00\x22\x00\x00\x00\x02\x01\x02\x03\x04\x05\x06\x07\x08\x00\x030004000000000abcbody",
		},
	} {
		if string(tt.got) != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, tt.got, tt.want)
		}
	}
}

func TestMessageFrameReadsBack(t *testing.T) {
	want := Message{Timestamp: -5, Attempts: 4000, ID: [16]byte([]byte("0fffffffffffffff")), Body: []byte("b")}
	raw := AppendMessage(nil, want.Timestamp, want.Attempts, 0x0fffffffffffffff, want.Body)
	if len(raw) != want.Size() {
		t.Errorf("a frame of %d bytes, not of %d", len(raw), want.Size())
	}
	kind, data, err := NewFrameReader(bytes.NewReader(raw), 100).Next()
	if err != nil || kind != FrameMessage {
		t.Fatal(kind, err)
	}
	m, err := ParseMessage(data)
	if err != nil || !cmp.Equal(m, want) {
		t.Error(cmp.Diff(want, m), err)
	}
	if _, err := ParseMessage(data[:25]); !errors.Is(err, errShortMessage) {
		t.Error(err)
	}
	for _, bad := range []string{"\x00\x00\x00\x03\x00\x00\x00\x00", "\xff\xff\xff\xff\x00\x00\x00\x00", "\x00\x00\x00\x69\x00\x00\x00\x00"} {
		if _, _, err := NewFrameReader(strings.NewReader(bad), 100).Next(); !errors.Is(err, ErrFrameSize) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestErrorsReportFatality(t *testing.T) {
	survive := map[failure.Wire]bool{
		failure.PubFailed: true, failure.MPubFailed: true, failure.DPubFailed: true, failure.FinFailed: true, failure.ReqFailed: true, failure.TouchFailed: true, failure.FailedOnNotLeader: true, failure.FailedOnNotWritable: true,
		failure.ExtNotSupported: true, failure.InvalidJSONHeader: true, failure.InvalidTraceID: true, failure.TopicNotCreated: true,
	}
	for c := range failure.WireCount {
		if c == failure.NoWire {
			continue
		}
		if c.String() == "" || c.Fatal() == survive[c] {
			t.Errorf("%v: fatal %v", c, c.Fatal())
		}
	}
	if e := (&Error{Code: failure.FailedOnNotLeader, Ends: true}); !e.Fatal() || e.Error() != "E_FAILED_ON_NOT_LEADER " {
		t.Errorf("%q: fatal %v", e.Error(), e.Fatal())
	}
	if got := (&Error{Code: failure.BadProtocol}).Error(); got != "E_BAD_PROTOCOL" {
		t.Errorf("%q", got)
	}
	if got := Errorf(failure.BadCommand, "invalid command %s", "").Error(); got != "E_INVALID invalid command " {
		t.Errorf("%q", got)
	}
}

func TestParseDecimal(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int64
		err  error
	}{
		{"0", 0, nil},
		{"2500", 2500, nil},
		{"007", 7, nil},
		{"9223372036854775807", math.MaxInt64, nil},
		{"9223372036854775808", 0, ErrOverflow},
		{"99999999999999999999999", 0, ErrOverflow},
		{"99999999999999999999999x", 0, ErrNotDecimal},
		{"", 0, ErrNotDecimal},
		{"-1", 0, ErrNotDecimal},
		{"+1", 0, ErrNotDecimal},
		{"1.5", 0, ErrNotDecimal},
		{" 1", 0, ErrNotDecimal},
		{"0x1", 0, ErrNotDecimal},
	} {
		got, err := ParseDecimal([]byte(tt.in))
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("ParseDecimal(%q) = %d, %v", tt.in, got, err)
		}
	}
}

// words renders a command for comparison.
func words(c *Command) []string {
	all := []string{c.Verb.String(), string(c.Name())}
	for i := range min(c.Len(), maxParams) {
		all = append(all, string(c.Param(i)))
	}
	return all
}

func TestReaderReadsCommands(t *testing.T) {
	const in = "NOP\nPUB t\r\n\x00\x00\x00\x03a\nbRDY\nRDY \nFIN 0123456789abcdef\nREQ 0123456789abcdef 10\n\nSUB  c d e f g\nx\r\r\n"
	for _, src := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
		r := NewReader(src, new(buffer.Pool))
		var got [][]string
		for {
			var c Command
			err := r.Next(&c)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			all := words(&c)
			if c.Verb == Pub {
				n, err := r.ReadSize()
				if err != nil || n != 3 {
					t.Fatal(n, err)
				}
				body, err := r.ReadBody(int(n))
				if err != nil {
					t.Fatal(err)
				}
				// The parameters stay valid after the body is read.
				all = append(words(&c), string(body))
			}
			got = append(got, all)
		}
		want := [][]string{
			{"NOP", "NOP"},
			{"PUB", "PUB", "t", "a\nb"},
			{"RDY", "RDY"},
			{"RDY", "RDY", ""},
			{"FIN", "FIN", "0123456789abcdef"},
			{"REQ", "REQ", "0123456789abcdef", "10"},
			{"unknown", ""},
			{"SUB", "SUB", "", "c", "d", "e"},
			{"unknown", "x\r"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		r.Release()
	}
}

func TestReaderReadsRawIDsByLength(t *testing.T) {
	const id = "\n \x00\r\n56789abcde\n"
	in := "FIN " + id + "\nNOP\nREQ " + id + " 10 x\nTOUCH " + id + "\r\nREX 1\nFIN 0123456789abcdefg\n"
	r := NewReader(iotest.OneByteReader(strings.NewReader(in)), new(buffer.Pool))
	r.SetRawIDs(true)
	var got [][]string
	for {
		var c Command
		err := r.Next(&c)
		if errors.Is(err, ErrBadID) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, words(&c))
	}
	want := [][]string{
		{"FIN", "FIN", id}, {"NOP", "NOP"}, {"REQ", "REQ", id, "10", "x"}, {"TOUCH", "TOUCH", id}, {"unknown", "REX", "1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReaderLineLimit(t *testing.T) {
	for _, tt := range []struct {
		n    int
		want error
	}{{maxLine - 1, nil}, {maxLine, ErrLineTooLong}, {10 * maxLine, ErrLineTooLong}} {
		var c Command
		r := NewReader(strings.NewReader(strings.Repeat("x", tt.n)+"\n"), new(buffer.Pool))
		if err := r.Next(&c); !errors.Is(err, tt.want) {
			t.Errorf("line of %d bytes: %v", tt.n, err)
		}
	}
}

func TestReaderReportsEndOfSource(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want error
	}{{"", io.EOF}, {"PU", io.ErrUnexpectedEOF}} {
		var c Command
		if err := NewReader(strings.NewReader(tt.in), new(buffer.Pool)).Next(&c); !errors.Is(err, tt.want) {
			t.Errorf("%q: %v", tt.in, err)
		}
	}
	r := NewReader(strings.NewReader("\x00"), new(buffer.Pool))
	if _, err := r.ReadSize(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	r = NewReader(strings.NewReader("abc"), new(buffer.Pool))
	if _, err := r.ReadBody(4); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// meanReader announces a lot, delivers little and then fails.
type meanReader struct{ left int }

func (r *meanReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), r.left)
	r.left -= n
	return n, nil
}

func TestReaderAllocatesWhatArrives(t *testing.T) {
	r := NewReader(&meanReader{left: 100 << 10}, new(buffer.Pool))
	if _, err := r.ReadBody(1 << 30); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if got := cap(*r.body); got > 256<<10 {
		t.Errorf("%d bytes allocated for 100 KiB", got)
	}
}

func TestReaderReadsLongBodies(t *testing.T) {
	for _, n := range []int{1, minRead, minRead + 1, maxRead, 1 << 20, 5<<20 + 3} {
		body := bytes.Repeat([]byte("0123456789abcdef\n"), n/17+1)[:n]
		in := append(append([]byte("PUB t\n"), body...), "NOP\n"...)
		r := NewReader(iotest.HalfReader(bytes.NewReader(in)), new(buffer.Pool))
		var c Command
		for range 1 {
			if err := r.Next(&c); err != nil {
				t.Fatal(err)
			}
		}
		got, err := r.ReadBody(n)
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("body of %d bytes differs: %v", n, err)
		}
		if err := r.Next(&c); err != nil || c.Verb != Nop {
			t.Fatal(c.Verb, err)
		}
		r.Release()
	}
}

func TestSplitMPUB(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
		err  string
	}{
		{"\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x02bc", []string{"a", "bc"}, ""},
		{"", nil, "E_BAD_BODY MPUB failed to read message count"},
		{"\x00\x00\x00", nil, "E_BAD_BODY MPUB failed to read message count"},
		{"\xff\xff\xff\xff\x00\x00\x00\x01a", nil, "E_BAD_BODY MPUB invalid message count -1"},
		{"\x7f\xff\xff\xff\x00\x00\x00\x01a", nil, "E_BAD_BODY MPUB invalid message count 2147483647"},
		{"\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x00", nil, "E_BAD_MESSAGE MPUB invalid message(1) body size 0"},
		{"\x00\x00\x00\x02\x00\x00\x00\x06a23456x", nil, "E_BAD_MESSAGE MPUB failed to read message(1) body size"},
		{"\x00\x00\x00\x01\xff\xff\xff\xffa", nil, "E_BAD_MESSAGE MPUB invalid message(0) body size -1"},
		{"\x00\x00\x00\x01\x00\x00\x00\x0aabcdefghij", nil, "E_BAD_MESSAGE MPUB message too big 10 > 8"},
		{"\x00\x00\x00\x01\x00\x00\x00\x05a", nil, "E_BAD_MESSAGE MPUB failed to read message body"},
	} {
		var got []string
		batch, err := NewReader(strings.NewReader(tt.in), new(buffer.Pool)).ReadMPUB(MPUBLimits{Message: 8, Body: 100})
		batch.Each(func(m []byte) { got = append(got, string(m)) })
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%q: %v, want %s", tt.in, err, tt.err)
			}
			continue
		}
		if err != nil || !cmp.Equal(got, tt.want) {
			t.Errorf("%q: %q, %v", tt.in, got, err)
		}
	}
}

func testLimits() Limits {
	return Limits{
		Version: "1.3.0", MaxReady: 2500, MsgTimeout: time.Minute, MaxMsgTimeout: 15 * time.Minute,
		Heartbeat: 30 * time.Second, MaxHeartbeat: time.Minute, OutputBufferSize: 16 << 10, MaxOutputBufferSize: 64 << 10,
		OutputBufferTimeout: 250 * time.Millisecond, MinOutputBufferTimeout: 25 * time.Millisecond,
		MaxOutputBufferTimeout: 30 * time.Second, TLS: true, Snappy: true, Deflate: true, MaxDeflateLevel: 6,
	}
}

func TestIdentifyAnswerGolden(t *testing.T) {
	l := testLimits()
	id, err := ParseIdentity([]byte(`{"feature_negotiation":true,"tls_v1":true,"snappy":true,"output_buffer_size":4096,"output_buffer_timeout":50,"multiplexing":true}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Negotiate(&id)
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.AppendIdentified(nil, &s)
	const want = `{"max_rdy_count":2500,"version":"1.3.0","max_msg_timeout":900000,"msg_timeout":60000,"tls_v1":true,"deflate":false,"deflate_level":6,"max_deflate_level":6,"snappy":true,"sample_rate":0,"auth_required":false,"output_buffer_size":4096,"output_buffer_timeout":50,"topology_region":"","topology_zone":""}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}

func TestNegotiate(t *testing.T) {
	l := testLimits()
	for _, tt := range []struct {
		in     string
		change func(*Settings)
		err    string
	}{
		{`{}`, func(*Settings) {}, ""},
		{`null`, func(*Settings) {}, ""},
		{`{"heartbeat_interval":-1}`, func(s *Settings) { s.Heartbeat = 0 }, ""},
		{`{"heartbeat_interval":1000}`, func(s *Settings) { s.Heartbeat = time.Second }, ""},
		{`{"heartbeat_interval":60000}`, func(s *Settings) { s.Heartbeat = time.Minute }, ""},
		{`{"heartbeat_interval":60001}`, nil, "E_BAD_BODY IDENTIFY heartbeat interval (60001) is invalid"},
		{`{"heartbeat_interval":-2}`, nil, "E_BAD_BODY IDENTIFY heartbeat interval (-2) is invalid"},
		{`{"output_buffer_size":-1}`, func(s *Settings) { s.OutputBufferSize, s.OutputBufferTimeout = 1, 0 }, ""},
		{`{"output_buffer_size":64}`, func(s *Settings) { s.OutputBufferSize = 64 }, ""},
		{`{"output_buffer_size":63}`, nil, "E_BAD_BODY IDENTIFY output buffer size (63) is invalid"},
		{`{"output_buffer_size":65537}`, nil, "E_BAD_BODY IDENTIFY output buffer size (65537) is invalid"},
		{`{"output_buffer_timeout":-1}`, func(s *Settings) { s.OutputBufferTimeout = 0 }, ""},
		{`{"output_buffer_timeout":24}`, nil, "E_BAD_BODY IDENTIFY output buffer timeout (24) is invalid"},
		{
			`{"multiplexing":false,"output_buffer_size":65537,"output_buffer_timeout":1}`,
			func(s *Settings) {
				s.Knows, s.OutputBufferSize, s.OutputBufferTimeout = true, 64<<10, 25*time.Millisecond
			}, "",
		},
		{`{"multiplexing":false,"output_buffer_size":63}`, nil, "E_BAD_BODY IDENTIFY output buffer size (63) is invalid"},
		{`{"multiplexing":false,"output_buffer_timeout":-2}`, nil, "E_BAD_BODY IDENTIFY output buffer timeout (-2) is invalid"},
		{`{"msg_timeout":1000}`, func(s *Settings) { s.MsgTimeout = time.Second }, ""},
		{`{"msg_timeout":999}`, nil, "E_BAD_BODY IDENTIFY msg timeout (999) is invalid"},
		{`{"msg_timeout":-1}`, nil, "E_BAD_BODY IDENTIFY msg timeout (-1) is invalid"},
		{`{"sample_rate":99}`, func(s *Settings) { s.SampleRate = 99 }, ""},
		{`{"sample_rate":100}`, nil, "E_BAD_BODY IDENTIFY sample rate (100) is invalid"},
		{`{"sample_rate":-1}`, nil, "E_BAD_BODY IDENTIFY sample rate (-1) is invalid"},
		{`{"tls_v1":true,"snappy":true,"deflate":true}`, func(*Settings) {}, ""},
		{`{"feature_negotiation":true,"deflate":true,"deflate_level":3}`, func(s *Settings) { s.Deflate, s.DeflateLevel = true, 3 }, ""},
		{`{"feature_negotiation":true,"deflate":true,"deflate_level":9}`, func(s *Settings) { s.Deflate = true }, ""},
		{`{"feature_negotiation":true,"snappy":true,"deflate":true}`, nil, "E_IDENTIFY_FAILED cannot enable both deflate and snappy compression"},
		{`{"client_id":5}`, nil, "E_BAD_BODY IDENTIFY failed to decode JSON body"},
		{`{"heartbeat_interval":"5"}`, nil, "E_BAD_BODY IDENTIFY failed to decode JSON body"},
		{`{"heartbeat_interval":1e99}`, nil, "E_BAD_BODY IDENTIFY failed to decode JSON body"},
		{`[]`, nil, "E_BAD_BODY IDENTIFY failed to decode JSON body"},
	} {
		id, err := ParseIdentity([]byte(tt.in))
		var got Settings
		if err == nil {
			got, err = l.Negotiate(&id)
		}
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: %v", tt.in, err)
			}
			continue
		}
		want := l.Defaults()
		tt.change(&want)
		if err != nil || got != want {
			t.Errorf("%s: %v %s", tt.in, err, cmp.Diff(want, got))
		}
	}
	l.Upgraded = true
	if got, err := l.Negotiate(&Identity{FeatureNegotiation: true, TLSv1: true, Snappy: true}); err != nil || got != l.Defaults() {
		t.Errorf("a second upgrade was agreed on: %+v, %v", got, err)
	}
}

// tightMemory is a budget of a number of bytes.
type tightMemory struct {
	left, refused int
	t             *testing.T
}

var errPoor = errors.New("no memory")

func (p *tightMemory) Take(n int) error {
	if !p.Try(n) {
		return errPoor
	}
	return nil
}

func (p *tightMemory) Try(n int) bool {
	if n > p.left {
		p.refused++
		return false
	}
	p.left -= n
	return true
}

func (p *tightMemory) Give(n int) {
	if n < 0 {
		p.t.Errorf("%d bytes are given back", n)
	}
	p.left += n
}

func TestReaderSkipsBodyOverBudget(t *testing.T) {
	const memory = 300 << 10
	for _, tt := range []struct {
		size int
		want error
	}{{1, nil}, {40 << 10, nil}, {128 << 10, nil}, {256<<10 + 1, errPoor}, {5 << 20, errPoor}, {128 << 10, nil}} {
		body := bytes.Repeat([]byte("0123456789abcdef\n"), tt.size/17+1)[:tt.size]
		in := append(append([]byte("PUB t\n"), body...), "NOP\n"...)
		for _, src := range []io.Reader{bytes.NewReader(in), iotest.HalfReader(bytes.NewReader(in))} {
			p := &tightMemory{left: memory, t: t}
			r := NewReader(src, new(buffer.Pool))
			r.SetMemory(p)
			var c Command
			if err := r.Next(&c); err != nil {
				t.Fatal(err)
			}
			got, err := r.ReadBody(tt.size)
			if !errors.Is(err, tt.want) || err == nil && !bytes.Equal(got, body) {
				t.Errorf("body of %d bytes: %v", tt.size, err)
			}
			if err := r.Next(&c); err != nil || c.Verb != Nop {
				t.Errorf("after a body of %d bytes: %v, %v", tt.size, c.Verb, err)
			}
			r.Release()
			if p.left != memory {
				t.Errorf("after a body of %d bytes: %d bytes of memory left, want %d", tt.size, p.left, memory)
			}
		}
	}
}

func TestReaderKeepsSmallBufferWithoutBudget(t *testing.T) {
	p := &tightMemory{t: t}
	in := strings.Repeat("NOP\n", 100<<10)
	r := NewReader(strings.NewReader(in+strings.Repeat("x", maxLine-1)+"\n"), new(buffer.Pool))
	r.SetMemory(p)
	var c Command
	for range 100 << 10 {
		if err := r.Next(&c); err != nil || c.Verb != Nop {
			t.Fatal(c.Verb, err)
		}
	}
	if err := r.Next(&c); err != nil || len(c.Name()) != maxLine-1 {
		t.Errorf("the longest line: %d bytes, %v", len(c.Name()), err)
	}
	if len(r.buf) > freeRead || p.refused == 0 {
		t.Errorf("a buffer of %d bytes, %d refusals", len(r.buf), p.refused)
	}
}

func TestReaderChargesOnlyLargeBuffers(t *testing.T) {
	const memory = 1 << 20
	p := &tightMemory{left: memory, t: t}
	src, feed := io.Pipe()
	r := NewReader(src, new(buffer.Pool))
	r.SetMemory(p)
	lines := []byte(strings.Repeat("NOP\n", 64<<10))
	go func() {
		_, _ = feed.Write(lines) // much at once
		for range 200 {
			_, _ = feed.Write([]byte("NOP\n")) // then little
		}
		_ = feed.Close()
	}()
	var c Command
	for range 64 << 10 {
		if err := r.Next(&c); err != nil {
			t.Fatal(err)
		}
	}
	if paid := memory - p.left; paid != maxRead-freeRead {
		t.Errorf("%d bytes are paid for the largest buffer", paid)
	}
	for range 200 {
		if err := r.Next(&c); err != nil {
			t.Fatal(err)
		}
	}
	if p.left != memory {
		t.Errorf("%d bytes are still paid for a small buffer", memory-p.left)
	}
}

// An MPUB over the memory budget is skipped to its end, wherever the budget is exhausted.
func TestReaderSkipsMPUBOverBudget(t *testing.T) {
	const memory = 70 << 10 // enough for one step of a body, not for two
	for size := 1; size < 20; size++ {
		for _, count := range []int{3, 20 << 10} {
			body := binary.BigEndian.AppendUint32(nil, uint32(count))
			for range count {
				body = append(binary.BigEndian.AppendUint32(body, uint32(size)), make([]byte, size)...)
			}
			in := append(append([]byte("MPUB t\n\x00\x00\x00\x01"), body...), "NOP\n"...)
			for name, src := range map[string]io.Reader{"whole": bytes.NewReader(in), "halves": iotest.HalfReader(bytes.NewReader(in)), "bytes": iotest.OneByteReader(bytes.NewReader(in))} {
				p := &tightMemory{left: memory, t: t}
				r := NewReader(src, new(buffer.Pool))
				r.SetMemory(p)
				var c Command
				if err := r.Next(&c); err != nil {
					t.Fatal(err)
				}
				if _, err := r.ReadSize(); err != nil {
					t.Fatal(err)
				}
				var want error
				if count > 3 {
					want = errPoor
				}
				batch, err := r.ReadMPUB(MPUBLimits{Message: 100, Body: 1 << 20})
				if !errors.Is(err, want) || (batch.Count() > 0) != (want == nil) {
					t.Fatalf("%s, %d messages of %d bytes: %v, %d read", name, count, size, err, batch.Count())
				}
				if err := r.Next(&c); err != nil || c.Verb != Nop {
					t.Fatalf("%s, after %d messages of %d bytes: %v, %v", name, count, size, c.Verb, err)
				}
				r.Release()
				if p.left != memory {
					t.Errorf("%s: %d bytes of memory left, want %d", name, p.left, memory)
				}
			}
		}
	}
}
