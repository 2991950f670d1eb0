package access

import (
	"fmt"
	"strings"

	"github.com/brokerd/brokerd/pkg/failure"
)

// Right is a kind of operation.
type Right string

// The rights. Admin includes all others, and operations without a topic, such as draining
// nodes.
const (
	Publish   Right = "publish"   // messages to a topic
	Subscribe Right = "subscribe" // to a channel of a topic, and see its messages
	Manage    Right = "manage"    // a topic and its channels: create, alter, pause, empty, delete
	Read      Right = "read"      // metadata, statistics and metrics of the whole cluster
	Admin     Right = "admin"
)

// maxPattern is the maximum length of a pattern, in bytes: that of a name.
const maxPattern = 64

// Rule grants a right. Topic and Channel are patterns: * matches any number of characters,
// everything else itself.
type Rule struct {
	Right   Right  `json:"right"`
	Topic   string `json:"topic,omitempty"`   // of Publish, Subscribe and Manage
	Channel string `json:"channel,omitempty"` // of Subscribe
}

// String returns the rule in text form.
func (r Rule) String() string {
	text := string(r.Right)
	if r.Topic != "" {
		text += " " + r.Topic
	}
	if r.Channel != "" {
		text += "/" + r.Channel
	}
	return text
}

// validate returns why a rule is invalid, or nil.
func (r Rule) validate() error {
	topic, channel := false, false
	switch r.Right {
	case Publish, Manage:
		topic = true
	case Subscribe:
		topic, channel = true, true
	case Read, Admin:
	default:
		return fmt.Errorf("%w: right %.40q, must be publish, subscribe, manage, read or admin", failure.InvalidAccess, r.Right)
	}
	if err := validPattern("topic", r.Topic, topic); err != nil {
		return fmt.Errorf("rule %s: %w", r.Right, err)
	}
	if err := validPattern("channel", r.Channel, channel); err != nil {
		return fmt.Errorf("rule %s: %w", r.Right, err)
	}
	return nil
}

// validPattern checks a pattern, which is either needed or must be empty.
func validPattern(of, pattern string, needed bool) error {
	switch {
	case !needed && pattern != "":
		return fmt.Errorf("%w: it has no %s pattern", failure.InvalidAccess, of)
	case !needed:
		return nil
	case pattern == "":
		return fmt.Errorf("%w: it needs a %s pattern; * is every %[2]s", failure.InvalidAccess, of)
	case len(pattern) > maxPattern:
		return fmt.Errorf("%w: %s pattern of %d bytes, over %d", failure.InvalidAccess, of, len(pattern), maxPattern)
	}
	for i := range len(pattern) {
		if c := pattern[i]; !plain(c) && c != '*' && c != '#' {
			return fmt.Errorf("%w: %s pattern %q contains a character that names cannot contain", failure.InvalidAccess, of, pattern)
		}
	}
	return nil
}

// plain reports whether a byte may be in a name.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// Demand is an operation that a client requests.
type Demand struct {
	Right   Right
	Topic   string // "": of no topic
	Channel string // "": of no channel
}

// Grants reports whether the rule permits a demand.
func (r Rule) Grants(d Demand) bool {
	switch {
	case r.Right == Admin:
		return true
	case r.Right != d.Right:
		return false
	case r.Right == Read:
		return true
	case d.Topic == "" || !match(r.Topic, d.Topic):
		return false
	case r.Right != Subscribe:
		return true
	}
	return d.Channel != "" && match(r.Channel, d.Channel)
}

// match reports whether a name matches a pattern. It takes at most as many steps as the
// product of both lengths.
func match(pattern, name string) bool {
	p, n := 0, 0
	star, from := -1, 0 // the last * so far, and the position in the name from which it was tried
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
