package hugepage

import (
	"fmt"
	"testing"
)

func TestFull(t *testing.T) {
	const n = 16 // pages of a part
	part := func(used int) []byte {
		p := make([]byte, n)
		for i := range used {
			p[i] = 0xff // only the first bit counts
		}
		for i := used; i < n; i++ {
			p[i] = 0xfe
		}
		return p
	}
	for _, c := range []struct {
		used []int // pages of each part
		want string
	}{
		{nil, "[]"},
		{[]int{16}, "[{0 1}]"},
		{[]int{15}, "[]"}, // the runtime has released a page, and does not count it
		{[]int{0, 16, 16, 2, 16}, "[{1 3} {4 5}]"},
		{[]int{16, 16, 16}, "[{0 3}]"},
	} {
		var resident []byte
		for _, u := range c.used {
			resident = append(resident, part(u)...)
		}
		if got := fmt.Sprint(full(append(resident, part(n)[:n/2]...), n)); got != c.want {
			t.Errorf("parts with %d used pages: %s, want %s", c.used, got, c.want)
		}
	}
}
