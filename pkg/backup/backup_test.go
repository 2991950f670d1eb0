package backup

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/pkg/fate"
)

var created = time.Date(2026, 11, 25, 6, 0, 0, 0, time.UTC)

// made writes a backup of one topic with the given number of messages.
func made(t *testing.T, r *Repository, id string, messages int) *Manifest {
	t.Helper()
	work := begun(t, r, id)
	w := work.Messages(nil)
	for i := range messages {
		m := Message{Seq: uint64(i), ID: "0000000000000001", Timestamp: created, Body: []byte("body")} //nolint:gosec // few
		if err := w.Add(t.Context(), &m); err != nil {
			t.Fatal(err)
		}
	}
	chunks, err := w.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	positions, err := work.WritePositions(t.Context(), []Position{{Channel: "c", Pending: [][2]uint64{{1, 2}}, Deferred: []Deferred{{1, created}}}})
	if err != nil {
		t.Fatal(err)
	}
	m := &Manifest{Format: Format, ID: id, Created: created, Tool: "brokerctl 1.0", Cluster: "abc", Topics: []Topic{{
		Name: "t", FirstID: "4000000000000001", Config: []byte(`{"partitions":1}`), Channels: []Channel{{"c", []byte(`{"order":"none"}`)}},
		Partitions: []Partition{{End: uint64(messages), Chunks: chunks}}, Positions: positions, //nolint:gosec // few
	}}}
	if err := work.Complete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestBackupRoundTrip(t *testing.T) {
	d := In(Dir(t.TempDir()))
	want := made(t, d, "b1", ChunkMessages+3)
	m, err := d.Load(t.Context(), "")
	if err != nil || m.ID != "b1" {
		t.Fatalf("%v, %v", m, err)
	}
	if wrong := verified(t, d, m); len(wrong) > 0 {
		t.Error(wrong)
	}
	chunks := m.Topics[0].Partitions[0].Chunks
	if len(chunks) != 2 || !chunks[0].Full || chunks[1].Full || chunks[0].End != ChunkMessages {
		t.Errorf("chunks: %+v", chunks)
	}
	n := uint64(0)
	for i := range chunks {
		if err := d.EachMessage(t.Context(), &chunks[i], func(m *Message) error {
			if m.Seq != n || string(m.Body) != "body" {
				t.Fatalf("message %+v, want offset %d", m, n)
			}
			n++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if messages, size := m.Totals(); messages != int(n) || size == 0 || n != ChunkMessages+3 { //nolint:gosec // few
		t.Errorf("%d messages, %d bytes", messages, size)
	}
	if got := m.Topic("t"); got == nil || got.FirstID != want.Topics[0].FirstID || m.Topic("u") != nil {
		t.Errorf("topic: %+v", got)
	}
}

// TestManifestIsGolden encodes and decodes a manifest and compares it with a golden file.
func TestManifestIsGolden(t *testing.T) {
	m := &Manifest{Format: Format, ID: "20261125T060000.000Z", Created: created, Tool: "brokerctl 1.0", Cluster: "abc", Topics: []Topic{{
		Name: "t", FirstID: "4000000000000001", Config: []byte(`{"partitions":1}`), Channels: []Channel{{"c", []byte(`{"order":"none"}`)}},
		Partitions: []Partition{{End: 7, Chunks: []Chunk{{SHA256: "00ff", Bytes: 99, Lines: 7, End: 7, Full: true, Last: "0a"}}}}, Positions: &Chunk{SHA256: "01", Bytes: 3, Lines: 1},
	}}}
	got, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "manifest.json")
	golden.Compare(t, file, got)
	if back, err := decodeManifest(got); err != nil || back.Topics[0].Partitions[0].Count() != 7 {
		t.Errorf("%+v, %v", back, err)
	}
	m.Format = Format + 1
	newer, _ := m.encode()
	if _, err := decodeManifest(newer); !errors.Is(err, ErrNewerFormat) {
		t.Errorf("another format: %v", err)
	}
}

func FuzzDecodeManifest(f *testing.F) {
	good, _ := (&Manifest{Format: Format, ID: "x"}).encode()
	f.Add(good)
	f.Add([]byte("{}\nsha256 00\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := decodeManifest(data); err == nil && m.Format != Format {
			t.Errorf("format %d", m.Format)
		}
	})
}

// TestDamageIsFound damages each file of a backup in each way.
func TestDamageIsFound(t *testing.T) {
	damage := map[string]func(*testing.T, string, []byte){
		"removed":   func(t *testing.T, file string, _ []byte) { check(t, os.Remove(file)) },
		"emptied":   func(t *testing.T, file string, _ []byte) { check(t, os.Truncate(file, 0)) },
		"truncated": func(t *testing.T, file string, p []byte) { check(t, os.Truncate(file, int64(len(p)-1))) },
		"grown":     func(t *testing.T, file string, p []byte) { check(t, os.WriteFile(file, append(p, 0), 0o600)) },
		"flipped": func(t *testing.T, file string, p []byte) {
			p[len(p)/2] ^= 1
			check(t, os.WriteFile(file, p, 0o600))
		},
	}
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			made(t, In(Dir(path)), "b1", 3)
			files, _ := filepath.Glob(filepath.Join(path, "*", "*"))
			if len(files) != 3 {
				t.Fatal(files)
			}
			for _, file := range files {
				intact, err := os.ReadFile(file)
				check(t, err)
				harm(t, file, bytes.Clone(intact))
				m, err := In(Dir(path)).Load(t.Context(), "b1")
				var wrong []error
				if err == nil {
					wrong = verified(t, In(Dir(path)), m)
				}
				if err == nil && len(wrong) == 0 {
					t.Errorf("%s %s: not found", file, name)
				}
				if removed := errors.Is(err, ErrNoBackup); err != nil && !removed && fate.Of(err) != fate.Corrupt {
					t.Errorf("%s %s: %v is not marked as corrupt", file, name, err)
				}
				check(t, os.WriteFile(file, intact, 0o600))
			}
			m, err := In(Dir(path)).Load(t.Context(), "b1")
			check(t, err)
			if wrong := verified(t, In(Dir(path)), m); len(wrong) > 0 {
				t.Errorf("intact again: %v", wrong)
			}
		})
	}
}

