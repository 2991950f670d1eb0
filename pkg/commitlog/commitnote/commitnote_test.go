package commitnote

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestNextSlotIsNotTheOneThatHoldsTheEnd: a write that is torn must leave the last committed end.
func TestNextSlotIsNotTheOneThatHoldsTheEnd(t *testing.T) {
	slot := func(end seq.Offset) []byte { return Encode(end, int64(end)*100, 3) }
	torn := slot(9)
	torn[SlotBytes-1]++
	for name, c := range map[string]struct {
		slots     [][]byte
		committed seq.Offset
		next      int64
	}{
		"nothing":             {nil, 0, 0},
		"only the first":      {[][]byte{slot(5)}, 5, 1},
		"the second is newer": {[][]byte{slot(5), slot(7)}, 7, 0},
		"the first is newer":  {[][]byte{slot(8), slot(7)}, 8, 1},
		"the second is torn":  {[][]byte{slot(5), torn}, 5, 1},
		"the first is torn":   {[][]byte{torn, slot(7)}, 7, 0},
		"both are torn":       {[][]byte{torn, torn}, 0, 0},
		"half a slot follows": {[][]byte{slot(5), slot(7)[:SlotBytes/2]}, 5, 1},
	} {
		fsys := vfs.NewMem()
		if err := vfs.MkdirAllSynced(fsys, "log"); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFileSynced(fsys, filepath.Join("log", Name), slices.Concat(c.slots...)); err != nil {
			t.Fatal(err)
		}
		n, err := Read(fsys, "log")
		if err != nil || n.Committed != c.committed || n.Next != c.next || n.Position != int64(c.committed)*100 {
			t.Errorf("%s: %+v, %v: want %d and slot %d next", name, n, err, c.committed, c.next)
		}
	}
}

// FuzzDecode: no bytes make Decode panic or return what Encode does not write.
func FuzzDecode(f *testing.F) {
	f.Add(Encode(0, 0, 0))
	f.Add(Encode(300, 12345, 7))
	f.Add(Encode(seq.MaxOffset, 1<<62, 1<<40))
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) < SlotBytes {
			return // Read passes whole slots
		}
		p = slices.Clone(p)
		binary.LittleEndian.PutUint32(p[8:], checksum(p[12:SlotBytes])) // so that the later checks are reached
		n, ok := Decode(p)
		if !ok {
			return
		}
		if n.Committed > seq.MaxOffset+1 || n.Position < 0 || n.Next != 0 {
			t.Errorf("%+v", n)
		}
		if again := Encode(n.Committed, n.Position, n.Epoch); !slices.Equal(again, p[:SlotBytes]) {
			t.Errorf("%x decodes to %+v, which is %x", p[:SlotBytes], n, again)
		}
	})
}
