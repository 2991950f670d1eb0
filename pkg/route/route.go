package route

import (
	"hash/fnv"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/keys"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Topic holds the properties of a topic that matter for routing.
type Topic struct {
	Partitions int
	Ordered    bool // every message needs a key
}

// PartitionOfKey returns the partition that messages of a key go to: FNV-1a of
// the key, modulo the number of partitions.
func PartitionOfKey(key []byte, partitions int) int {
	h := fnv.New32a()
	h.Write(key)
	return int(h.Sum32() % uint32(partitions))
}

// Finder finds the keys of messages by the rule of their topic. It reads a rule once. The
// zero Finder is ready, and may be used by many goroutines.
type Finder struct{ last atomic.Pointer[parsed] }

// parsed is a rule with its text.
type parsed struct {
	text string
	rule keys.Rule
}

// Find sets the key of messages without one to the key in their body, by a rule:
// see keys.ParseRule. An invalid rule finds none.
func (f *Finder) Find(rule string, messages []topic.Message) {
	if rule == "" {
		return
	}
	p := f.last.Load()
	if p == nil || p.text != rule {
		r, err := keys.ParseRule(rule)
		if err != nil {
			return // the metadata accepts no such rule
		}
		p = &parsed{rule, r}
		f.last.Store(p)
	}
	for i := range messages {
		if m := &messages[i]; m.Key == nil {
			m.Key = p.rule.Of(m.Body)
		}
	}
}

// Split finds the partitions of messages. The key of a message determines its partition;
// without a key, route does, or else the dedup id, so that duplicates reach the same
// partition. named: all messages go to at. parts: they go to several. Otherwise no message
// determines a partition. If there are several partitions, rest picks the one for messages
// that determine none.
func (t Topic) Split(messages []topic.Message, route []byte, rest func() int) (at int, named bool, parts []*Part) {
	several := false
	for i := range messages {
		p, ok := t.place(&messages[i], route)
		if i == 0 {
			at, named = p, ok
		}
		if several = p != at || ok != named; several {
			return 0, false, t.parts(messages, route, rest())
		}
	}
	return at, named, nil
}

// Unplaced reports whether any of the messages has no key.
func Unplaced(messages []topic.Message) bool {
	for i := range messages {
		if messages[i].Key == nil {
			return true
		}
	}
	return false
}

func (t Topic) place(m *topic.Message, route []byte) (int, bool) {
	switch {
	case m.Key != nil:
		return PartitionOfKey(m.Key, t.Partitions), true
	case t.Ordered:
	case route != nil:
		return PartitionOfKey(route, t.Partitions), true
	case m.Dedup != nil:
		return PartitionOfKey(m.Dedup, t.Partitions), true
	}
	return 0, false
}

// Part is the messages of a publish that go to one partition.
type Part struct {
	Partition int
	Messages  []topic.Message
	index     []int // of each in the publish
}

// parts splits messages by partition, in the order in which the partitions
// occur.
func (t Topic) parts(messages []topic.Message, route []byte, rest int) []*Part {
	byPartition := map[int]*Part{}
	var all []*Part
	for i := range messages {
		n, ok := t.place(&messages[i], route)
		if !ok {
			n = rest
		}
		p := byPartition[n]
		if p == nil {
			p = &Part{Partition: n}
			byPartition[n] = p
			all = append(all, p)
		}
		p.Messages, p.index = append(p.Messages, messages[i]), append(p.index, i)
	}
	return all
}
