package trace

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
)

// Context is a trace context of the W3C: the span of a publisher that a message comes from.
// The zero Context is none.
type Context struct {
	TraceID [16]byte
	SpanID  [8]byte
	Flags   byte
}

// Valid says whether there is a context.
func (c Context) Valid() bool { return c.TraceID != [16]byte{} && c.SpanID != [8]byte{} }

// Sampled says whether the publisher has its trace recorded.
func (c Context) Sampled() bool { return c.Flags&1 != 0 }

// headerKey is the key of a message's header that holds the context.
const headerKey = "traceparent"

// contextOf returns the context in the header of a message; the zero Context: the header has
// none that can be read. A header without the word costs a search for it.
func contextOf(header []byte) Context {
	if !bytes.Contains(header, []byte(headerKey)) {
		return Context{}
	}
	var h map[string]json.RawMessage
	if json.Unmarshal(header, &h) != nil {
		return Context{}
	}
	var text string
	if json.Unmarshal(h[headerKey], &text) != nil {
		return Context{}
	}
	return ParseContext(text)
}

// ParseContext reads the value of a traceparent; the zero Context: it is not valid. Of versions
// that are not known yet, it reads what they share with version 00.
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

// lowerHex decodes hexadecimal digits, of which letters are lower case.
func lowerHex(dst []byte, text string) bool {
	for _, r := range []byte(text) {
		if r >= 'A' && r <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(dst, []byte(text))
	return err == nil
}
