package peer

import (
	"context"
	"sync"
	"testing"
)

// benchPeer returns a Peer for a node of this process over loopback, with a
// handler that returns empty answers.
func benchPeer(b *testing.B) *Peer {
	b.Helper()
	o := memOptions(TCP{}, "b")
	o.LocalAddr = "127.0.0.1"
	o.Handlers[ClassForward] = handlerFunc(func(_ Node, _ uint64, _ uint8, _ []byte, reply func([][]byte, error)) {
		reply(nil, nil)
	})
	_, addr := node(b, o, "127.0.0.1:0")
	o.Self, o.Incarnation = "a", 7
	a, _ := node(b, o, "127.0.0.1:0")
	p := a.Peer("b", ClassForward, addr)
	if _, err := p.Call(context.Background(), 1, nil); err != nil {
		b.Fatal(err)
	}
	return p
}

// pipelined makes b.N calls from callers with window calls in progress each.
func pipelined(b *testing.B, callers, window, size int) {
	p := benchPeer(b)
	payload := [][]byte{make([]byte, size)}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for c := range callers {
		calls := b.N / callers
		if c < b.N%callers {
			calls++
		}
		wg.Go(func() {
			slots := make(chan struct{}, window)
			done := func(_ []byte, err error) {
				if err != nil {
					b.Error(err)
				}
				<-slots
			}
			for range calls {
				slots <- struct{}{}
				p.Go(1, payload, done)
			}
			for range window {
				slots <- struct{}{}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

func BenchmarkPipelined16x64(b *testing.B) { pipelined(b, 16, 64, 64) }

func BenchmarkPipelined16x1(b *testing.B) { pipelined(b, 16, 1, 64) }

func BenchmarkFrames128K(b *testing.B) { pipelined(b, 1, 16, 128<<10) }

func BenchmarkLoneCall(b *testing.B) {
	p := benchPeer(b)
	payload := numbered(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Call(context.Background(), 1, payload); err != nil {
			b.Fatal(err)
		}
	}
}
