// Package isr computes the committed end of a leader's log from the acknowledgements of the
// in-sync replicas. It is pure, without network, clock or log, and belongs to one term.
//
// Invariants: the committed end never decreases and never passes what any counted replica has
// acknowledged in this term. A replica being added counts from the proposal of the change, and
// a replica being removed counts until the change is applied (the larger set counts).
//
// While the in-sync set is smaller than the topic requires, the committed end stays at or below
// the start of the term: entries on too few replicas are not acknowledged. Inherited entries
// are still committed once the remaining replicas hold them: an earlier leader may have
// acknowledged them, no publisher waits for them now, and consumption continues.
package isr

import (
	"slices"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Tracker follows the acknowledgements of one term. It is not for concurrent
// use: the term's mutex guards it.
type Tracker struct {
	committed seq.Offset
	start     seq.Offset // of the term
	least     int        // members without which nothing behind start is committed
	members   []member
}

type member struct {
	node    meta.NodeID
	acked   seq.Offset
	known   bool // has acknowledged something in this term
	applied bool // is in the ISR that metadata has
	pending bool // is proposed to be in it
}

// New returns the tracker of a term that starts with the given ISR. committed is the known
// committed end; entries beyond it are committed only once every member has acknowledged them
// again.
func New(members []meta.NodeID, committed seq.Offset) *Tracker {
	t := &Tracker{committed: committed}
	t.Apply(members)
	return t
}

// Require sets how many members the ISR must have for anything at start, where the
// term began, and after to be committed.
func (t *Tracker) Require(least int, start seq.Offset) (committed seq.Offset, moved bool) {
	t.least, t.start = least, start
	return t.advance()
}

// Counts reports whether nothing is committed without node.
func (t *Tracker) Counts(node meta.NodeID) bool {
	for _, m := range t.members {
		if m.node == node {
			return m.applied || m.pending
		}
	}
	return false
}

// Ack records that node holds everything below end with the topic's durability, in this term.
// It returns the committed end and whether it moved. An acknowledgement of a node that does not
// count is kept for when it does.
func (t *Tracker) Ack(node meta.NodeID, end seq.Offset) (committed seq.Offset, moved bool) {
	m := t.member(node)
	m.known = true
	m.acked = max(m.acked, end)
	return t.advance()
}

// Forget drops the state of a node: its session ended, and a new one
// starts with a new comparison of logs.
func (t *Tracker) Forget(node meta.NodeID) {
	m := t.member(node)
	m.known, m.acked = false, 0
}

// Propose also counts the members of a proposed ISR, in addition to the applied one and earlier
// proposals, until the next Apply or Withdraw.
func (t *Tracker) Propose(members []meta.NodeID) {
	for _, n := range members {
		t.member(n).pending = true
	}
}

// Withdraw drops a proposal: it was refused and will never be applied.
func (t *Tracker) Withdraw() (committed seq.Offset, moved bool) {
	for i := range t.members {
		t.members[i].pending = false
	}
	return t.advance()
}

// Apply makes members the ISR, as applied by the metadata. It ends any proposal.
func (t *Tracker) Apply(members []meta.NodeID) (committed seq.Offset, moved bool) {
	for i := range t.members {
		t.members[i].applied, t.members[i].pending = false, false
	}
	for _, n := range members {
		t.member(n).applied = true
	}
	return t.advance()
}

// Committed returns the committed end.
func (t *Tracker) Committed() seq.Offset { return t.committed }

// Acked returns what node is known to hold in this term.
func (t *Tracker) Acked(node meta.NodeID) (seq.Offset, bool) {
	for _, m := range t.members {
		if m.node == node {
			return m.acked, m.known
		}
	}
	return 0, false
}

func (t *Tracker) advance() (seq.Offset, bool) {
	least, counted, applied := seq.Offset(0), false, 0
	for _, m := range t.members {
		if !m.applied && !m.pending {
			continue
		}
		if !m.known {
			return t.committed, false
		}
		if !counted || m.acked < least {
			least, counted = m.acked, true
		}
		if m.applied {
			applied++
		}
	}
	if applied < t.least {
		least = min(least, t.start)
	}
	if !counted || least <= t.committed {
		return t.committed, false
	}
	t.committed = least
	return least, true
}

// member returns the entry of node, which it creates if missing. The pointer is valid until the
// next call.
func (t *Tracker) member(node meta.NodeID) *member {
	i := slices.IndexFunc(t.members, func(m member) bool { return m.node == node })
	if i < 0 {
		t.members = append(t.members, member{node: node})
		i = len(t.members) - 1
	}
	return &t.members[i]
}
