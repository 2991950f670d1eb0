package dedup

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/seq"
)

// known is what the model remembers of an id that is claimed or stored.
type known struct {
	id      int
	claimed bool
	offset  seq.Offset
	at      time.Duration
	waits   []int
	number  uint32
}

// model is a window as a list in the order of the claims.
type model struct {
	lasts time.Duration
	most  int
	all   []*known
	rnd   *rand.Rand
}

func (m *model) find(id int) *known {
	for _, k := range m.all {
		if k.id == id {
			return k
		}
	}
	return nil
}

func (m *model) remove(k *known) {
	m.all = slices.DeleteFunc(m.all, func(l *known) bool { return k == l })
}

func (m *model) stored() (n int) {
	for _, k := range m.all {
		if !k.claimed {
			n++
		}
	}
	return n
}

func (m *model) expire(now time.Duration) {
	for len(m.all) > 0 && !m.all[0].claimed && now-m.all[0].at >= m.lasts {
		m.all = m.all[1:]
	}
}

// add stores an id: one that is claimed keeps its place.
func (m *model) add(id int, o seq.Offset, now time.Duration) {
	k := m.find(id)
	if k == nil || !k.claimed {
		m.remove(k)
		k = &known{id: id}
		m.all = append(m.all, k)
	}
	k.claimed, k.offset, k.at = false, o, now
	m.expire(now)
	for m.stored() > m.most {
		oldest := m.all[0]
		m.all = m.all[1:]
		if oldest.claimed {
			m.all = append(m.all, oldest)
		}
	}
}

// hashOf has many ids begin at the same slot.
func hashOf(id int) *Hash {
	h := new(Hash)
	h.Set([]byte{byte(id), byte(id >> 8)})
	binary.LittleEndian.PutUint32(h[:], uint32(id%7)*0x3fffffff)
	return h
}

func TestWindowMatchesModel(t *testing.T) {
	rnd := testrand.New(t)
	for range 120 {
		m := &model{lasts: time.Duration(1 + rnd.IntN(400)), most: 1 + rnd.IntN(300), rnd: rnd}
		w := NewWindow[int](m.lasts, m.most)
		now, ids := time.Duration(0), 1+rnd.IntN(600)
		slow := rnd.IntN(3) * rnd.IntN(50) // how many claims are open for long
		for op := range 3000 {
			now += 1 + time.Duration(rnd.IntN(3))
			switch id := rnd.IntN(ids); {
			case rnd.IntN(400) == 0:
				now += m.lasts / 2
				m.expire(now)
				w.Expire(now)
			case rnd.IntN(50) == 0:
				if k := m.find(id); k == nil || !k.claimed {
					w.Add(hashOf(id), seq.Offset(op), now)
					m.add(id, seq.Offset(op), now)
				}
			case rnd.IntN(2) == 0:
				m.claim(t, w, id, op, now)
			default:
				m.settle(t, w, id, slow, rnd.IntN(3), seq.Offset(op), now)
			}
			m.check(t, w)
		}
		for id := range ids {
			m.settle(t, w, id, 0, id%2, 0, now)
		}
		now += m.lasts
		if w.Expire(now); w.table.ring != nil || w.table.index != nil {
			t.Fatal("the memory of a table is kept after its last entry")
		}
	}
}

func (m *model) check(t *testing.T, w *Window[int]) {
	t.Helper()
	if got := w.Counts().IDs; got != m.stored() {
		t.Fatalf("%d ids, want %d", got, m.stored())
	}
	entries, slots := int(w.table.tail-w.table.head), 0
	for _, c := range w.table.index {
		if c != 0 {
			slots++
		}
	}
	if slots != len(m.all) || entries != len(m.all)+w.table.gone || len(w.table.ring) > max(fewest, 16*len(m.all), 4*w.most) {
		t.Fatalf("%d entries of %d, %d of them gone, in %d slots, want %d", entries, len(w.table.ring), w.table.gone, slots, len(m.all))
	}
}

func (m *model) claim(t *testing.T, w *Window[int], id, op int, now time.Duration) {
	t.Helper()
	number := w.Next() - m.rnd.Uint32N(2)*m.rnd.Uint32N(100) // sometimes a wrong one
	v, o := w.Claim(hashOf(id), Place[int]{op, id}, now)
	switch k := m.find(id); {
	case k != nil && k.claimed:
		if v != Claimed {
			t.Fatalf("id %d: verdict %d, want claimed", id, v)
		}
		k.waits = append(k.waits, op)
	case k != nil && now-k.at < m.lasts:
		if v != Stored || o != k.offset {
			t.Fatalf("id %d: verdict %d at %d, want stored at %d", id, v, o, k.offset)
		}
	default:
		if v != Fresh {
			t.Fatalf("id %d: verdict %d, want fresh", id, v)
		}
		m.remove(k)
		m.all = append(m.all, &known{id: id, claimed: true, number: number})
	}
}

