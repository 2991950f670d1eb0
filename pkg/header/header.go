package header

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/pkg/fate"
)

// Max is the maximum size of a header in bytes.
const Max = 65534

// The reserved keys. Their values are strings.
const (
	reserved   = "##"
	keyLetter  = "dead_letter"           // the broker's own, in dead letters: see Parse
	keyTraceID = "##trace_id"            // decimal digits
	keyTag     = "##client_dispatch_tag" // see Reserved.Tag
	keyKey     = "##key"                 // 1 to maxKey bytes
	keyDedup   = "##dedup_id"            // 1 to maxDedup bytes
	keyTTL     = "##ttl"                 // decimal digits: milliseconds; also as a number
)

// The maximum sizes in bytes, and the longest time, in a header.
const (
	maxKey   = 255
	maxDedup = 64
	maxTTL   = 10 * 365 * 24 * time.Hour
)

// Errors of headers that are refused.
var (
	// errNotObject is returned for text that is not a JSON object.
	errNotObject = fate.Refuse("not a JSON object")
	// errTooLong is returned for a header of more than Max bytes.
	errTooLong = fate.Refuse("header too long")
	// ErrTraceID is returned for a trace id that is not a string of decimal
	// digits.
	ErrTraceID = fate.Refuse("trace id is not a string of decimal digits")
	// errOption is returned for an invalid key, dedup id or time to live.
	errOption = fate.Refuse("invalid reserved key")
	// ErrWritten is returned for a key that only the broker writes.
	ErrWritten = fate.Refuse("header is written by the broker and cannot be published")
)

// Reserved are the values of a header's reserved keys.
type Reserved struct {
	TraceID uint64
	Traced  bool   // there is a trace id, and its publisher asks for the message's position
	Tag     string // of the consumers that the message is for; "": none
	Only    bool   // the header contains nothing else
	Key     []byte // what the message is about; nil: none
	Dedup   []byte // the publisher's id for it; nil: none
	TTL     time.Duration
	// Options means that the header has no keys but those of a trace id, a key, a dedup id and a time to live: such a
	// header is accepted by every topic.
	Options bool
}

// Parse reads a header, which must be a JSON object, and checks its reserved keys. The reserved key
// of dead letters is refused: a client that could publish one would choose the channel to which a
// redrive appends its body. Key and Dedup may share their memory with raw.
func Parse(raw []byte) (Reserved, error) {
	if len(raw) > Max {
		return Reserved{}, fmt.Errorf("%w: %d bytes, limit is %d", errTooLong, len(raw), Max)
	}
	if id, ok := lone(raw); ok {
		return Reserved{Only: true, Dedup: id, Options: true}, nil
	}
	return parsePlain(raw)
}

// parsePlain reads any header, plain ones in a fast way.
func parsePlain(raw []byte) (Reserved, error) {
	var list [maxPlain]field
	if fields, ok := plain(raw, list[:0]); ok {
		return reservedOf(fields)
	}
	return parseAny(raw)
}

// parseAny reads any header. Bytes of texts that are not UTF-8 are preserved: ids and keys are bytes.
func parseAny(raw []byte) (Reserved, error) {
	members, ok := jsonbytes.Members(raw)
	if !ok {
		return Reserved{}, errNotObject
	}
	var fields []field
	numbers := map[string]int{} // of fields, by key: the last of several with one key counts
	for key, value := range members {
		f := field{key: key, value: value}
		if bytes.HasPrefix(key, []byte(reserved)) {
			f.text, f.isText = jsonbytes.Text(value)
		}
		if i, there := numbers[string(key)]; there {
			fields[i] = f
			continue
		}
		numbers[string(key)] = len(fields)
		fields = append(fields, f)
	}
	return reservedOf(fields)
}

// field is a key of a header with its encoded value and, if that is a string, the decoded
// text.
type field struct {
	key, value, text []byte
	isText           bool
}

// reservedOf reads the fields of a header.
func reservedOf(fields []field) (Reserved, error) {
	r := Reserved{Only: true}
	for i := range fields { // before anything else is wrong
		if k := fields[i].key; len(k) == len(keyLetter) && bytes.EqualFold(k, []byte(keyLetter)) { // as JSON is decoded
			return Reserved{}, fmt.Errorf("%w: %s", ErrWritten, keyLetter)
		}
	}
	others := false
	for i := range fields {
		f := &fields[i]
		if !bytes.HasPrefix(f.key, []byte(reserved)) {
			r.Only, others = false, true
			continue
		}
		option, err := r.parse(f)
		if err != nil {
			return Reserved{}, err
		}
		others = others || !option
	}
	r.Options = !others
	return r, nil
}

// parse reads the value of a reserved key. An unknown one is refused: a misspelt key would switch off what it asks
// for. option reports that it is one that is accepted on any topic.
func (r *Reserved) parse(f *field) (option bool, err error) {
	switch string(f.key) {
	case keyTraceID:
		id, err := strconv.ParseUint(string(f.text), 10, 64)
		if !f.isText || err != nil {
			return false, fmt.Errorf("%w: %.40s", ErrTraceID, f.value)
		}
		r.TraceID, r.Traced = id, true
		return true, nil
	case keyTag:
		if tag := string(f.text); ValidTag(tag) { // no consumer can select an invalid tag: the message goes to all
			r.Tag = tag
		}
		return false, nil
	case keyKey:
		r.Key = f.text
		return true, f.bounded(maxKey)
	case keyDedup:
		r.Dedup = f.text
		return true, f.bounded(maxDedup)
	case keyTTL:
		text := f.text
		if !f.isText {
			text = f.value
		}
		ms, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || ms < 0 || ms > maxTTL.Milliseconds() {
			return false, fmt.Errorf("%w: %s is %.40s: want milliseconds from 0 to %d", errOption, f.key, f.value, maxTTL.Milliseconds())
		}
		r.TTL = time.Duration(ms) * time.Millisecond
		return true, nil
	}
	return false, fmt.Errorf("%w: %.40q is not one of %s", errOption, f.key,
		strings.Join([]string{keyTraceID, keyTag, keyKey, keyDedup, keyTTL}, ", "))
}

// bounded returns why the text of a key is invalid.
func (f *field) bounded(most int) error {
	if !f.isText || len(f.text) == 0 || len(f.text) > most {
		return fmt.Errorf("%w: %s must be a string of 1 to %d bytes", errOption, f.key, most)
	}
	return nil
}

// MaxTag is the longest tag, in bytes.
const MaxTag = 100

// ValidTag reports whether text can be a tag: 1 to MaxTag of the characters a-z A-Z 0-9 _ -.
func ValidTag(text string) bool {
	if len(text) == 0 || len(text) > MaxTag {
		return false
	}
	for _, c := range []byte(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
