package topic

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// BenchmarkDeferAMillion has a consumer defer a million messages one after the
// other, with a checkpoint after every 20,000, as in a fifth of a second. It
// reports the bytes of positions written, and the longest checkpoint.
func BenchmarkDeferAMillion(b *testing.B) {
	for b.Loop() {
		var written atomic.Int64
		disk := vfstest.NewFaulty(vfs.NewMem())
		disk.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpWrite && strings.Contains(op.Name, "positions") {
				written.Add(op.Len)
			}
			return vfstest.Fault{}
		})
		if err := disk.MkdirAll("p"); err != nil {
			b.Fatal(err)
		}
		const messages, each = 1 << 20, 20 << 10
		r := deferring(b, disk, messages)
		var stored, longest time.Duration
		for range messages / each {
			var flying []seq.Offset
			for len(flying) < each {
				n, err := r.Take(t0, each-len(flying), func(d *Delivery) error {
					flying = append(flying, d.ID.Offset())
					return nil
				})
				if err != nil || n == 0 {
					b.Fatal(n, err)
				}
			}
			for _, o := range flying {
				if err := r.Requeue(o, t0, time.Hour); err != nil {
					b.Fatal(err)
				}
			}
			began := time.Now()
			if err := r.ch.p.Checkpoint(); err != nil {
				b.Fatal(err)
			}
			d := time.Since(began)
			stored += d
			longest = max(longest, d)
		}
		b.ReportMetric(float64(written.Load())/(1<<20), "MB-written/op")
		b.ReportMetric(float64(longest.Milliseconds()), "ms-longest")
		b.ReportMetric(float64(stored.Milliseconds()), "ms-stored/op")
	}
}

// loner is the Log of a partition with one replica.
type loner struct{ alone }

func (loner) Append(commitlog.Entry) error { return nil }

// deferring returns a consumer of a partition with the given number of
// messages.
func deferring(b *testing.B, disk vfs.FS, messages int) *Consumer {
	b.Helper()
	return soleConsumer(b, filledPartition(b, disk, "p", commitlog.Options{}, messages/1024, 1024, []byte("body")), time.Hour)
}
