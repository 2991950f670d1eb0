package coord_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// BenchmarkAppend measures producers that wait for every entry of 200 bytes, on
// one replica and on three.
func BenchmarkAppend(b *testing.B) {
	for _, replicas := range []int{1, 3} {
		for _, disk := range []string{"mem", "os"} {
			for _, producers := range []int{1, 16, 128} {
				b.Run(fmt.Sprintf("replicas=%d/%s/%d", replicas, disk, producers), func(b *testing.B) {
					benchmark(b, replicas, disk, producers, 1)
				})
			}
		}
	}
}

// BenchmarkBatched measures one producer with 1,000 entries in progress.
func BenchmarkBatched(b *testing.B) {
	for _, replicas := range []int{1, 3} {
		for _, disk := range []string{"mem", "os"} {
			b.Run(fmt.Sprintf("replicas=%d/%s", replicas, disk), func(b *testing.B) { benchmark(b, replicas, disk, 1, 1000) })
		}
	}
}

func benchmark(b *testing.B, replicas int, disk string, producers, window int) {
	net := NewNetwork()
	v := coord.View{Epoch: 1, Version: 1, Leader: "a", ISR: three[:replicas], MinISR: 1, Sync: meta.SyncAlways()}
	var all []*coord.Replica
	for _, id := range three[:replicas] {
		v.Replicas = append(v.Replicas, coord.ReplicaView{Node: id})
		var fsys vfs.FS = vfs.NewMem()
		dir := "p"
		if disk == "os" {
			fsys, dir = vfs.OS{}, b.TempDir()
		}
		r, err := coord.OpenReplica(coord.ReplicaOptions{FS: fsys, Dir: dir, Self: id, Now: time.Now, Peers: net.Peers(id)})
		if err != nil {
			b.Fatal(err)
		}
		net.Serve(id, func(_ meta.NodeID, kind uint8, p []byte, reply func([]byte)) { r.Handle(nil, kind, p, reply) })
		all = append(all, r)
	}
	for _, r := range all[1:] {
		if err := r.Follow(v, nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := all[0].Lead(v, func(commitlog.Batch) {}); err != nil {
		b.Fatal(err)
	}
	var running sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for p := range producers {
		running.Go(func() {
			told := make(chan error, window)
			e := &plain{told}
			sent, answered := 0, 0
			for i := p; i < b.N; i += producers {
				if sent-answered == window {
					answered++
					if err := <-told; err != nil {
						b.Error(err)
						return
					}
				}
				sent++
				if err := all[0].Term().Append(e); err != nil {
					b.Error(err)
					return
				}
			}
			for ; answered < sent; answered++ {
				if err := <-told; err != nil {
					b.Error(err)
				}
			}
		})
	}
	running.Wait()
	b.StopTimer()
	var errs []error
	for _, r := range all {
		errs = append(errs, r.Close())
	}
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	net.Wait()
}

// plain is an entry of 200 bytes.
type plain struct{ told chan error }

func (e *plain) Size() int                              { return commitlog.RecordBytes(200) }
func (e *plain) AppendTo(b *commitlog.Builder)          { clear(b.Next(200)) }
func (e *plain) Complete(_ commitlog.Placed, err error) { e.told <- err }

// BenchmarkTick measures the cost of an idle partition.
func BenchmarkTick(b *testing.B) {
	c := newCluster(b, three...)
	term := c.elect("a", three...)
	for term.Confirmed().IsZero() {
		runtime.Gosched()
	}
	b.ReportAllocs()
	for b.Loop() {
		now := time.Now()
		term.Tick(now, now)
	}
	c.close()
}

// BenchmarkShareAdvance measures one ordered channel: each change waits for the
// previous one.
func BenchmarkShareAdvance(b *testing.B) {
	c := newCluster(b, three...)
	term := c.elect("a", three...)
	b.ReportAllocs()
	done := make(chan error, 1)
	change := make([]byte, 24)
	for b.Loop() {
		term.ShareAdvance(change, func(err error) { done <- err })
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		for _, id := range three[1:] {
			c.nodes[id].kept.changes = c.nodes[id].kept.changes[:0]
		}
	}
	c.close()
}
