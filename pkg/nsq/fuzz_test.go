package nsq

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/brokerd/brokerd/internal/buffer"
)

// readAll reads commands and their bodies, and renders them.
func readAll(r *Reader, raw bool) (seen [][]byte, err error) {
	r.SetRawIDs(raw)
	for {
		var c Command
		if err := r.Next(&c); err != nil {
			return seen, err
		}
		seen = append(seen, bytes.Clone(c.Name()))
		switch c.Verb {
		case Pub, MPub, DPub, Identify, Auth:
			n, err := r.ReadSize()
			if err != nil || n <= 0 || n > 1<<20 {
				return seen, err
			}
			body, err := r.ReadBody(int(n))
			if err != nil {
				return seen, err
			}
			seen = append(seen, bytes.Clone(body))
		default:
		}
		for i := range min(c.Len(), maxParams) {
			seen = append(seen, bytes.Clone(c.Param(i)))
		}
	}
}

// FuzzCommandReader checks that the result does not depend on how the input is split.
func FuzzCommandReader(f *testing.F) {
	f.Add([]byte("NOP\nPUB t\n\x00\x00\x00\x01aFIN 0123456789abcdef\nREQ 0123456789abcdef 10\n"), false)
	f.Add([]byte("FIN \n123456789abcdef\nTOUCH 0123456789abcdef\r\nREQ "), true)
	f.Add([]byte("SUB  \r\n\nMPUB x y z u v w\n\xff\xff\xff\xff"), false)
	f.Fuzz(func(t *testing.T, in []byte, raw bool) {
		whole := NewReader(bytes.NewReader(in), new(buffer.Pool))
		drops := NewReader(iotest.OneByteReader(bytes.NewReader(in)), new(buffer.Pool))
		a, errA := readAll(whole, raw)
		b, errB := readAll(drops, raw)
		if errors.Is(errA, io.EOF) != errors.Is(errB, io.EOF) || len(a) != len(b) {
			t.Fatalf("whole: %q, %v; byte by byte: %q, %v", a, errA, b, errB)
		}
		for i := range a {
			if !bytes.Equal(a[i], b[i]) {
				t.Fatalf("word %d: %q and %q", i, a[i], b[i])
			}
		}
	})
}

// FuzzIdentify checks that accepted settings are within the limits.
func FuzzIdentify(f *testing.F) {
	f.Add([]byte(`{"feature_negotiation":true,"tls_v1":true,"heartbeat_interval":-1,"output_buffer_size":-1}`))
	f.Add([]byte(`{"deflate":true,"deflate_level":9,"sample_rate":5,"msg_timeout":1000,"output_buffer_timeout":25}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		l := testLimits()
		id, err := ParseIdentity(body)
		if err != nil {
			return
		}
		s, err := l.Negotiate(&id)
		if err != nil {
			return
		}
		if s.Heartbeat < 0 || s.Heartbeat > l.MaxHeartbeat || s.MsgTimeout < minMsgTimeout || s.MsgTimeout > l.MaxMsgTimeout ||
			s.OutputBufferSize < 1 || s.OutputBufferSize > l.MaxOutputBufferSize || s.SampleRate < 0 || s.SampleRate > 99 ||
			s.Deflate && (s.Snappy || s.DeflateLevel < 1 || s.DeflateLevel > l.MaxDeflateLevel) {
			t.Fatalf("%s gave %+v", body, s)
		}
		if _, err := l.AppendIdentified(nil, &s); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzFrameReader(f *testing.F) {
	f.Add([]byte{0, 0, 0, 6, 0, 0, 0, 0, 'O', 'K', 0, 0, 0, 4, 0, 0, 0, 1})
	f.Add([]byte{0, 0, 0, 3, 0, 0, 0, 0})
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0, 0, 0, 2, 'x'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		const maxData = 32 << 20
		r := NewFrameReader(bytes.NewReader(raw), maxData)
		var again []byte
		for {
			kind, data, err := r.Next()
			if err != nil {
				break
			}
			again = AppendFrame(again, kind, data)
		}
		if !bytes.HasPrefix(raw, again) {
			t.Errorf("%q became %q", raw, again)
		}
		if cap(r.buf) > len(raw)+1<<20 {
			t.Errorf("%d bytes were taken for %d", cap(r.buf), len(raw))
		}
	})
}