// settle ends the claim of an id, if it has one: how is 0 to release it.
func (m *model) settle(t *testing.T, w *Window[int], id, slow, how int, o seq.Offset, now time.Duration) {
	t.Helper()
	k := m.find(id)
	if k == nil || !k.claimed || id < slow {
		return
	}
	var told []Place[int]
	if how > 0 {
		told = w.Store(hashOf(id), k.number, o, now)
		m.add(id, o, now)
	} else {
		told = w.Release(hashOf(id), k.number)
		m.remove(k)
	}
	want := []Place[int]{}
	for _, op := range k.waits {
		want = append(want, Place[int]{op, id})
	}
	k.waits = nil
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Fatalf("id %d: %v were told, want %v", id, told, want)
	}
}

// A publisher whose publishes are refused repeats them. That must forget no stored id, and take no
// memory.
func TestRefusedPublishesForgetNothing(t *testing.T) {
	const most = 1000
	w := NewWindow[int](time.Hour, most)
	for i := range most {
		w.Add(hashOf(i), seq.Offset(i), 0)
	}
	for i := range 50 * most { // one is always claimed, so that the released ones are not at the end
		w.Claim(hashOf(most+i%5000), Place[int]{}, 1)
		w.Release(hashOf(most+(i-1)%5000), 0)
	}
	if got := w.Counts(); got.IDs != most || got.Forgotten > 0 || len(w.table.ring) > 4*most {
		t.Errorf("%+v in a table of %d entries", got, len(w.table.ring))
	}
	for i := range most {
		if v, o := w.Claim(hashOf(i), Place[int]{}, 1); v != Stored || o != seq.Offset(i) {
			t.Fatalf("id %d: verdict %d at %d", i, v, o)
		}
	}
}

// An id whose claim does not end must not be taken for an old one.
func TestOverflowKeepsClaims(t *testing.T) {
	w := NewWindow[int](time.Hour, 100)
	w.Claim(hashOf(0), Place[int]{}, 0)
	for i := 1; i < 1000; i++ {
		w.Add(hashOf(i), seq.Offset(i), time.Duration(i))
	}
	if v, _ := w.Claim(hashOf(0), Place[int]{7, 0}, 1000); v != Claimed {
		t.Errorf("verdict %d, want claimed", v)
	}
	if told := w.Store(hashOf(0), 0, 5, 1000); len(told) != 1 || told[0].Publish != 7 {
		t.Errorf("%v were told", told)
	}
	if got := w.Counts(); got.IDs != 100 || got.Forgotten != 900 {
		t.Errorf("%+v", got)
	}
}

