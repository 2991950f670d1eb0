package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// saved is a data directory of the cluster ORIGIN, made by survivorDir, and a snapshot of its
// metadata.
func saved(t *testing.T) (dir string, content []byte) {
	t.Helper()
	dir = survivorDir(t, closedAddress)
	if err := datadir.At(vfs.OS{}, dir).SetOwner("ORIGIN"); err != nil {
		t.Fatal(err)
	}
	stored, err := raftstore.ReadStored(metaDir(dir), "n1")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := stored.State.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return dir, b.Bytes()
}

// rewritten returns a snapshot with a text replaced and a valid checksum.
func rewritten(content []byte, old, with string) []byte {
	body := bytes.Replace(content[:len(content)-4], []byte(old), []byte(with), 1)
	return binary.LittleEndian.AppendUint32(body, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

// tree returns the names and sizes of everything below a directory, and the content of the files.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), "LOCK") {
			return err
		}
		text, err := os.ReadFile(path)
		b.WriteString(path + "=" + string(text) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDamagedMetadataIsReplacedBySnapshot(t *testing.T) {
	dir, content := saved(t)
	file := filepath.Join(t.TempDir(), "metadata")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"recover", "--only-survivor", "--data-dir", dir, "--node-id", "n1", "--snapshot", file}
	if code, _, stderr := brokerdSays(t, args...); code != exitConfig || !strings.Contains(stderr, "can be read") {
		t.Errorf("in place of metadata that is well: exit code %d: %s", code, stderr)
	}
	if err := os.WriteFile(filepath.Join(metaDir(dir), "raft.db"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := brokerdSays(t, args[:6]...); code == exitOK {
		t.Error("recovered from damaged metadata")
	}
	_, err := raftstore.Open(raftstore.Options{Dir: metaDir(dir), NodeID: "n1", Address: "127.0.0.1:1", ReserveBytes: -1})
	if err == nil || !strings.Contains(err.Error(), "do not delete it") || !strings.Contains(err.Error(), "brokerd recover --only-survivor --snapshot FILE") {
		t.Errorf("damaged metadata: the error does not say what helps: %v", err)
	}
	newer := filepath.Join("late.1000000", "0", "00000000000000000000.log")
	if err := os.MkdirAll(filepath.Join(dir, "topics", filepath.Dir(newer)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "topics", newer), []byte("acknowledged"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	code, out, stderr := brokerdSays(t, args...)
	if code != exitFailed || !strings.Contains(out, "t/0        all") || !strings.Contains(out, "  late.1000000\n") || !strings.Contains(out, "lost      n2") || !strings.Contains(out, "Nothing was changed") ||
		!strings.Contains(out, "TOKENS THAT WERE REVOKED SINCE ARE\nVALID AGAIN") {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	if after := tree(t, dir); after != before {
		t.Error("unasked, it changed something")
	}
	code, out, stderr = brokerdSays(t, append(args, "--yes-lose-what-is-missing", "-o", "json")...)
	var r lossReport
	if err := json.Unmarshal([]byte(out), &r); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, stderr)
	}
	if kept, err := filepath.Glob(filepath.Join(dir, "meta-damaged-*", "raft.db")); err != nil || len(kept) != 1 {
		t.Errorf("what was damaged is gone: %v %v", kept, err)
	}
	if got := datadir.At(vfs.OS{}, dir).ClusterID(); got != r.NewClusterID || !meta.Supersedes(got, "ORIGIN") {
		t.Errorf("the data is of %s, want %s", got, r.NewClusterID)
	}
	if text, err := os.ReadFile(filepath.Join(r.NewerDir, newer)); string(text) != "acknowledged" || len(r.Newer) != 1 {
		t.Errorf("what came after the snapshot: %v, %q, %v", r.Newer, text, err)
	}
	s, err := raftstore.Open(raftstore.Options{Dir: metaDir(dir), NodeID: "n1", Address: "127.0.0.1:1", ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	was := s.View().Topic("t").Incarnation
	c := meta.TopicConfig{Partitions: 1, Replicas: 1, MinISR: 1}.WithDefaults(1, false)
	if _, err := s.Propose(t.Context(), meta.CreateTopic{Name: "new", Config: c, Assignment: [][]meta.NodeID{{"n1"}}}); err != nil {
		t.Fatal(err)
	}
	if got := s.View().Topic("new").Incarnation; got < was+1<<20 {
		t.Errorf("a topic has the incarnation %d, which one made since the snapshot may have, too", got)
	}
}

func TestMismatchedSnapshotsAreRefused(t *testing.T) {
	dir, content := saved(t)
	if err := os.RemoveAll(metaDir(dir)); err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(content)
	flipped[len(flipped)/2] ^= 1
	before := tree(t, dir)
	for name, x := range map[string]struct {
		content []byte
		node    string
		want    string
	}{
		"a flipped bit":    {flipped, "n1", "checksum"},
		"truncated":        {content[:len(content)-9], "n1", "checksum"},
		"empty":            {nil, "n1", "truncated"},
		"no snapshot":      {[]byte(strings.Repeat("message\n", 10)), "n1", "not a snapshot"},
		"another cluster":  {rewritten(content, `"ORIGIN"`, `"STRANGE"`), "n1", "is of cluster STRANGE"},
		"a newer level":    {rewritten(content, `"cluster":{`, `"cluster":{"level":99,`), "n1", "feature level"},
		"a newer format":   {rewritten(content, "brkdmeta\x01", "brkdmeta\x02"), "n1", "version 2"},
		"an unknown node":  {content, "n9", "not a member"},
		"trailing garbage": {append(bytes.Clone(content), "more"...), "n1", "checksum"},
	} {
		file := filepath.Join(t.TempDir(), "metadata")
		if err := os.WriteFile(file, x.content, 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, stderr := brokerdSays(t, "recover", "--only-survivor", "--yes-lose-what-is-missing", "--data-dir", dir, "--node-id", x.node, "--snapshot", file)
		if code != exitConfig || !strings.Contains(stderr, x.want) {
			t.Errorf("%s: exit code %d, want %d: %s%s", name, code, exitConfig, out, stderr)
		}
		if tree(t, dir) != before {
			t.Fatalf("%s: something was changed", name)
		}
	}
}
