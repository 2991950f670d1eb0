package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/seq"
)

// known is what the model remembers of a stored id.
type known struct {
	offset seq.Offset
	at     time.Duration
}

// model is a window as a map and a list.
type model struct {
	lasts  time.Duration
	most   int
	stored map[int]known
	order  []int // ids of the ring, oldest first, with when they came
	times  []time.Duration
	claims map[int][]int // id: who claims it, then who waits
}

func (m *model) expire(now time.Duration) {
	for len(m.order) > 0 && now-m.times[0] >= m.lasts {
		m.drop()
	}
}

func (m *model) drop() {
	if k := m.stored[m.order[0]]; k.at == m.times[0] {
		delete(m.stored, m.order[0])
	}
	m.order, m.times = m.order[1:], m.times[1:]
}

// hashOf has many ids begin at the same slot.
func hashOf(id int) Hash {
	h := HashOf([]byte{byte(id), byte(id >> 8)})
	binary.LittleEndian.PutUint32(h[:], uint32(id%7)*0x3fffffff)
	return h
}

func TestWindowMatchesModel(t *testing.T) {
	rnd := testrand.New(t)
	for range 60 {
		m := &model{
			lasts: time.Duration(1 + rnd.IntN(400)), most: 1 + rnd.IntN(300),
			stored: map[int]known{}, claims: map[int][]int{},
		}
		w := NewWindow[int](m.lasts, m.most)
		now, ids := time.Duration(0), 1+rnd.IntN(600)
		for op := range 3000 {
			now += 1 + time.Duration(rnd.IntN(3))
			if rnd.IntN(400) == 0 {
				now += m.lasts / 2
			}
			id := rnd.IntN(ids)
			if at := m.claims[id]; at != nil && rnd.IntN(2) == 0 {
				m.settle(t, w, id, rnd.IntN(3) > 0, seq.Offset(op), now)
				continue
			}
			m.claim(t, w, id, op, now)
		}
		m.expire(now)
		w.Expire(now)
		if got := w.Counts().IDs; got != len(m.order) {
			t.Fatalf("%d entries, want %d", got, len(m.order))
		}
	}
}

func (m *model) claim(t *testing.T, w *Window[int], id, op int, now time.Duration) {
	t.Helper()
	v, o := w.Claim(hashOf(id), Place[int]{op, id}, now)
	k, stored := m.stored[id]
	stored = stored && now-k.at < m.lasts
	switch claimed := m.claims[id]; {
	case stored:
		if v != Stored || o != k.offset {
			t.Fatalf("id %d: verdict %d at %d, want stored at %d", id, v, o, k.offset)
		}
	case claimed != nil:
		if v != Claimed {
			t.Fatalf("id %d: verdict %d, want claimed by %d", id, v, claimed[0])
		}
		m.claims[id] = append(claimed, op)
	default:
		if v != Fresh {
			t.Fatalf("id %d: verdict %d, want fresh", id, v)
		}
		m.claims[id] = []int{op}
	}
}

func (m *model) settle(t *testing.T, w *Window[int], id int, store bool, o seq.Offset, now time.Duration) {
	t.Helper()
	var told []Place[int]
	if store {
		told = w.Store(hashOf(id), o, now)
		m.expire(now)
		if len(m.order) >= m.most {
			m.drop()
		}
		m.stored[id] = known{o, now}
		m.order, m.times = append(m.order, id), append(m.times, now)
	} else {
		told = w.Release(hashOf(id))
	}
	want := []Place[int]{}
	for _, op := range m.claims[id][1:] {
		want = append(want, Place[int]{op, id})
	}
	delete(m.claims, id)
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Fatalf("id %d: %v were told, want %v", id, told, want)
	}
}

func TestClaimsMatchMap(t *testing.T) {
	rnd := testrand.New(t)
	var c claims
	want := map[Hash]bool{}
	for _, most := range []int{10, 3000, 40, 3000, 0} { // it grows and shrinks
		for range 20_000 {
			h := hashOf(rnd.IntN(4000))
			if len(want) > most || rnd.IntN(2) == 0 {
				c.Remove(&h)
				delete(want, h)
			} else if added := c.Add(&h); added == want[h] {
				t.Fatalf("added: %v, although it was there: %v", added, want[h])
			} else {
				want[h] = true
			}
			if c.count != len(want) || len(c.slots) > max(fewest, 32*len(want)) {
				t.Fatalf("%d hashes in %d slots, want %d", c.count, len(c.slots), len(want))
			}
		}
		for h := range want {
			if c.Add(&h) {
				t.Fatal("a hash was lost")
			}
		}
	}
}

