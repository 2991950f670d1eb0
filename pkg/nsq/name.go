package nsq

import "strings"

// MaxNameLen is the longest name of a topic or channel, in bytes, with its
// ephemeral suffix.
const MaxNameLen = 64

// EphemeralSuffix marks topics and channels that are never kept on disk.
const EphemeralSuffix = "#ephemeral"

// ValidName reports whether name may name a topic or a channel: 1 to MaxNameLen
// bytes of letters, digits, dot, underscore and dash, perhaps followed by
// EphemeralSuffix.
func ValidName(name string) bool {
	if len(name) == 0 || len(name) > MaxNameLen {
		return false
	}
	stem := strings.TrimSuffix(name, EphemeralSuffix)
	if stem == "" {
		return false
	}
	for i := range len(stem) {
		if !nameByte(stem[i]) {
			return false
		}
	}
	return true
}

// Ephemeral reports whether a valid name carries the ephemeral suffix.
func Ephemeral(name string) bool { return strings.HasSuffix(name, EphemeralSuffix) }

func nameByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return c == '.' || c == '_' || c == '-'
}