// begun begins a backup.
func begun(t *testing.T, r *Repository, id string) *Work {
	t.Helper()
	w, err := r.Begin(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// verified returns what is wrong with a backup.
func verified(t *testing.T, r *Repository, m *Manifest) []error {
	t.Helper()
	wrong, err := r.Verify(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return wrong
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestChunkDescribesItsContent expects an error for lines that the manifest does not name.
func TestChunkDescribesItsContent(t *testing.T) {
	d := In(Dir(t.TempDir()))
	m := made(t, d, "b1", 3)
	for name, change := range map[string]func(*Chunk){
		"fewer lines":   func(c *Chunk) { c.Lines = 4 },
		"more lines":    func(c *Chunk) { c.Lines = 2 },
		"a later end":   func(c *Chunk) { c.End = 2 },
		"a later first": func(c *Chunk) { c.First = 1 },
	} {
		c := m.Topics[0].Partitions[0].Chunks[0]
		change(&c)
		if err := d.EachMessage(t.Context(), &c, func(*Message) error { return nil }); fate.Of(err) != fate.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := &m.Topics[0].Partitions[0]
	p.Chunks = append(p.Chunks, p.Chunks[0])
	if wrong := verified(t, d, m); len(wrong) != 1 || !strings.Contains(wrong[0].Error(), "overlaps") {
		t.Errorf("a chunk twice: %v", wrong)
	}
}

// TestIncompleteBackupIsIgnored opens an interrupted backup, and one that does not exist.
func TestIncompleteBackupIsIgnored(t *testing.T) {
	path := t.TempDir()
	d := In(Dir(path))
	if _, err := d.List(t.Context()); err == nil {
		t.Error("an empty directory is listed")
	}
	_ = begun(t, d, "b2")
	if _, err := d.Load(t.Context(), ""); !errors.Is(err, ErrNoBackup) {
		t.Errorf("latest: %v", err)
	}
	made(t, d, "b1", 1)
	all, err := d.List(t.Context())
	check(t, err)
	if len(all) != 2 || !all[0].Complete || all[1].Complete {
		t.Errorf("%+v", all)
	}
	if m, err := d.Load(t.Context(), ""); err != nil || m.ID != "b1" {
		t.Errorf("latest: %v, %v", m, err)
	}
	if _, err := d.Load(t.Context(), "b2"); !errors.Is(err, ErrIncomplete) {
		t.Errorf("an incomplete one: %v", err)
	}
	for _, id := range []string{"b3", "../backups/b1"} {
		if _, err := d.Load(t.Context(), id); !errors.Is(err, ErrNoBackup) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := d.Begin(t.Context(), "b1"); err == nil {
		t.Error("a backup of the same id was begun")
	}
	check(t, os.Rename(filepath.Join(path, "backups", "b1.json"), filepath.Join(path, "backups", "b4.json")))
	if _, err := d.Load(t.Context(), "b4"); fate.Of(err) != fate.Corrupt {
		t.Errorf("under another id: %v", err)
	}
	w := begun(t, d, "b5").Messages(nil)
	check(t, w.Add(t.Context(), &Message{Body: []byte("x")}))
	check(t, w.Abandon())
	if left, _ := filepath.Glob(filepath.Join(path, "chunks", tempPrefix+"*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
