package positions

import (
	"errors"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/sharing"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// reports is a source whose positions are what a function returns.
type reports func() Snapshot

func (f reports) Current() Snapshot     { return f() }
func (reports) Changes() (Update, bool) { return Update{}, false }

// recipient is a Sharer that records the order of what it is given.
type recipient struct{ got []string }

func (*recipient) Shared() bool     { return true }
func (*recipient) Epoch() seq.Epoch { return 1 }

func (r *recipient) SharePositions(_ []byte, done func(error)) {
	r.got = append(r.got, "snapshot")
	done(nil)
}

func (r *recipient) ShareUpdate(_ []byte, done func(error)) func([]byte) {
	r.got = append(r.got, "update")
	done(nil)
	return func([]byte) {}
}

func (r *recipient) ShareAdvance(change []byte, _ func(error)) {
	r.got = append(r.got, string(change))
}

// TestChangeWaitsForSnapshotInProgress: it was made after the state in the snapshot.
func TestChangeWaitsForSnapshotInProgress(t *testing.T) {
	var k *Keeper
	meanwhile := func() {}
	k, _, err := OpenKeeper(KeeperOptions{
		FS: testFS(t), Dir: testDir, United: func() {},
		Source: reports(func() Snapshot { meanwhile(); return orderedAt(1) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	to := new(recipient)
	k.Serve(to)
	k.MarkDirty()
	meanwhile = func() { k.Advance(sharing.Change{Data: []byte("change")}) }
	if err := k.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"snapshot", "snapshot", "change"}; !slices.Equal(to.got, want) {
		t.Errorf("shared %q, want %q", to.got, want)
	}
}

// TestFoldedUpdatesAreFoundAgain stores random updates, and folds them at random. Power is cut after
// each step: the positions found are those with all updates.
func TestFoldedUpdatesAreFoundAgain(t *testing.T) {
	rng := testrand.New(t)
	for range 40 {
		m := testFS(t)
		p, _ := mustOpen(t, m)
		if err := errors.Join(p.Begin(), p.Save(orderedAt(0))); err != nil {
			t.Fatal(err)
		}
		want := mirror{snap: orderedAt(0)}
		floor, folds := seq.Offset(0), 0
		for range 30 {
			floor += seq.Offset(rng.IntN(3))             //nolint:gosec // not negative
			from := floor + 1 + seq.Offset(rng.IntN(20)) //nolint:gosec // likewise
			u := Update{Changed: []ChannelChange{{Name: "c", Version: 1, Change: position.Change{
				Position: position.Position{Floor: floor, Finished: []position.Range{{From: from, End: from + 2}}},
			}}}}
			data, err := u.encode()
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Update(data); err != nil {
				t.Fatal(err)
			}
			want.update(u)
			if rng.IntN(4) == 0 {
				folds++
				if _, err := p.Fold(); err != nil {
					t.Fatal(err)
				}
			}
			q, got := mustOpen(t, m.CrashClone(vfs.Crash{Rand: rng, KeepPercent: rng.IntN(101), TornPercent: 30}))
			if !got.equal(want.snapshot()) || q.damaged != nil {
				t.Fatalf("after %d folds: found %+v (damage %v), want %+v", folds, got, q.damaged, *want.snapshot())
			}
		}
	}
}
