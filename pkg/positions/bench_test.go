package positions

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func benchStandby(b *testing.B) *Standby {
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll(testDir); err != nil {
		b.Fatal(err)
	}
	return mustOpenStandby(b, fsys)
}

func BenchmarkStandbyAdvance(b *testing.B) {
	s := benchStandby(b)
	start := Snapshot{Channels: make([]Channel, 20)}
	for i := range start.Channels {
		start.Channels[i].Name = string(rune('a' + i))
	}
	start.Channels[19].Position = largePosition()
	if err := s.Replace(told(b, 1, start)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var buf []byte
	for o := seq.Offset(0); b.Loop(); o++ {
		buf = advance.Change{Channel: "s", Floor: o, Offset: o}.Append(buf[:0])
		if err := s.Advance(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// largePosition returns the position of a channel that has finished every other
// message.
func largePosition() position.Position {
	var p position.Position
	for o := seq.Offset(1); o < 200_000; o += 2 {
		p.Finished = append(p.Finished, position.Range{From: o, End: o + 1})
	}
	return p
}

func BenchmarkStandbyReplaceLarge(b *testing.B) {
	s := benchStandby(b)
	image := told(b, 1, Snapshot{Channels: []Channel{{Name: "c", Position: largePosition()}}})
	b.ReportAllocs()
	b.SetBytes(int64(len(image)))
	for n := uint32(1); b.Loop(); n++ {
		image[imageHeader] = byte(n % 100) // the backlog, so that no two are the same
		renumber(image, uint64(stampOf(1, n)))
		if err := s.Replace(image); err != nil {
			b.Fatal(err)
		}
	}
}