func TestWindowExpires(t *testing.T) {
	w := NewWindow[int](10, 0)
	h := hashOf(1)
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

// BenchmarkClaimAndStore has ten batches of 100 ids under way, as a publisher does.
func BenchmarkClaimAndStore(b *testing.B) {
	w := NewWindow[int](time.Hour, DefaultMost)
	var batches [10][]Hash
	var claims [10]uint32
	id := append(make([]byte, 8), "-3w5e11264sgsf"...)
	turn := func(n int) {
		hashes := batches[n/100%10]
		w.PrepareStore(len(hashes))
		for i := range hashes {
			w.Store(&hashes[i], claims[n/100%10]+uint32(i), seq.Offset(n+i), time.Duration(n)) //nolint:gosec // not negative
		}
		hashes = hashes[:0]
		for i := range 100 {
			binary.LittleEndian.PutUint64(id, uint64(n+i)) //nolint:gosec // likewise
			hashes = append(hashes, Hash{})
			hashes[i].Set(id)
		}
		batches[n/100%10] = hashes
		w.Prepare(hashes)
		claims[n/100%10] = w.Next()
		for i := range hashes {
			w.Claim(&hashes[i], Place[int]{}, time.Duration(n))
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

func BenchmarkHash(b *testing.B) {
	for _, id := range []string{"1a2b3c", "1a2b3c4d5e6f7g-123456", strings.Repeat("i", 64)} {
		b.Run(strconv.Itoa(len(id)), func(b *testing.B) {
			var h [100]Hash
			for i := 0; b.Loop(); i++ {
				h[i%len(h)].Set([]byte(id))
			}
		})
	}
}

// A client chooses its ids. Many whose hashes begin alike, which it could find by trying if it knew
// the key, would make each search as long as their number.
func TestNobodyFindsIDsThatShareASlot(t *testing.T) {
	const slots = 1 << 12
	guessed := keys{12345678901234567, 98765432109876543}
	in, most := map[uint32]int{}, 0
	id := make([]byte, 8)
	for n, found := uint64(0), 0; found < 200; n++ {
		binary.LittleEndian.PutUint64(id, n)
		var h Hash
		if h.sum(guessed, id); h.tag()%slots != 0 {
			continue
		}
		found++
		h.Set(id)
		slot := h.tag() % slots
		in[slot]++
		most = max(most, in[slot])
	}
	if most > 10 {
		t.Errorf("%d of 200 ids share a slot", most)
	}
}

func TestLaterEntryOfIDCounts(t *testing.T) {
	w := NewWindow[int](10, 0)
	w.Add(hashOf(1), 1, 1)
	w.Add(hashOf(2), 2, 2)
	w.Add(hashOf(1), 3, 3)
	w.Expire(12)
	if v, o := w.Claim(hashOf(1), Place[int]{}, 12); v != Stored || o != 3 {
		t.Errorf("verdict %d at %d", v, o)
	}
	if v, _ := w.Claim(hashOf(2), Place[int]{}, 12); v != Fresh {
		t.Errorf("verdict %d, want fresh", v)
	}
}

// The hash is compared with a polynomial in arithmetic of any precision: both halves count, each with a
// key of its own, and no bits are lost.
func TestHashIsThePolynomial(t *testing.T) {
	rnd := testrand.New(t)
	p := big.NewInt(prime)
	for range 2000 {
		at := keys{rnd.Uint64() & prime, rnd.Uint64() & prime}
		id := make([]byte, rnd.IntN(70))
		for i := range id {
			id[i] = byte(rnd.Uint32()) | byte(rnd.IntN(2)*0xff)
		}
		var want [2]uint64
		for half, key := range at {
			k, sum := new(big.Int).SetUint64(key), big.NewInt(int64(len(id)))
			sum.Mul(sum, k)
			for word := range slices.Chunk(id, wordBytes) {
				word = slices.Clone(word)
				slices.Reverse(word)
				sum.Add(sum, new(big.Int).SetBytes(word))
				sum.Mul(sum, k)
			}
			if len(id) == 0 {
				sum.Mul(sum, k)
			}
			want[half] = sum.Mod(sum, p).Uint64()
		}
		var h Hash
		h.sum(at, id)
		second := binary.LittleEndian.Uint64(h[8:]) % prime
		if first := binary.LittleEndian.Uint64(h[:8]); first != scatter(want[0]) && first != scatter(want[0]+prime) || second != want[1] {
			t.Fatalf("%x at %d: %x, want %d unscattered and %d", id, at, h, want[0], want[1])
		}
	}
}

// Searches start at slots without a pattern: ids that count up do not crowd, whatever their form.
func TestCountedIDsAreSpread(t *testing.T) {
	const ids = 1 << 14
	for _, form := range []string{"%d", "3w5e11264sgsf-%d", "%08d-client", "%x/%[1]d", "%064d"} {
		var in [ids / 8]int
		for n := range ids {
			var h Hash
			h.Set(fmt.Appendf(nil, form, n))
			in[h.tag()%uint32(len(in))]++
		}
		if most := slices.Max(in[:]); most > 40 { // 8 in the mean; more than 30 once in 10^6 trials
			t.Errorf("%q: %d of %d ids share one of %d slots", form, most, ids, len(in))
		}
	}
}

// Ids that begin alike, end with zeros or are long have hashes of their own.
func TestHashesDiffer(t *testing.T) {
	text := []byte(strings.Repeat("\x00", 40) + strings.Repeat("a", 40) + strings.Repeat("\x00", 40))
	of := map[Hash]string{}
	for from := range text {
		for to := from; to <= len(text); to++ {
			var h Hash
			h.Set(text[from:to])
			if other, ok := of[h]; ok && other != string(text[from:to]) {
				t.Fatalf("%q and %q have one hash", other, text[from:to])
			}
			of[h] = string(text[from:to])
			h.Set(text[from:to])
			if of[h] != string(text[from:to]) {
				t.Fatalf("%q has two hashes", text[from:to])
			}
		}
	}
}