func TestWindowExpires(t *testing.T) {
	w := NewWindow[int](10, 0)
	h := HashOf([]byte("a"))
	w.Add(h, 7, 100)
	if v, o := w.Claim(h, Place[int]{}, 109); v != Stored || o != 7 {
		t.Errorf("within the window: %d at %d", v, o)
	}
	if v, _ := w.Claim(h, Place[int]{}, 110); v != Fresh {
		t.Errorf("when it is over: %d", v)
	}
}

func TestOverflowForgetsOldest(t *testing.T) {
	w := NewWindow[int](time.Hour, 100)
	for i := range 150 {
		w.Add(hashOf(i), seq.Offset(i), time.Duration(i))
	}
	if got := w.Counts(); got != (Counts{IDs: 100, Forgotten: 50}) {
		t.Errorf("%+v", got)
	}
	for i := range 150 {
		if v, _ := w.Claim(hashOf(i), Place[int]{}, 150); (v == Stored) != (i >= 50) {
			t.Errorf("id %d: verdict %d", i, v)
		}
	}
}

func TestEmptyTableHoldsNoMemory(t *testing.T) {
	w := NewWindow[int](10, 0)
	for i := range 1000 {
		w.Add(hashOf(i), 0, 0)
	}
	w.Expire(10)
	if w.table.ring != nil || w.table.index != nil {
		t.Error("the memory of a table is kept after its last entry")
	}
}

// BenchmarkClaimAndStore has ten batches of 100 ids under way, as a publisher does.
func BenchmarkClaimAndStore(b *testing.B) {
	w := NewWindow[int](time.Hour, DefaultMost)
	var batches [10][]Hash
	id := make([]byte, 8)
	turn := func(n int) {
		hashes := batches[n/100%10]
		w.Prepare(hashes, true)
		for i, h := range hashes {
			w.Store(h, seq.Offset(n+i), time.Duration(n)) //nolint:gosec // not negative
		}
		hashes = hashes[:0]
		for i := range 100 {
			binary.LittleEndian.PutUint64(id, uint64(n+i)) //nolint:gosec // likewise
			hashes = append(hashes, HashOf(id))
		}
		batches[n/100%10] = hashes
		w.Prepare(hashes, false)
		for _, h := range hashes {
			w.Claim(h, Place[int]{}, time.Duration(n))
		}
	}
	n := 0
	for ; n < DefaultMost+1000; n += 100 {
		turn(n)
	}
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		if k%100 == 0 {
			turn(n)
			n += 100
		}
	}
}

// A client chooses its ids. Many whose hashes begin alike, which it could find by trying, would make
// each search as long as their number.
func TestNobodyFindsIDsThatShareASlot(t *testing.T) {
	const slots = 1 << 12
	in, most := map[uint32]int{}, 0
	id := make([]byte, 8)
	for n, found := uint64(0), 0; found < 200; n++ {
		binary.LittleEndian.PutUint64(id, n)
		sum := sha256.Sum256(id)
		if binary.LittleEndian.Uint32(sum[:])%slots != 0 {
			continue
		}
		found++
		h := HashOf(id)
		slot := h.tag() % slots
		in[slot]++
		most = max(most, in[slot])
	}
	if most > 10 {
		t.Errorf("%d of 200 ids share a slot", most)
	}
}

func TestLaterEntryOfIDCounts(t *testing.T) {
	var table table
	h := hashOf(1)
	table.Add(h, 1, 1)
	table.Add(hashOf(2), 2, 2)
	table.Add(h, 3, 3)
	for range 2 {
		if o, at, ok := table.Find(h); !ok || o != 3 || at != 3 {
			t.Errorf("found %d of %v, %v", o, at, ok)
		}
		table.Drop()
	}
	table.Drop()
	if _, _, ok := table.Find(h); ok {
		t.Error("it is found after it was dropped")
	}
}
