package record

import (
	"encoding/binary"
	"fmt"
	"time"
)

// hasOptions reports whether m has a key, a dedup id or a time to live, which few
// messages have.
func (m *Message) hasOptions() bool { return len(m.Key)|len(m.Dedup)|int(m.TTL) != 0 }

// optionsSize returns the size of the options in a record.
func (m *Message) optionsSize() int {
	n := 0
	if len(m.Key) > 0 {
		n += 1 + len(m.Key)
	}
	if len(m.Dedup) > 0 {
		n += 1 + len(m.Dedup)
	}
	if m.TTL > 0 {
		n += 8
	}
	return n
}

// encodeOptions writes the options to p, and returns the flags with theirs
// added, and the rest of p.
func (m *Message) encodeOptions(flags byte, p []byte) (byte, []byte) {
	if len(m.Key) > 0 {
		flags |= flagKey
		p = encodeShort(p, m.Key)
	}
	if len(m.Dedup) > 0 {
		flags |= flagDedup
		p = encodeShort(p, m.Dedup)
	}
	if m.TTL > 0 {
		flags |= flagTTL
		binary.LittleEndian.PutUint64(p, uint64(m.TTL))
		p = p[8:]
	}
	return flags, p
}

// decodeOptions reads the options in flags from p, and returns the rest of p.
func (m *Message) decodeOptions(flags byte, p []byte) (rest []byte, err error) {
	if flags&flagKey != 0 {
		if m.Key, p, err = decodeShort(p, MaxKey, "key"); err != nil {
			return nil, err
		}
	}
	if flags&flagDedup != 0 {
		if m.Dedup, p, err = decodeShort(p, MaxDedup, "dedup id"); err != nil {
			return nil, err
		}
	}
	if flags&flagTTL != 0 {
		if len(p) < 8 {
			return nil, fmt.Errorf("%w: truncated time to live", ErrInvalid)
		}
		if m.TTL = time.Duration(binary.LittleEndian.Uint64(p)); m.TTL <= 0 {
			return nil, fmt.Errorf("%w: time to live out of range", ErrInvalid)
		}
		p = p[8:]
	}
	return p, nil
}

// encodeShort writes a part of 1 to 255 bytes and its length, and returns the
// rest of p.
func encodeShort(p, part []byte) []byte {
	p[0] = byte(len(part))
	return p[1+copy(p[1:], part):]
}

// decodeShort reads a part of 1 to most bytes.
func decodeShort(p []byte, most int, what string) (part, rest []byte, err error) {
	if len(p) == 0 {
		return nil, nil, fmt.Errorf("%w: truncated %s", ErrInvalid, what)
	}
	switch n := int(p[0]); {
	case n == 0 || n > most:
		return nil, nil, fmt.Errorf("%w: %s of %d bytes, 1 to %d are valid", ErrInvalid, what, n, most)
	case len(p)-1 < n:
		return nil, nil, fmt.Errorf("%w: truncated %s", ErrInvalid, what)
	default:
		return p[1 : 1+n], p[1+n:], nil
	}
}
