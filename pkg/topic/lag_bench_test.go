package topic

import (
	"fmt"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// BenchmarkLag takes and finishes 16 KiB of messages per iteration, at least one
// message, like a connection, far behind the end of a log.
func BenchmarkLag(b *testing.B) {
	for _, of := range []struct{ batch, message int }{{64 << 10, 128}, {2 << 20, 128}, {2 << 20, 4 << 10}, {4 << 20, 1 << 20}} {
		b.Run(fmt.Sprintf("batch=%dKiB/message=%d", of.batch>>10, of.message), func(b *testing.B) {
			o := commitlog.Options{Cache: commitlog.NewCache(limit.NewMemory(128 << 20))}
			p := filledPartition(b, vfs.OS{}, b.TempDir(), o, 64<<20/of.batch, of.batch/of.message, make([]byte, of.message))
			k := soleConsumer(b, p, time.Minute)
			most := max(16<<10/of.message, 1)
			b.SetBytes(int64(most * of.message))
			b.ReportAllocs()
			var at []seq.Offset
			for b.Loop() {
				at = at[:0]
				if _, err := k.Take(t0, most, func(d *Delivery) error { at = append(at, d.ID.Offset()); return nil }); err != nil {
					b.Fatal(err)
				}
				for _, o := range at {
					if err := k.Finish(o); err != nil {
						b.Fatal(err)
					}
				}
				if len(at) == 0 || at[len(at)-1] == p.Log().End()-1 {
					if err := k.ch.Seek(0); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
