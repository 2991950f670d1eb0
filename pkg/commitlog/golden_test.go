package commitlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/pkg/commitlog/commitnote"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// checkGolden compares bytes with a golden file in the format of hexdump -C.
func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name), hex.Dump(got))
}

// loadGolden returns the bytes in a golden file.
func loadGolden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name)) //nolint:gosec // as above
	if err != nil {
		t.Fatal(err)
	}
	var raw []byte
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "|")
		_, digits, _ := strings.Cut(line, " ")
		p, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(digits), " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, p...)
	}
	return raw
}

// goldenLog makes a log of two batches and closes it.
func goldenLog(t *testing.T) *vfs.Mem {
	t.Helper()
	fsys := vfs.NewMem()
	l, _ := mustOpen(t, fsys, Options{})
	w := mustWriter(t, l, 0x11)
	b := new(Builder)
	copy(b.Next(5), "hello")
	b.Next(0)
	b.SetAttributes(0x8001)
	if _, err := w.Append(b, 1_700_000_000_000_000_000); err != nil {
		t.Fatal(err)
	}
	l.Commit(2)
	w = mustWriter(t, l, 0x12)
	copy(b.Next(130), bytes.Repeat([]byte{'x'}, 130))
	if _, err := w.Append(b, 1_700_000_000_000_000_001); err != nil {
		t.Fatal(err)
	}
	mustSync(t, w)
	mustClose(t, l)
	return fsys
}

func TestFormatsOnDiskAreGolden(t *testing.T) {
	fsys := goldenLog(t)
	for file, golden := range map[string]string{
		"00000000000000000000.log":   "segment.hex",
		"00000000000000000000.index": "index.hex",
		"checkpoint":                 "checkpoint.hex",
		"committed":                  "committed.hex",
	} {
		raw, err := vfs.ReadFile(fsys, filepath.Join(testDir, file), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		checkGolden(t, golden, raw)
	}
}

func TestGoldenBytesAreRead(t *testing.T) {
	raw := loadGolden(t, "segment.hex")[segmenthead.Bytes:]
	b, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if b.Epoch() != 0x11 || b.First() != 0 || b.End() != 2 || b.Count() != 2 || b.Attributes() != 0x8001 ||
		b.Timestamp() != 1_700_000_000_000_000_000 || b.Size() != 64 || b.Committed() != 0 || string(b.Record(0)) != "hello" || len(b.Record(1)) != 0 {
		t.Fatalf("first batch: %x", b.Raw())
	}
	b, err = Decode(raw[b.Size():])
	if err != nil {
		t.Fatal(err)
	}
	if b.Epoch() != 0x12 || b.First() != 2 || b.Committed() != 2 || len(b.Record(0)) != 130 {
		t.Fatalf("second batch: %x", b.Raw())
	}
	c, err := decodeCheckpoint(loadGolden(t, "checkpoint.hex"))
	if err != nil || c.durable != 3 || c.committed != 2 || c.epoch != 0x12 {
		t.Fatalf("checkpoint %+v: %v", c, err)
	}
	if n, ok := commitnote.Decode(loadGolden(t, "committed.hex")); !ok || n.Committed != 2 || n.Position != 64 {
		t.Fatalf("commit note %+v, %t", n, ok)
	}
	x, err := decodeIndex(loadGolden(t, "index.hex"), "")
	if err != nil || x.end != 3 || len(x.epochs) != 2 || len(x.entries) != 1 {
		t.Fatalf("index %+v: %v", x, err)
	}
}

// TestBadBatchesAreRefused damages the golden batch in each field. With sealed,
// the checksum is made to match, so that a later check refuses the batch.
func TestBadBatchesAreRefused(t *testing.T) {
	good := loadGolden(t, "segment.hex")[segmenthead.Bytes:][:64]
	for _, c := range []struct {
		name   string
		sealed bool
		change func(p []byte) []byte
	}{
		{"nothing", false, func([]byte) []byte { return nil }},
		{"truncated header", false, func(p []byte) []byte { return p[:headerBytes-1] }},
		{"body cut short", false, func(p []byte) []byte { return p[:63] }},
		{"magic", false, func(p []byte) []byte { p[0]++; return p }},
		{"newer version", true, func(p []byte) []byte { p[2]++; return p }},
		{"reserved byte", true, func(p []byte) []byte { p[3]++; return p }},
		{"checksum", false, func(p []byte) []byte { p[4]++; return p }},
		{"length not aligned", true, func(p []byte) []byte { p[8]++; return p }},
		{"length below header", true, func(p []byte) []byte { p[8] = 40; return p }},
		{"length absurd", true, func(p []byte) []byte { p[11] = 0xff; return p }},
		{"reserved word", true, func(p []byte) []byte { p[14]++; return p }},
		{"offset beyond the largest", true, func(p []byte) []byte { p[31] = 1; return p }},
		{"committed beyond its own start", true, func(p []byte) []byte { p[48] = 1; return p }},
		{"no records", true, func(p []byte) []byte { p[32] = 0; return p }},
		{"fewer records than counted", true, func(p []byte) []byte { p[32]++; return p }},
		{"more records than counted", true, func(p []byte) []byte { p[32]--; return p }},
		{"payload longer than batch", true, func(p []byte) []byte { p[36] = 200; return p }},
		{"record longer than payload", true, func(p []byte) []byte { p[headerBytes] = 100; return p }},
		{"padding", true, func(p []byte) []byte { p[63] = 1; return p }},
		{"payload bit", false, func(p []byte) []byte { p[58] ^= 4; return p }},
	} {
		p := c.change(bytes.Clone(good))
		if c.sealed {
			sum := checksum(p[8:])
			p[4], p[5], p[6], p[7] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		}
		if _, err := Decode(p); !errors.Is(err, ErrInvalidBatch) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
