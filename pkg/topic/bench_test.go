package topic

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/positions"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// postman is a Sharer that passes shares to a standby on a goroutine of its
// own, as if the standby were on another node.
type postman struct {
	bag  chan parcel
	full chan struct{} // closed when the postman has stopped
}

func newPostman(b *testing.B, to *positions.Standby) *postman {
	m := &postman{bag: make(chan parcel, 64), full: make(chan struct{})}
	go func() {
		defer close(m.full)
		for p := range m.bag {
			var err error
			switch p.kind {
			case aSnapshot:
				err = to.Replace(p.data)
			case anUpdate:
				err = to.Update(p.data)
			case aChange:
				err = to.Advance(p.data)
			}
			p.done(err)
		}
	}()
	b.Cleanup(func() { close(m.bag); <-m.full })
	return m
}

func (*postman) Append(commitlog.Entry) error { return nil }
func (*postman) Shared() bool                 { return true }
func (*postman) Epoch() seq.Epoch             { return 1 }
func (m *postman) SharePositions(data []byte, done func(error)) {
	m.bag <- parcel{kind: aSnapshot, data: data, done: done}
}

func (m *postman) ShareUpdate(data []byte, done func(error)) func([]byte) {
	m.bag <- parcel{kind: anUpdate, data: data, done: done}
	return func([]byte) {}
}

func (m *postman) ShareAdvance(data []byte, done func(error)) {
	m.bag <- parcel{kind: aChange, data: data, done: done}
}

func benchStandby(b *testing.B) *positions.Standby {
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("p"); err != nil {
		b.Fatal(err)
	}
	s, err := positions.OpenStandby(positions.StandbyOptions{FS: fsys, Dir: "p", End: seq.MaxOffset, Damaged: func(err error) { b.Error(err) }})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// prompt is a Sharer whose followers acknowledge every share at once.
type prompt struct{ postman }

func (prompt) SharePositions(_ []byte, done func(error)) { done(nil) }
func (prompt) ShareUpdate(_ []byte, done func(error)) func([]byte) {
	done(nil)
	return func([]byte) {}
}
func (prompt) ShareAdvance(_ []byte, done func(error)) { done(nil) }

const benchMessages = 100_000

// benchPartition is a partition with messages in its log.
func benchPartition(b *testing.B) *Partition {
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("p"); err != nil {
		b.Fatal(err)
	}
	return filledPartition(b, fsys, "p", commitlog.Options{}, benchMessages/1000, 1000, make([]byte, 128))
}

// filledPartition is a partition whose log has batches of so many messages each.
func filledPartition(b *testing.B, fsys vfs.FS, dir string, o commitlog.Options, batches, each int, body []byte) *Partition {
	b.Helper()
	log, _, err := commitlog.Open(fsys, dir, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
	w, err := log.Writer(1)
	if err != nil {
		b.Fatal(err)
	}
	m := Message{Body: body}
	for range batches {
		builder := new(commitlog.Builder)
		for range each {
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
	return p
}

// soleConsumer joins a new channel of a partition.
func soleConsumer(b *testing.B, p *Partition, timeout time.Duration) *Consumer {
	b.Helper()
	c, err := p.AddChannel("c", 1, ChannelOptions{})
	if err != nil {
		b.Fatal(err)
	}
	k, err := c.Join(ConsumerOptions{Timeout: timeout, MaxTimeout: time.Hour, Wake: func() {}, Ended: func(error) {}}, 0)
	if err != nil {
		b.Fatal(err)
	}
	return k
}

// benchConsume takes and finishes messages one by one.
func benchConsume(b *testing.B, p *Partition, ordered bool) {
	c, err := p.AddChannel("c", 1, ChannelOptions{Order: policy.StrictIf(ordered)})
	if err != nil {
		b.Fatal(err)
	}
	woken := make(chan struct{}, 1)
	k, err := c.Join(ConsumerOptions{Timeout: time.Minute, MaxTimeout: time.Hour, Wake: func() {
		signal.Poke(woken)
	}, Ended: func(error) {}}, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var at seq.Offset
		for {
			n, err := k.Take(t0, 1, func(d *Delivery) error { at = d.ID.Offset(); return nil })
			if err != nil {
				b.Fatal(err)
			}
			if n > 0 {
				break
			}
			<-woken
		}
		if err := k.Finish(at); err != nil {
			b.Fatal(err)
		}
		if at == benchMessages-1 {
			if err := c.Seek(0); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkConsume(b *testing.B) {
	b.Run("unordered", func(b *testing.B) { benchConsume(b, benchPartition(b), false) })
	b.Run("ordered", func(b *testing.B) { benchConsume(b, benchPartition(b), true) })
	b.Run("ordered-shared-at-once", func(b *testing.B) {
		p := benchPartition(b)
		p.Serve(&prompt{})
		benchConsume(b, p, true)
	})
	b.Run("ordered-shared", func(b *testing.B) {
		p := benchPartition(b)
		p.Serve(newPostman(b, benchStandby(b)))
		benchConsume(b, p, true)
	})
}
