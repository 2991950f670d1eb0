package reading

import (
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// logOf returns a log with a batch for each list of keys.
func logOf(t *testing.T, m *limit.Memory, batches ...[]string) *commitlog.Log {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("p"); err != nil {
		t.Fatal(err)
	}
	log, _, err := commitlog.Open(fs, "p", commitlog.Options{SegmentBytes: 1 << 16, TailBytes: -1, Cache: commitlog.NewCache(m)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	w, err := log.Writer(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range batches {
		b := new(commitlog.Builder)
		for _, key := range keys {
			msg := record.Message{Key: []byte(key), Body: []byte("body")}
			msg.Encode(b.Next(msg.Size()))
		}
		if _, err := w.Append(b, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	log.Commit(log.End())
	return log
}

func never(*commitlog.CorruptionError) bool { return false }

// TestKeysAreReadOverBatches, also from the midst of one, and hold nothing when they are released.
func TestKeysAreReadOverBatches(t *testing.T) {
	m := limit.NewMemory(64 << 20)
	k := NewKeys(logOf(t, m, []string{"a", "", "ccc"}, []string{"d"}, []string{"a", "f"}))
	for _, c := range []struct {
		from, end seq.Offset
		want      string
	}{{0, 6, "a  ccc d a f"}, {2, 5, "ccc d a"}, {1, 2, ""}, {4, 4, ""}, {0, 1, "a"}} {
		if err := k.Read(c.from, c.end, never); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range k.Len() {
			got = append(got, string(k.Of(i)))
		}
		if s := strings.Join(got, " "); s != c.want || k.Len() != int(c.end-c.from) { //nolint:gosec // few
			t.Errorf("[%d,%d): %d keys %q, want %q", c.from, c.end, k.Len(), s, c.want)
		}
	}
	if err := k.Read(5, 9, never); err == nil || k.Len() != 1 {
		t.Errorf("beyond the end: %d keys, %v", k.Len(), err)
	}
	if m.Usage().Uses[limit.ReadAhead] == 0 {
		t.Fatal("nothing is held, so nothing can be released")
	}
	if k.Release(); m.Usage().Uses[limit.ReadAhead] != 0 {
		t.Errorf("%d bytes are held", m.Usage().Uses[limit.ReadAhead])
	}
}
