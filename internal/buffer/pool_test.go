package buffer

import "testing"

func TestCapIsTheCapacityOfTheBuffer(t *testing.T) {
	var p Pool
	for _, tt := range []struct{ n, want int }{
		{0, 1 << 10},
		{1, 1 << 10},
		{1 << 10, 1 << 10},
		{1<<10 + 1, 2 << 10},
		{64 << 10, 64 << 10},
		{1<<24 - 1, 1 << 24},
		{1 << 24, 1 << 24},
		{1<<24 + 1, 1<<24 + 1}, // larger ones have no class
	} {
		if got := Cap(tt.n); got != tt.want {
			t.Errorf("Cap(%d) = %d, want %d", tt.n, got, tt.want)
		}
		for range 2 { // a new one, then perhaps the same again
			buf := p.Get(tt.n)
			if len(*buf) != 0 || cap(*buf) != tt.want {
				t.Errorf("a buffer for %d bytes has %d bytes of %d, want none of %d", tt.n, len(*buf), cap(*buf), tt.want)
			}
			*buf = append(*buf, make([]byte, min(tt.n, 100))...)
			p.Put(buf)
		}
	}
	p.Put(nil)
}
