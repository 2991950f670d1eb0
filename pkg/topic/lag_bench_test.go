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
			fsys := vfs.OS{}
			dir := b.TempDir()
			log, _, err := commitlog.Open(fsys, dir, commitlog.Options{Cache: commitlog.NewCache(limit.NewMemory(128 << 20))})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { log.Close() })
			w, err := log.Writer(1)
			if err != nil {
				b.Fatal(err)
			}
			m := Message{Body: make([]byte, of.message)}
			for range 64 << 20 / of.batch {
				builder := new(commitlog.Builder)
				for range of.batch / of.message {
					appendRecord(&m, builder)
				}
				if _, err := w.Append(builder, t0.UnixNano()); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := w.Sync(); err != nil {
				b.Fatal(err)
			}
			log.Commit(log.End())
			p, err := Open(Options{FS: fsys, Dir: dir, Log: log, Arm: func(*Channel) {}, Observer: deaf{}})
			if err != nil {
				b.Fatal(err)
			}
			p.Serve(loner{})
			c, err := p.AddChannel("c", 1, ChannelOptions{})
			if err != nil {
				b.Fatal(err)
			}
			k, err := c.Join(ConsumerOptions{Timeout: time.Minute, MaxTimeout: time.Hour, Wake: func() {}, Ended: func(error) {}}, 0)
			if err != nil {
				b.Fatal(err)
			}
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
				if len(at) == 0 || at[len(at)-1] == log.End()-1 {
					if err := c.Seek(0); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
