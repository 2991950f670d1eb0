package topic

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestChannelExistsOnceItsStartIsStored: a repeated request after a full
// disk must not be answered before the start is on disk. A power cut would
// otherwise make the channel start at the end, and skip what was published
// meanwhile.
func TestChannelExistsOnceItsStartIsStored(t *testing.T) {
	faulty := vfstest.NewFaulty(vfs.NewMem())
	b := newBenchOn(t, faulty)
	b.channel("first", 1)
	faulty.Decide(func(int64, vfs.Op) vfstest.Fault { return vfstest.Fault{Err: syscall.ENOSPC} })
	for try := range 2 {
		if _, err := b.p.AddChannel("later", 2, ChannelOptions{}); err == nil {
			t.Errorf("try %d: the channel was added on a full disk", try)
		}
	}
}

// spoil flips a bit of a stored message's body.
func (b *bench) spoil(body string) {
	b.t.Helper()
	names, err := b.fs.ReadDir("p")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, name := range names {
		data, err := vfs.ReadFile(b.fs, "p/"+name, 1<<30)
		if err != nil {
			b.t.Fatal(err)
		}
		f, err := b.fs.OpenReadWrite("p/" + name)
		if i := bytes.Index(data, []byte(body)); err == nil && i >= 0 {
			_, err = f.WriteAt([]byte{body[0] ^ 1}, int64(i))
		}
		if err = errors.Join(err, f.Close()); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestDamagedMessageIsLeftToIntactReplica: a consumer skips it only if no
// other replica has it.
func TestDamagedMessageIsLeftToIntactReplica(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		b := newBench(t)
		b.channel("c", 1)
		b.publish("first")
		b.publish("middle, which is damaged")
		b.publish("last")
		if err := errors.Join(b.p.Close(errDeposed), b.log.Close()); err != nil {
			t.Fatal(err)
		}
		b.spoil("middle, which is damaged")
		b.open()
		b.p.o.Elsewhere = func(*commitlog.CorruptionError) bool { return elsewhere }
		c := b.channel("c", 1)
		r := b.join(c)
		got := r.take(9, t0)
		if len(b.lost) == 0 || b.lost[0].From != 1 || b.lost[0].Next != 2 {
			t.Fatalf("damage %v was reported, want [1,2)", b.lost)
		}
		if !elsewhere {
			want(t, "where no replica has it", got, "first last")
			continue
		}
		want(t, "where others have it", got, "first")
		b.p.Gate.Wake()
		want(t, "later", r.take(9, t0), "")
		r.finish("first")
		if at, attempts := stateOf(c, 1); c.Floor() != 1 || at != channel.Ready || attempts != 0 {
			t.Errorf("floor %d, the damaged message is in state %d after %d attempts", c.Floor(), at, attempts)
		}
	}
}
