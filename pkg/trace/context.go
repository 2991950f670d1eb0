package trace

import (
	"bytes"
	"encoding/hex"

	"github.com/brokerd/brokerd/internal/jsonbytes"
)

// Context is a W3C trace context: the publisher's span of a message. The zero Context means none.
type Context struct {
	TraceID [16]byte
	SpanID  [8]byte
	Flags   byte
}

// Valid reports whether there is a context.
func (c Context) Valid() bool { return c.TraceID != [16]byte{} && c.SpanID != [8]byte{} }

// Sampled reports whether the publisher's trace is recorded.
func (c Context) Sampled() bool { return c.Flags&1 != 0 }

// headerKey is the header key of the context.
const headerKey = "traceparent"

// contextOf returns the context in the header of a message, or the zero Context if there is no
// valid one. For a header without the key, it only searches for the key.
func contextOf(header []byte) Context {
	if !bytes.Contains(header, []byte(headerKey)) {
		return Context{}
	}
	members, _ := jsonbytes.Members(header)
	if members == nil {
		return Context{}
	}
	var text []byte
	for name, value := range members {
		if string(name) == headerKey {
			text, _ = jsonbytes.Text(value)
		}
	}
	return ParseContext(string(text))
}

// ParseContext parses a traceparent. It returns the zero Context if the text is not valid. Of
// unknown versions, it reads the fields of version 00.
func ParseContext(text string) Context {
	const size = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(text) < size || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Context{}
	}
	version, flags := text[:2], text[53:55]
	if version == "ff" || version == "00" && len(text) > size || len(text) > size && text[size] != '-' {
		return Context{}
	}
	var c Context
	var b [1]byte
	if !lowerHex(b[:], version) || !lowerHex(c.TraceID[:], text[3:35]) || !lowerHex(c.SpanID[:], text[36:52]) || !lowerHex(b[:], flags) {
		return Context{}
	}
	c.Flags = b[0]
	if !c.Valid() {
		return Context{}
	}
	return c
}

// lowerHex decodes hexadecimal digits with lower-case letters.
func lowerHex(dst []byte, text string) bool {
	for _, r := range []byte(text) {
		if r >= 'A' && r <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(dst, []byte(text))
	return err == nil
}
