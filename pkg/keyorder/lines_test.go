package keyorder

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
)

// naive is Lines that are written to be obviously right.
type naive struct {
	lines map[string][]int32
	keys  map[int32]string
	out   map[int32]int
}

func (n *naive) may(m int32) bool {
	key, in := n.keys[m]
	if !in {
		return true
	}
	for _, other := range n.lines[key] {
		if n.out[other] > 0 {
			return false
		}
	}
	return n.lines[key][0] == m
}

// next is the member of a key that may leave; 0: none.
func (n *naive) next(key string) int32 {
	if line := n.lines[key]; len(line) > 0 && n.may(line[0]) {
		return line[0]
	}
	return 0
}

func (n *naive) bytes() (b int64) {
	for key, line := range n.lines {
		b += lineBytes + int64(len(key)) + memberBytes*int64(len(line))
	}
	return b
}

func (n *naive) longest() (key string, first int32, members int) {
	for _, k := range slices.Sorted(maps.Keys(n.lines)) {
		if line := n.lines[k]; len(line) > members {
			key, first, members = k, line[0], len(line)
		}
	}
	return key, first, members
}

func (n *naive) step(rng *rand.Rand, l *Lines) error {
	m := int32(1 + rng.IntN(30))
	key, in := n.keys[m]
	switch rng.IntN(4) {
	case 0, 1:
		if in {
			return nil
		}
		key = fmt.Sprint("key", rng.IntN(6))
		buf := []byte(key)
		l.Join(m, buf)
		buf[0] = 'x'
		n.keys[m], n.lines[key] = key, append(n.lines[key], m)
	case 2:
		want := int32(0)
		if in {
			n.lines[key] = slices.DeleteFunc(n.lines[key], func(o int32) bool { return o == m })
			delete(n.keys, m)
			delete(n.out, m)
			if want = n.next(key); len(n.lines[key]) == 0 {
				delete(n.lines, key)
			}
		}
		if got := l.Leave(m); got != want {
			return fmt.Errorf("when %d left %d may go, want %d", m, got, want)
		}
	default:
		if rng.IntN(2) == 0 {
			if l.Out(m); in {
				n.out[m]++
			}
			return nil
		}
		want := int32(0)
		if n.out[m] > 0 {
			n.out[m]--
			want = n.next(key)
		}
		if got := l.Back(m); got != want {
			return fmt.Errorf("when %d was back %d may go, want %d", m, got, want)
		}
	}
	return nil
}

func (n *naive) check(l *Lines) error {
	for m := int32(1); m <= 31; m++ {
		if _, in := n.keys[m]; l.In(m) != in || l.May(m) != n.may(m) {
			return fmt.Errorf("member %d: in %v, may %v", m, l.In(m), l.May(m))
		}
		want := int32(0)
		if key, in := n.keys[m]; in {
			want = n.lines[key][0]
		}
		if got := l.First(m); got != want {
			return fmt.Errorf("first before %d is %d, want %d", m, got, want)
		}
	}
	key, first, members := n.longest()
	if k, f, c := l.Longest(); k != key || f != first || c != members {
		return fmt.Errorf("longest is %q from %d with %d, want %q from %d with %d", k, f, c, key, first, members)
	}
	if l.Len() != len(n.keys) || l.bytes != n.bytes() || len(l.byKey) != len(n.lines) {
		return fmt.Errorf("%d members, %d bytes, %d keys", l.Len(), l.bytes, len(l.byKey))
	}
	if want := l.Len() >= 12 || l.bytes >= 2300; l.Full() != want {
		return fmt.Errorf("full %v with %d members and %d bytes", l.Full(), l.Len(), l.bytes)
	}
	return nil
}

func TestKeyQueuesMatchModel(t *testing.T) {
	rng := testrand.New(t)
	for range 200 {
		l := New(Limits{Tracked: 12, Bytes: 2300})
		n := &naive{map[string][]int32{}, map[int32]string{}, map[int32]int{}}
		for range 300 {
			err := n.step(rng, l)
			if err == nil {
				err = n.check(l)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func BenchmarkAKeyPasses(b *testing.B) {
	l, key := New(DefaultLimits()), []byte("customer-1234567")
	b.ReportAllocs()
	for range b.N {
		l.Join(1, key)
		l.Out(1)
		l.Out(1)
		l.Back(1)
		l.Leave(1)
	}
}
