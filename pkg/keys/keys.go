// Package keys extracts the key of a message from its body, for publishers that cannot set one.
// It is stateless: the result depends on the rule and the body only, and costs one pass over at
// most maxBody bytes.
package keys

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/internal/jsonbytes"
)

const (
	// maxKey is the maximum size of a key, in bytes.
	maxKey = 255
	// maxBody is how much of a body is searched. A key beyond it is not found.
	maxBody = 64 << 10
	// maxRule is the maximum size of a rule, in bytes.
	maxRule = 256
	// maxDepth is the maximum number of parts of a JSON pointer.
	maxDepth = 16
)

// Rule defines where the key of a message is. The zero Rule finds none.
type Rule struct {
	pointer []string // of "json:"; nil: another rule
	until   byte     // of "prefix:"
	prefix  bool
}

// ParseRule reads "json:/a/b", an RFC 6901 pointer to a string, number or boolean, or
// "prefix:C", the bytes before the first byte C. "" is the rule that finds none.
func ParseRule(text string) (Rule, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch {
	case text == "":
		return Rule{}, nil
	case len(text) > maxRule:
		return Rule{}, fmt.Errorf("key-from has %d bytes, limit is %d", len(text), maxRule)
	case kind == "prefix" && len(rest) == 1:
		return Rule{until: rest[0], prefix: true}, nil
	case kind == "json" && strings.HasPrefix(rest, "/"):
		return parsePointer(rest)
	}
	return Rule{}, fmt.Errorf("key-from is %q, want json:/POINTER or prefix:C", text)
}

func parsePointer(text string) (Rule, error) {
	parts := strings.Split(text[1:], "/")
	if len(parts) > maxDepth {
		return Rule{}, fmt.Errorf("key-from has %d parts, limit is %d", len(parts), maxDepth)
	}
	for i, p := range parts {
		for rest := p; ; {
			_, after, found := strings.Cut(rest, "~")
			if !found {
				break
			}
			if !strings.HasPrefix(after, "0") && !strings.HasPrefix(after, "1") {
				return Rule{}, fmt.Errorf("key-from has ~ in %q, want ~0 for ~ or ~1 for /", p)
			}
			rest = after
		}
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return Rule{pointer: parts}, nil
}

// Of returns the key of a body; nil if it has none, or one that is empty or too long.
func (r Rule) Of(body []byte) []byte {
	if len(body) > maxBody {
		body = body[:maxBody]
	}
	var key []byte
	switch {
	case r.prefix:
		if i := bytes.IndexByte(body, r.until); i > 0 {
			key = body[:i]
		}
	case r.pointer != nil:
		key = (&search{body: body, d: json.NewDecoder(bytes.NewReader(body))}).find(r.pointer)
	}
	if len(key) == 0 || len(key) > maxKey {
		return nil
	}
	return key
}

// search reads the tokens of a body. encoding/json replaces bytes of texts that are not UTF-8, so texts are
// read from the body itself.
type search struct {
	body []byte
	d    *json.Decoder
}

// text reads a token, and returns the bytes of a string.
func (s *search) text() (token json.Token, text []byte, err error) {
	from := s.d.InputOffset()
	if token, err = s.d.Token(); err != nil {
		return nil, nil, err
	}
	if _, is := token.(string); is {
		raw := s.body[from:s.d.InputOffset()]
		text, is = jsonbytes.Text(raw[bytes.IndexByte(raw, '"'):])
		if !is {
			return nil, nil, errors.New("BUG: a string token is no string")
		}
	}
	return token, text, nil
}

// find follows a pointer, and reads no more than necessary.
func (s *search) find(pointer []string) []byte {
	d := s.d
	d.UseNumber()
	for _, part := range pointer {
		open, err := d.Token()
		if err != nil {
			return nil
		}
		switch open {
		case json.Delim('{'):
			if !s.enterMember(part) {
				return nil
			}
		case json.Delim('['):
			if !enterElement(d, part) {
				return nil
			}
		default:
			return nil
		}
	}
	value, text, err := s.text()
	if err != nil {
		return nil
	}
	switch v := value.(type) {
	case string:
		return text
	case json.Number:
		return []byte(v)
	case bool:
		return strconv.AppendBool(nil, v)
	}
	return nil
}

// enterMember reads an object up to the value of its first member with a name.
func (s *search) enterMember(name string) bool {
	for s.d.More() {
		_, member, err := s.text()
		if err != nil {
			return false
		}
		if string(member) == name {
			return true
		}
		if !skip(s.d) {
			return false
		}
	}
	return false
}

// enterElement reads an array up to an element.
func enterElement(d *json.Decoder, index string) bool {
	n, err := strconv.ParseUint(index, 10, 31)
	if err != nil || len(index) > 1 && index[0] == '0' {
		return false
	}
	for range n {
		if !d.More() || !skip(d) {
			return false
		}
	}
	return d.More()
}

// skip reads one value.
func skip(d *json.Decoder) bool {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return false
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return true
		}
	}
}
