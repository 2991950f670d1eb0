package client

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/internal/jsonbytes"
)

// Limits of message headers; brokers refuse larger values.
const (
	maxKey     = 255
	maxDedup   = 64
	maxHeader  = 65534
	reservedBy = "##"
)

// Names of the header keys that brokers interpret.
const (
	nameDedup = "##dedup_id"
	nameKey   = "##key"
	nameTTL   = "##ttl"
)

// extended reports whether the call needs a header.
func (c *call) extended() bool {
	o := &c.out
	return c.deduplicated() || o.Key != "" || o.TTL > 0 || len(o.Headers) > 0
}

// deduplicated reports whether the broker stores the messages once, however often they are sent.
func (c *call) deduplicated() bool { return c.out.DedupID != "" || c.producer != "" }

// appendHeader writes the header of message i of the call, a JSON object whose names are in
// a fixed order.
func appendHeader(dst []byte, c *call, i int) []byte {
	o := &c.out
	dst = append(dst, '{')
	switch {
	case o.DedupID != "":
		id := o.DedupID
		if len(o.Bodies) > 0 {
			id += "/" + strconv.Itoa(i)
		}
		dst = appendMember(dst, nameDedup, id)
	case c.producer != "":
		dst = append(appendName(dst, nameDedup), '"')
		dst = append(append(dst, c.producer...), '-')
		dst = append(strconv.AppendUint(dst, c.sequence+uint64(i), 36), '"')
	}
	if o.Key != "" {
		dst = appendMember(dst, nameKey, o.Key)
	}
	if o.TTL > 0 {
		dst = append(strconv.AppendInt(append(appendName(dst, nameTTL), '"'), roundUp(o.TTL), 10), '"')
	}
	if len(o.Headers) > 0 {
		for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
			dst = appendMember(dst, name, o.Headers[name])
		}
	}
	return append(dst, '}')
}

func appendMember(dst []byte, name, value string) []byte {
	return appendString(appendName(dst, name), value)
}

func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(appendString(dst, name), ':')
}

// appendString writes a JSON string. Bytes that are not UTF-8 are sent as they are: ids and keys are bytes.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if b := s[i]; b < ' ' || b > '~' || b == '"' || b == '\\' {
			return jsonbytes.AppendText(dst, []byte(s))
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

// appendExtended writes the body of PUB_EXT, or one message of MPUB_EXT: its size, the length of
// its header, the header, and the message.
func appendExtended(dst []byte, c *call, i int, body []byte) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0)
	dst = appendHeader(dst, c, i)
	binary.BigEndian.PutUint16(dst[at+4:], uint16(len(dst)-at-6)) //nolint:gosec // checkHeader bounds it
	dst = append(dst, body...)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4)) //nolint:gosec // as the protocol has it
	return dst
}

// checkHeader refuses headers that brokers refuse.
func checkHeader(o *Outgoing) error {
	size := len(o.Key) + len(o.DedupID) + 128
	switch {
	case len(o.Key) > maxKey:
		return fmt.Errorf("key of %d bytes exceeds the limit of %d", len(o.Key), maxKey)
	case longDedup(o) > maxDedup:
		return fmt.Errorf("dedup id of %d bytes exceeds the limit of %d", longDedup(o), maxDedup)
	case o.TTL < 0:
		return fmt.Errorf("invalid time to live %v", o.TTL)
	case o.Delay > 0 && (o.Key != "" || o.DedupID != "" || o.TTL > 0 || len(o.Headers) > 0):
		return errDelayed
	}
	for name, value := range o.Headers {
		if strings.HasPrefix(name, reservedBy) {
			return fmt.Errorf("header %q: names beginning with %s are reserved", name, reservedBy)
		}
		size += 6*(len(name)+len(value)) + 6 // maximum size as JSON
	}
	if size > maxHeader {
		return fmt.Errorf("headers may take %d bytes; the maximum is %d", size, maxHeader)
	}
	return nil
}

// longDedup returns the length of the longest dedup id of a publish.
func longDedup(o *Outgoing) int {
	if o.DedupID == "" || len(o.Bodies) == 0 {
		return len(o.DedupID)
	}
	return len(o.DedupID) + len("/") + len(strconv.Itoa(len(o.Bodies)-1))
}

var errDelayed = errors.New("a delay cannot be combined with a key, a dedup id, a time to live or headers: the protocol has no such command")

// Versions of the header in a message frame.
const (
	headerNone = 0
	headerJSON = 4
)

var errShortHeader = fmt.Errorf("%w: truncated message header", ErrProtocol)

// splitHeader separates the header from the body of a message that was received with headers.
func splitHeader(data []byte) (header, body []byte, err error) {
	switch {
	case len(data) == 0:
		return nil, nil, errShortHeader
	case data[0] == headerNone:
		return nil, data[1:], nil
	case data[0] != headerJSON:
		return nil, nil, fmt.Errorf("%w: unknown header version %d", ErrProtocol, data[0])
	case len(data) < 3:
		return nil, nil, errShortHeader
	}
	n := 3 + int(binary.BigEndian.Uint16(data[1:]))
	if len(data) < n {
		return nil, nil, errShortHeader
	}
	return data[3:n], data[n:], nil
}

// HeaderValue returns a header of the message as text. It returns false if there is no header of
// that name, or if the consumer was created without WithHeaders.
func (m *Message) HeaderValue(name string) (value string, found bool) {
	members, ok := jsonbytes.Members(m.Header)
	if !ok {
		return "", false
	}
	for key, raw := range members {
		if string(key) != name {
			continue
		}
		found = true
		if text, is := jsonbytes.Text(raw); is {
			value = string(text)
		} else {
			value = string(raw) // a number or another JSON value
		}
	}
	return value, found
}

// Key returns the key that the message was published with; "" if none, or if the consumer was
// created without WithHeaders.
func (m *Message) Key() string {
	key, _ := m.HeaderValue(nameKey)
	return key
}

// dedupSource assigns dedup ids to publishes: the client's name and a number for each message.
type dedupSource struct {
	producer string // "": it gives none
	next     func(n int) uint64
}

// assign assigns ids to a call, unless it has a delay, which excludes ids, or its own id.
func (d *dedupSource) assign(c *call) {
	if d.producer == "" || c.out.DedupID != "" || c.out.Delay > 0 {
		return
	}
	c.producer, c.sequence = d.producer, d.next(c.messages())
}
