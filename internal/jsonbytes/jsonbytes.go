package jsonbytes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Errors of JSON that is refused.
var (
	// ErrNotText is returned by Check and Unmarshal for strings that encoding/json would change.
	ErrNotText = errors.New("a string is not valid UTF-8, or contains half of a surrogate pair")
	// errSyntax is returned for what is no JSON value of the expected type.
	errSyntax = errors.New("invalid JSON")
)

// Unmarshal is json.Unmarshal, except that it refuses what json.Unmarshal would change: see Check.
func Unmarshal(raw []byte, into any) error {
	if err := Check(raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// Check returns ErrNotText if raw contains bytes that are not UTF-8, or an escaped half of a surrogate
// pair. It does not check the syntax.
func Check(raw []byte) error {
	if !utf8.Valid(raw) {
		return ErrNotText
	}
	for rest := raw; ; {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 || i+1 >= len(rest) {
			return nil
		}
		rest = rest[i:]
		if rest[1] != 'u' {
			rest = rest[2:]
			continue
		}
		r, n := escaped(rest)
		if n > 0 && utf16.IsSurrogate(r) {
			return ErrNotText
		}
		rest = rest[max(n, 2):]
	}
}

// Visible returns JSON with each byte that is not UTF-8 as the text \xNN, and each half of a surrogate pair as
// the text \uXXXX. It is for texts that only people read, from programs that must not be refused.
func Visible(raw []byte) []byte {
	if Check(raw) == nil {
		return raw
	}
	out := make([]byte, 0, len(raw)+len(raw)/4)
	for rest := raw; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, `\\x%02x`, rest[0])
		case r == '\\' && len(rest) > 1:
			half, size := escaped(rest)
			if n = max(size, 2); size > 0 && utf16.IsSurrogate(half) {
				out = append(out, '\\')
			}
			out = append(out, rest[:min(n, len(rest))]...)
		default:
			out = append(out, rest[:n]...)
		}
		rest = rest[min(n, len(rest)):]
	}
	return out
}

// Text returns the bytes of a JSON string. Bytes that are not UTF-8 are preserved. Half of a surrogate pair
// becomes the three bytes that UTF-8 would have for it, so that different halves remain different. It
// reports false for anything but a string.
func Text(raw []byte) (text []byte, ok bool) {
	if len(raw) < 2 || raw[0] != '"' || !json.Valid(raw) {
		return nil, false
	}
	return decode(raw), true
}

// decode is Text for a valid string.
func decode(raw []byte) []byte {
	rest := raw[1 : len(raw)-1]
	if bytes.IndexByte(rest, '\\') < 0 {
		return rest
	}
	text := make([]byte, 0, len(rest))
	for {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 {
			return append(text, rest...)
		}
		text, rest = append(text, rest[:i]...), rest[i:]
		if rest[1] == 'u' {
			r, n := escaped(rest)
			text, rest = appendRune(text, r), rest[n:]
			continue
		}
		text, rest = append(text, plainEscape(rest[1])), rest[2:]
	}
}

// plainEscape returns the byte of an escape of one letter.
func plainEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// escaped decodes \uXXXX at the front of raw, or a pair of them, and returns its size; 0 if it is
// malformed.
func escaped(raw []byte) (r rune, size int) {
	const one = len(`\uXXXX`)
	unit := func(at int) (rune, bool) {
		if len(raw) < at+one || raw[at] != '\\' || raw[at+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(raw[at+2:at+one]), 16, 16)
		return rune(n), err == nil //nolint:gosec // 16 bits
	}
	high, ok := unit(0)
	if !ok {
		return 0, 0
	}
	if low, ok := unit(one); ok && utf16.IsSurrogate(high) {
		if pair := utf16.DecodeRune(high, low); pair != utf8.RuneError {
			return pair, 2 * one
		}
	}
	return high, one
}

// appendRune appends a rune, which may be half of a surrogate pair.
func appendRune(dst []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f) //nolint:gosec // the bits that are meant
	}
	return utf8.AppendRune(dst, r)
}

// Members iterates over the members of a JSON object, in their order: names as Text returns them, and
// encoded values. It reports false for anything but an object.
func Members(raw []byte) (members iter.Seq2[[]byte, []byte], ok bool) {
	raw = bytes.TrimLeft(raw, space)
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return nil, false
	}
	return func(yield func(name, value []byte) bool) {
		for rest := raw[1:]; ; {
			rest = bytes.TrimLeft(rest, space+",")
			if rest[0] == '}' {
				return
			}
			name := rest[:size(rest)]
			rest = bytes.TrimLeft(rest[len(name):], space+":")
			value := rest[:size(rest)]
			if !yield(decode(name), value) {
				return
			}
			rest = rest[len(value):]
		}
	}, true
}

const space = " \t\r\n"

// size returns the size of the value at the front of valid JSON.
func size(raw []byte) int {
	switch raw[0] {
	case '"':
		return stringSize(raw)
	case '{', '[':
		depth := 0
		for i := 0; ; {
			switch raw[i] {
			case '"':
				i += stringSize(raw[i:])
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if i++; depth == 0 {
				return i
			}
		}
	}
	if n := bytes.IndexAny(raw, space+",]}"); n >= 0 {
		return n
	}
	return len(raw)
}

// stringSize returns the size of the string at the front of valid JSON.
func stringSize(raw []byte) int {
	for i := 1; ; i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// Value decodes a JSON value as json.Decoder does with UseNumber into an any, with strings and names as Text
// returns them.
func Value(raw []byte) (any, error) {
	if !json.Valid(raw) {
		return nil, errSyntax
	}
	v, _ := next(raw)
	return v, nil
}

// next decodes the value at the front of valid JSON, and returns what follows it. It looks at each byte
// once, however deep the value is.
func next(raw []byte) (v any, rest []byte) {
	raw = bytes.TrimLeft(raw, space)
	switch raw[0] {
	case '"':
		n := stringSize(raw)
		return string(decode(raw[:n])), raw[n:]
	case '{':
		all := map[string]any{}
		for rest = bytes.TrimLeft(raw[1:], space); rest[0] != '}'; rest = bytes.TrimLeft(rest, space+",") {
			n := stringSize(rest)
			name := string(decode(rest[:n]))
			all[name], rest = next(bytes.TrimLeft(rest[n:], space+":"))
		}
		return all, rest[1:]
	case '[':
		all := []any{}
		for rest = bytes.TrimLeft(raw[1:], space); rest[0] != ']'; rest = bytes.TrimLeft(rest, space+",") {
			v, rest = next(rest)
			all = append(all, v)
		}
		return all, rest[1:]
	}
	n := size(raw)
	switch rest = raw[n:]; raw[0] {
	case 't', 'f':
		return raw[0] == 't', rest
	case 'n':
		return nil, rest
	}
	return json.Number(raw[:n]), rest
}

// AppendText appends bytes as a JSON string that Text reads back. Bytes that are not UTF-8 are not escaped:
// JSON has no escape for them.
func AppendText(dst, text []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
