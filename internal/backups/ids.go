package backups

import (
	"fmt"

	"github.com/brokerd/brokerd/pkg/seq"
)

// ids are those of the messages of a topic.
type ids struct{ n seq.Numbering }

// idsOf returns the ids of the topic whose first message has one.
func idsOf(first string) (ids, error) {
	id, err := seq.ParseID([]byte(first))
	if err != nil {
		return ids{}, fmt.Errorf("first id %q: %w", first, err)
	}
	return ids{seq.NumberingFrom(id)}, nil
}

// id returns the id of a message.
func (i ids) id(partition int, o uint64) string {
	return i.n.ID(seq.NewMessageID(partition, seq.Offset(o))).String()
}
