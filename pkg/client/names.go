package client

import (
	"errors"
	"strings"
)

// Errors of messages that every broker refuses.
var (
	errEmpty = errors.New("message is empty")
	errBatch = errors.New("a batch cannot be combined with a body or a delay: the protocol has no such command")
)

// maxName is the maximum length of topic and channel names.
const maxName = 64

// ephemeral is the suffix of ephemeral topics and channels.
const ephemeral = "#ephemeral"

// validName reports whether a name is valid for a topic or a channel.
func validName(name string) bool {
	if len(name) > maxName {
		return false
	}
	name = strings.TrimSuffix(name, ephemeral)
	for i := range len(name) {
		switch b := name[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '.', b == '_', b == '-':
		default:
			return false
		}
	}
	return name != ""
}
