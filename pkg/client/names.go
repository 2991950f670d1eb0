package client

import (
	"errors"
	"strings"
)

// Messages that no broker takes.
var (
	errEmpty = errors.New("an empty message")
	errBatch = errors.New("a batch cannot be combined with a body or a delay: the protocol has no such command")
)

// maxName is the longest name of a topic or a channel.
const maxName = 64

// ephemeral ends the names of what goes with its last consumer.
const ephemeral = "#ephemeral"

// validName reports whether a topic or a channel may have a name.
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
