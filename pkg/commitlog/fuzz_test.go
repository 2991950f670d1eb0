package commitlog

import (
	"bytes"
	"testing"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func FuzzBatchDecode(f *testing.F) {
	b := build(7, 3)
	f.Add(b.seal(3, 7, 99))
	f.Add([]byte{magic0, magic1, formatVersion, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		// The checksum is made to fit, so that what lies behind it is reached.
		if len(raw) >= headerBytes {
			if size, err := batchSize(raw); err == nil && size <= len(raw) {
				sum := checksum(raw[8:size])
				raw[4], raw[5], raw[6], raw[7] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
			}
		}
		b, err := Decode(raw)
		if err != nil {
			return
		}
		n := 0
		total := 0
		it := b.Records(b.First())
		for off, p, ok := it.Next(); ok; off, p, ok = it.Next() {
			if off != b.First()+seq.Offset(n) || !bytes.Equal(p, b.Record(n)) {
				t.Fatalf("record %d", n)
			}
			n++
			total += len(p)
		}
		if n != b.Count() || total > b.Size() {
			t.Fatalf("%d records of %d bytes in a batch of %d, %d bytes", n, total, b.Count(), b.Size())
		}
	})
}

// FuzzRecovery writes bytes somewhere into the files of a log and opens it: it
// must never panic, never lose silently what was durable, and go on.
func FuzzRecovery(f *testing.F) {
	f.Add(uint8(0), uint16(100), []byte{1, 2, 3}, false)
	f.Add(uint8(1), uint16(8), []byte{0xff}, true)
	f.Add(uint8(2), uint16(24), []byte{0xff, 0xff}, false)
	f.Fuzz(func(t *testing.T, which uint8, at uint16, change []byte, alternating bool) {
		fsys := vfs.NewCrashable()
		o := smallOptions()
		o.Alternating = alternating
		l, _ := mustOpen(t, fsys, o)
		w := mustWriter(t, l, 1)
		for range 20 {
			mustAppend(t, w, 2)
			mustSync(t, w)
		}
		l.Commit(l.End())
		if err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		fsys = fsys.CrashClone(vfs.Crash{})
		names, err := fsys.ReadDir(testDir)
		if err != nil {
			t.Fatal(err)
		}
		name := testDir + "/" + names[int(which)%len(names)]
		file, err := fsys.OpenReadWrite(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(change, int64(at)); err != nil {
			t.Fatal(err)
		}
		l, r, err := Open(fsys, testDir, o)
		if err != nil {
			return
		}
		if l.End() < 40 && !r.CheckpointLost {
			t.Fatalf("log ends at %d: %+v", l.End(), r)
		}
		checkFuzzed(t, l)
		mustAppend(t, mustWriter(t, l, l.LastEpoch()+1), 1)
		mustClose(t, l)
	})
}

// checkFuzzed reads a log that may be damaged: each record is right or refused.
func checkFuzzed(t *testing.T, l *Log) {
	t.Helper()
	r := l.NewReader()
	defer r.Release()
	for off := l.Start(); off < l.End(); off++ {
		b, err := r.batch(off)
		if err != nil {
			continue
		}
		if p := b.Record(int(off - b.First())); !bytes.Equal(p, payload(off)) {
			t.Fatalf("record %d holds %x", off, p)
		}
	}
}
