package record

import "encoding/binary"

// KeyOf returns the key of a record, as a slice of p; nil if it has none or p is not a record. It
// decodes no more of the record than necessary.
func KeyOf(p []byte) []byte {
	if len(p) == 0 || p[0]&flagKey == 0 || p[0]&^knownFlags != 0 {
		return nil
	}
	at := 1
	if p[0]&flagDelay != 0 {
		at += 8
	}
	if p[0]&flagTraceID != 0 {
		at += 8
	}
	if p[0]&flagHeader != 0 {
		if len(p) < at+2 {
			return nil
		}
		at += 2 + int(binary.LittleEndian.Uint16(p[at:]))
	}
	if len(p) <= at {
		return nil
	}
	key, _, err := decodeShort(p[at:], MaxKey, "key")
	if err != nil {
		return nil
	}
	return key
}
