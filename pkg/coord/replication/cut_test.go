package replication

import (
	"errors"
	"testing"

	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
)

// TestRefusedTruncationCutsNoPositions: a follower that refuses to truncate its log keeps its
// positions, too. It may be the one that leads next.
func TestRefusedTruncationCutsNoPositions(t *testing.T) {
	b := newReplica(t, "b")
	appendTexts(t, b.log, 1, "a", "b", "c", "d")
	b.log.Commit(3)
	var refused []error
	f := NewFollower(b.log, limit.Default().Put, func(err error) { refused = append(refused, err) }, nil)
	t.Cleanup(f.Close)
	took := &ledger{}
	if err := f.Adopt(Following{Epoch: 2, Positions: took}); err != nil {
		t.Fatal(err)
	}
	at := func(end seq.Offset) point {
		p, err := pointBefore(b.log, end)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	other := at(3)
	other.Checksum++
	head := header{Partition{1, 0}, 2}
	for _, tc := range []struct {
		name string
		m    truncate
		want outcome
	}{
		{"below what is committed", truncate{to: at(2)}, outcomeLonger},
		{"to a start below what is committed", truncate{to: point{End: 2}, reset: true}, outcomeLonger},
		{"at another batch", truncate{to: other}, outcomeMismatch},
		{"inside what a later leader may have", truncate{to: at(3)}, outcomeOK},
		{"to a start after the end", truncate{to: point{End: 9}, reset: true}, outcomeOK},
	} {
		took.cuts = nil
		end := b.log.End()
		tc.m.header = head
		a := ask(t, f, KindTruncate, tc.m.encode())
		if a.outcome != tc.want {
			t.Errorf("%s: %s, want outcome %d", tc.name, a.outcome.trouble(), tc.want)
		}
		if cut := len(took.cuts) > 0; cut != (a.outcome == outcomeOK) {
			t.Errorf("%s: outcome %d, and positions were cut at %v", tc.name, a.outcome, took.cuts)
		}
		if a.outcome != outcomeOK && b.log.End() != end {
			t.Errorf("%s: the log ends at %d, before at %d", tc.name, b.log.End(), end)
		}
	}
	if len(refused) != 2 || !errors.Is(refused[0], ErrLonger) || !errors.Is(refused[1], ErrLonger) {
		t.Errorf("reported: %v", refused)
	}
}
