package commitlog

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func FuzzBatchDecode(f *testing.F) {
	b := build(7, 3)
	f.Add(b.seal(place{epoch: 3, first: 7}, 99))
	f.Add([]byte{magic0, magic1, formatVersion, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		// The checksum is made to match, so that the later checks are reached.
		if len(raw) >= headerBytes {
			if size, err := BatchSize(raw); err == nil && size <= len(raw) {
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

// fuzzedLog returns a disk with a log of 40 synced and committed records, of which
// the checkpoint covers the first noted.
func fuzzedLog(f *testing.F, o Options, noted int) *vfs.Mem {
	f.Helper()
	fsys := vfs.NewCrashable()
	l, _ := mustOpen(f, fsys, o)
	w := mustWriter(f, l, 1)
	for i := range 20 {
		mustAppend(f, w, 2)
		mustSync(f, w)
		l.Commit(l.End())
		if 2*i+2 != noted {
			continue
		}
		if err := l.Checkpoint(0); err != nil {
			f.Fatal(err)
		}
	}
	return fsys.CrashClone(vfs.Crash{})
}

// FuzzRecovery writes bytes somewhere into the files of a log and opens it: it
// must never panic, never lose durable records without a report, and continue.
func FuzzRecovery(f *testing.F) {
	f.Add(uint8(0), uint16(100), []byte{1, 2, 3}, false, false)
	f.Add(uint8(1), uint16(8), []byte{0xff}, true, false)
	f.Add(uint8(2), uint16(24), []byte{0xff, 0xff}, false, true)
	disks := map[[2]bool]*vfs.Mem{}
	options := func(alternating bool) Options {
		o := smallOptions()
		o.Alternating = alternating
		return o
	}
	for _, alternating := range []bool{false, true} {
		disks[[2]bool{alternating, false}] = fuzzedLog(f, options(alternating), 40)
		disks[[2]bool{alternating, true}] = fuzzedLog(f, options(alternating), 20)
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, change []byte, alternating, behind bool) {
		fsys, o := disks[[2]bool{alternating, behind}].CrashClone(vfs.Crash{}), options(alternating)
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
		// Damage after the checkpoint may look like a torn tail, or like a shorter log,
		// if no intact batch follows it. Then the recovery reports it.
		if l.End() < 40 && !r.CheckpointLost && (!behind || l.End() < 20 || r.Clean()) {
			t.Fatalf("log ends at %d: %+v", l.End(), r)
		}
		checkFuzzed(t, l)
		mustAppend(t, mustWriter(t, l, l.LastEpoch()+1), 1)
		mustClose(t, l)
	})
}

// checkFuzzed reads a log that may be damaged: each record is correct or
// refused.
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

// FuzzIndex checks that an index which is taken is the one that would be written.
func FuzzIndex(f *testing.F) {
	c := &contents{base: 7, basePos: 70, end: 9, size: 300, maxTime: 5, epochs: []EpochStart{{1, 7}}, entries: []indexEntry{{7, 0, noTime}, {8, 150, 5}}}
	f.Add(c.encode())
	c.damage = []Damage{{Path: "x", Position: 3, From: 7, Next: 8}}
	f.Add(c.encode())
	f.Add((&contents{}).encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		p = bytes.Clone(p)
		if len(p) >= 12 { // the checksum is made to match, so that the later checks are reached
			binary.LittleEndian.PutUint32(p[8:], checksum(p[12:]))
		}
		c, err := decodeIndex(p, "x")
		if err != nil {
			return
		}
		if again := c.encode(); !bytes.Equal(again, p) {
			t.Errorf("%x is written as %x", p, again)
		}
	})
}

// FuzzCheckpoint checks that a checkpoint which is taken is the one that would be written, and describes a log.
func FuzzCheckpoint(f *testing.F) {
	f.Add(checkpoint{start: 1, durable: 9, durablePos: 300, committed: 8, epoch: 3, before: 2}.encode())
	f.Add(checkpoint{cutting: true}.encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		p = bytes.Clone(p)
		if len(p) >= 16 { // likewise; the other values of a flag are not written
			binary.LittleEndian.PutUint32(p[12:], min(1, binary.LittleEndian.Uint32(p[12:])))
			binary.LittleEndian.PutUint32(p[8:], checksum(p[12:]))
		}
		c, err := decodeCheckpoint(p)
		if err != nil {
			return
		}
		if again := c.encode(); !bytes.Equal(again, p) {
			t.Errorf("%x is written as %x", p, again)
		}
		if c.start > c.durable || c.committed > c.durable || c.durablePos < 0 {
			t.Errorf("%+v", c)
		}
	})
}
