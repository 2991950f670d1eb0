package topic

import (
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Identified reports whether any of the messages has a dedup id. A copy for one channel does not
// count: it is stored in addition to its origin.
func Identified(msgs []Message) bool {
	for i := range msgs {
		if msgs[i].Dedup != nil && msgs[i].Address == nil {
			return true
		}
	}
	return false
}

// EachDedup calls f for each record of a batch that has a dedup id and is no copy. The id is valid
// until f returns.
func EachDedup(b commitlog.Batch, f func(o seq.Offset, id []byte)) {
	if b.Attributes()&attrIdentified == 0 {
		return
	}
	records := b.Records(b.First())
	for {
		o, raw, ok := records.Next()
		if !ok {
			return
		}
		if m, err := record.Decode(raw); err == nil && m.Dedup != nil && m.Address == nil {
			f(o, m.Dedup)
		}
	}
}
