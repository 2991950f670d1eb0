package server

import (
	"strings"
	"testing"
)

// TestLimitsAreExact: input of exactly the maximum size is accepted; one byte more is refused
// before it is read.
func TestLimitsAreExact(t *testing.T) {
	const message, body = 1000, 5000
	h := newHarness(t, Options{MaxMessageBytes: message, MaxBodyBytes: body})
	text := func(n int) string { return strings.Repeat("x", n) }
	// Four messages in an MPUB body of the given size: a count, and a size before each.
	batch := func(size int) string {
		const heads, full = 4 + 5*4, 4 * message
		return mpub("t", text(message), text(message), text(message), text(message), text(size-full-heads))
	}
	// The same, but the size before the body is 1.
	small := func(mpub string) string {
		const head = len("MPUB t\n")
		return mpub[:head] + "\x00\x00\x00\x01" + mpub[head+4:]
	}
	identify := func(size int) string { return "IDENTIFY\n" + sized("{"+strings.Repeat(" ", size-2)+"}") }
	for _, tc := range []struct {
		name, send string
		want       []string
	}{
		{"PUB of the largest message", "PUB t\n" + sized(text(message)), []string{"OK"}},
		{"PUB of a byte more", "PUB t\n" + sized(text(message+1)), []string{"E_BAD_MESSAGE PUB message too big 1001 > 1000", "EOF"}},
		{"DPUB of the largest message", "DPUB t 1\n" + sized(text(message)), []string{"OK"}},
		{"DPUB of a byte more", "DPUB t 1\n" + sized(text(message+1)), []string{"E_BAD_MESSAGE DPUB message too big 1001 > 1000", "EOF"}},
		{"MPUB with the largest message", mpub("t", "a", text(message)), []string{"OK"}},
		{"MPUB with a byte more", mpub("t", "a", text(message+1)), []string{"E_BAD_MESSAGE MPUB message too big 1001 > 1000", "EOF"}},
		{"MPUB of the largest body", batch(body), []string{"OK"}},
		{"MPUB of a byte more", batch(body + 1), []string{"E_BAD_BODY MPUB body too big 5001 > 5000", "EOF"}},
		{"MPUB of the largest body under a small size", small(batch(body)), []string{"OK"}},
		{"MPUB of a byte more under a small size", small(batch(body + 1)), []string{"E_BAD_BODY MPUB body too big 5001 > 5000", "EOF"}},
		{"MPUB of more messages than fit under a small size", "MPUB t\n\x00\x00\x00\x01\x00\x00\x03\xe8", []string{"E_BAD_BODY MPUB invalid message count 1000", "EOF"}},
		{"IDENTIFY of the largest body", identify(body), []string{"OK"}},
		{"IDENTIFY of a byte more", identify(body + 1), []string{"E_BAD_BODY IDENTIFY body too big 5001 > 5000", "EOF"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := h.dial(t)
			w.send(tc.send)
			w.expect(tc.want...)
		})
	}
}
