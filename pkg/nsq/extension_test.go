package nsq

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/seq"
)

func TestTracedGolden(t *testing.T) {
	want := &Traced{ID: 5, TraceID: 0x1122334455667788, Position: 0x7c, RawSize: 0x23}
	got := want.AppendFrame([]byte("x"))
	const golden = "x\x00\x00\x00\x22\x00\x00\x00\x00OK\x00\x00\x00\x00\x00\x00\x00\x05\x11\x22\x33\x44\x55\x66\x77\x88\x00\x00\x00\x00\x00\x00\x00\x7c\x00\x00\x00\x23"
	if string(got) != golden {
		t.Errorf("\n got %q\nwant %q", got, golden)
	}
	if back, ok := parseTraced(got[1+frameHeaderLen:]); !ok || back != *want {
		t.Errorf("read back as %+v, %v", back, ok)
	}
	for _, other := range []string{"", OK, "OK" + string(make([]byte, 27)), "NO" + string(make([]byte, 28))} {
		if _, ok := parseTraced([]byte(other)); ok {
			t.Errorf("%q was read", other)
		}
	}
}

// FuzzExtensionBodies checks that header and message together are the body, and that nothing
// outside of it is read.
func FuzzExtensionBodies(f *testing.F) {
	f.Add([]byte("\x00\x02{}x"))
	f.Add([]byte("12345678x"))
	f.Add([]byte("\xff\xff{}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if id, message, err := SplitTraced(body); err == nil {
			again := append(binary.BigEndian.AppendUint64(nil, id), message...)
			if len(message) == 0 || !bytes.Equal(again, body) {
				t.Errorf("%q is trace id %x and %q", body, id, message)
			}
		}
		header, message, err := SplitExtended(body)
		if err != nil {
			return
		}
		again := binary.BigEndian.AppendUint16(nil, uint16(len(header)))
		again = append(append(again, header...), message...)
		if len(message) == 0 || cap(header) != len(header) || !bytes.Equal(again, body) {
			t.Errorf("%q is header %q and %q", body, header, message)
		}
	})
}

// The frames are tested in pkg/server, as consumers get them.
func TestExtendedMessagesReadBack(t *testing.T) {
	want := Extended{
		Traced:    Traced{ID: 0x2001, TraceID: 7, Position: 1 << 40, RawSize: 300},
		Timestamp: 42, Attempts: 4000, Header: []byte(`{"k":1}`), Body: []byte("body"),
	}
	for _, form := range []Form{{Binary: true}, {Binary: true, Ext: true}, {Binary: true, Details: true}, {Binary: true, Ext: true, Details: true}} {
		frame := form.AppendExtended([]byte("x"), &want)[1:]
		if len(frame) > form.Overhead(len(want.Header))+len(want.Body) {
			t.Errorf("%+v: a frame of %d bytes", form, len(frame))
		}
		expected := want
		if !form.Ext {
			expected.Header = nil
		}
		if !form.Details {
			expected.Position, expected.RawSize = 0, 0
		}
		kind, data, err := NewFrameReader(bytes.NewReader(frame), 1000).Next()
		if err != nil || kind != FrameMessage {
			t.Fatal(kind, err)
		}
		got, err := form.ParseExtended(data)
		if diff := cmp.Diff(expected, got); diff != "" || err != nil {
			t.Errorf("%+v: %v\n%s", form, err, diff)
		}
	}
}

// FuzzExtendedMessages checks that a decoded frame encodes to the same frame.
func FuzzExtendedMessages(f *testing.F) {
	f.Add(make([]byte, 60), true, true)
	f.Add([]byte("ttttttttaaiiiiiiiiiiiiiiii\x04\x00\x02{}ppppppppssssbody"), true, true)
	f.Add([]byte("ttttttttaaiiiiiiiiiiiiiiii\x00"), true, false)
	f.Fuzz(func(t *testing.T, data []byte, ext, details bool) {
		form := Form{Binary: true, Ext: ext, Details: details}
		m, err := form.ParseExtended(data)
		if err != nil {
			return
		}
		if ext && len(m.Header) == 0 && data[messageHeaderLen] != extNone || ext && len(m.Header) > 0 && data[messageHeaderLen] != extJSON {
			return // versions that are decoded but not encoded
		}
		if again := form.AppendExtended(nil, &m)[frameHeaderLen:]; !bytes.Equal(again, data) {
			t.Errorf("%q became %q", data, again)
		}
	})
}

// parseTraced decodes a response frame with a Traced; false: another response.
func parseTraced(data []byte) (Traced, bool) {
	if len(data) != tracedLen || string(data[:len(OK)]) != OK {
		return Traced{}, false
	}
	rest := data[len(OK):]
	return Traced{
		ID: seq.WireID(binary.BigEndian.Uint64(rest)), TraceID: binary.BigEndian.Uint64(rest[8:]),
		Position: int64(binary.BigEndian.Uint64(rest[16:])), //nolint:gosec // the bits of a signed number
		RawSize:  int64(binary.BigEndian.Uint32(rest[24:])),
	}, true
}

// ParseExtended decodes an extended message frame. The header and the body alias data.
func (f Form) ParseExtended(data []byte) (Extended, error) {
	plain, err := ParseMessage(data)
	if err != nil {
		return Extended{}, err
	}
	m := Extended{Timestamp: plain.Timestamp, Attempts: plain.Attempts, Body: plain.Body}
	if m.ID, err = f.ID(plain.ID); err != nil {
		return Extended{}, err
	}
	m.TraceID = binary.BigEndian.Uint64(plain.ID[8:])
	if f.Ext {
		if m.Header, m.Body, err = splitExt(m.Body); err != nil {
			return Extended{}, err
		}
	}
	if f.Details {
		if len(m.Body) < detailsLen {
			return Extended{}, errShortMessage
		}
		m.Position = int64(binary.BigEndian.Uint64(m.Body)) //nolint:gosec // the bits of a signed number
		m.RawSize = int64(binary.BigEndian.Uint32(m.Body[8:]))
		m.Body = m.Body[detailsLen:]
	}
	return m, nil
}

// splitExt splits the header of a message from the rest.
func splitExt(rest []byte) (header, body []byte, err error) {
	if len(rest) > 0 && rest[0] == extNone {
		return nil, rest[1:], nil
	}
	if len(rest) < 1+headerLengthLen {
		return nil, nil, errShortMessage
	}
	end := 1 + headerLengthLen + int(binary.BigEndian.Uint16(rest[1:]))
	if len(rest) < end {
		return nil, nil, errShortMessage
	}
	return rest[1+headerLengthLen : end : end], rest[end:], nil
}
