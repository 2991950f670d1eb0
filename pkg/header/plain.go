package header

import (
	"bytes"
	"encoding/binary"
)

// maxPlain is the maximum number of keys of a plain header.
const maxPlain = 8

// plain appends the fields of a plain header to list: an object of a few whole numbers and ASCII
// strings without escapes, as nearly all headers are. It takes a tenth of the time of a JSON parser. It
// returns false for any other header, valid or not, and for duplicate keys.
func plain(raw []byte, list []field) ([]field, bool) {
	p := plainReader{rest: raw}
	if !p.take('{') {
		return nil, false
	}
	for {
		key, ok := p.text()
		if !ok || !p.take(':') || len(list) == maxPlain {
			return nil, false
		}
		for i := range list {
			if bytes.Equal(list[i].key, key) {
				return nil, false
			}
		}
		f := field{key: key}
		from := p.skip()
		if f.text, f.isText = p.text(); !f.isText && !p.number() {
			return nil, false
		}
		f.value = from[:len(from)-len(p.rest)]
		list = append(list, f)
		if p.take('}') {
			return list, len(p.skip()) == 0
		}
		if !p.take(',') {
			return nil, false
		}
	}
}

// The parts of a header that contains only a dedup id, as pkg/client and others write it.
const (
	loneStart = `{"` + keyDedup + `":"`
	loneEnd   = `"}`
)

// lone returns the dedup id of a header that contains nothing else and is written without white space
// and escapes. It returns false for any other header, valid or not. Publishers that batch messages
// with ids send little else; it takes a fifth of the time of plain.
func lone(raw []byte) (id []byte, ok bool) {
	n := len(raw) - len(loneEnd)
	if n <= len(loneStart) || n > len(loneStart)+maxDedup || string(raw[:len(loneStart)]) != loneStart || string(raw[n:]) != loneEnd {
		return nil, false
	}
	id = raw[len(loneStart):n]
	return id, bytes.IndexByte(id, '"') < 0 && printable(id)
}

// plainReader reads parts of a plain header from the front of rest.
type plainReader struct{ rest []byte }

// skip skips white space and returns the rest.
func (p *plainReader) skip() []byte {
	for len(p.rest) > 0 && (p.rest[0] == ' ' || p.rest[0] == '\t' || p.rest[0] == '\n' || p.rest[0] == '\r') {
		p.rest = p.rest[1:]
	}
	return p.rest
}

// take reads the byte b after white space, and reports whether it was there.
func (p *plainReader) take(b byte) bool {
	if rest := p.skip(); len(rest) == 0 || rest[0] != b {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// text reads a text, if there is one.
func (p *plainReader) text() ([]byte, bool) {
	rest := p.skip()
	if len(rest) == 0 || rest[0] != '"' {
		return nil, false
	}
	n := bytes.IndexByte(rest[1:], '"')
	if n < 0 || !printable(rest[1:1+n]) {
		return nil, false
	}
	p.rest = rest[n+2:]
	return rest[1 : 1+n], true
}

// each has the same value in each byte.
const each = 0x0101010101010101

// printable reports whether text consists of printable ASCII characters other than the backslash. It
// looks at eight at a time.
func printable(text []byte) bool {
	const high = each << 7
	for ; len(text) >= 8; text = text[8:] {
		x := binary.LittleEndian.Uint64(text)
		slash, del := x^each*'\\', x^each*0x7f
		if (x|(x-each*' ')|(slash-each)|(del-each))&high != 0 { // the lowest byte that is too low, a backslash or a delete borrows
			return false
		}
	}
	for _, c := range text {
		if c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}

// number reads a whole number that is not negative, if there is one.
func (p *plainReader) number() bool {
	n := 0
	for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
		n++
	}
	if n == 0 || n > 1 && p.rest[0] == '0' {
		return false
	}
	p.rest = p.rest[n:]
	return true // the caller finds what may not follow: it is neither a comma nor a brace
}
