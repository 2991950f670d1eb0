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

// A buffer that grew by append has any capacity. Its next user would return more memory to its budget than it took.
func TestReusedBuffersHaveTheCapacityOfNewOnes(t *testing.T) {
	for _, grown := range []int{1<<10 + 512, 3 << 10, 1<<24 + 1} {
		var p Pool
		for range 100 { // the pool may drop some
			p.Put(new(make([]byte, 0, grown)))
			for _, n := range []int{1 << 10, 2 << 10, 1 << 24} {
				if buf := p.Get(n); cap(*buf) != Cap(n) {
					t.Fatalf("after one of %d bytes was put back, a buffer for %d bytes has %d, want %d", grown, n, cap(*buf), Cap(n))
				}
			}
		}
	}
}
