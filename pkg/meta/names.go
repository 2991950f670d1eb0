package meta

import (
	"fmt"
	"strings"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
)

// Limits of the metadata's content. They bound memory and snapshot size; each is well above the
// design limits of a cluster.
const (
	// MaxNameLength is the maximum length of the name of a topic, a channel or a node, including an
	// ephemeral suffix.
	MaxNameLength = 64
	// maxTopics is the maximum number of topics of a cluster.
	maxTopics = 100_000
	// maxClusterPartitions is the maximum number of partitions of all topics together.
	maxClusterPartitions = 200_000
	// maxChannels is the maximum number of durable channels of one topic.
	maxChannels = 4096
	// maxReplicas is the maximum replication factor.
	maxReplicas = 15
	// maxNodes is the maximum number of nodes of a cluster.
	maxNodes = 256
	// maxTextLength bounds addresses, zones, versions and reasons.
	maxTextLength = 256
	// maxBodyLimit is the largest MaxMessage of a topic, in bytes.
	maxBodyLimit = limit.Message
)

// ephemeralSuffix ends the names of ephemeral topics and channels, which are deleted with their
// last user.
const ephemeralSuffix = "#ephemeral"

// ValidTopicName reports whether a name is valid for a topic: 1 to 64 bytes in total, of letters,
// digits, '.', '_' and '-', optionally with ephemeralSuffix, but neither "." nor "..".
func ValidTopicName(name string) bool { return validName(name) }

// ValidChannelName reports whether a name is valid for a channel. The rule is that of topics.
func ValidChannelName(name string) bool { return validName(name) }

// NSQName reports whether name satisfies nsqd's rule for names of topics and channels. It accepts
// what ValidTopicName accepts, and also "." and "..": stored topics and channels with these names
// can be found and deleted, but not created.
func NSQName(name string) bool {
	if len(name) == 0 || len(name) > MaxNameLength {
		return false
	}
	base := strings.TrimSuffix(name, ephemeralSuffix)
	return base != "" && plain(base)
}

// IsDotSegment reports whether name is "." or "..": as a segment of a path it names another
// resource.
func IsDotSegment(name string) bool { return name == "." || name == ".." }

// IsEphemeral reports whether name has the suffix of an ephemeral topic or channel.
func IsEphemeral(name string) bool { return strings.HasSuffix(name, ephemeralSuffix) }

// ValidNodeID reports whether id is valid for a node: 1 to 64 bytes of letters, digits, '.', '_'
// and '-'.
func ValidNodeID(id NodeID) bool {
	return len(id) > 0 && len(id) <= MaxNameLength && plain(string(id))
}

// checkTopic refuses what cannot be the name of an existing topic.
func checkTopic(name string) error {
	if !NSQName(name) {
		return fmt.Errorf("%w: topic %q", failure.InvalidName, name)
	}
	return nil
}

func checkNode(id NodeID) error {
	if !ValidNodeID(id) {
		return fmt.Errorf("%w: node %q", failure.InvalidName, id)
	}
	return nil
}

func validName(name string) bool { return NSQName(name) && !IsDotSegment(name) }

func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
