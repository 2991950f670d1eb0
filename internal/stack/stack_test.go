package stack

import (
	"fmt"
	"testing"
)

// deep uses about as much stack as a write to a file below a journal.
func deep(depth int) byte {
	var frame [256]byte
	if depth > 0 {
		frame[depth] = deep(depth - 1)
	}
	return frame[depth]
}

func BenchmarkGoroutine(b *testing.B) {
	for _, grown := range []bool{false, true} {
		b.Run(fmt.Sprintf("grown=%v", grown), func(b *testing.B) {
			done := make(chan byte)
			for range b.N {
				go func() {
					if grown {
						Grow()
					}
					done <- deep(20)
				}()
				<-done
			}
		})
	}
}
