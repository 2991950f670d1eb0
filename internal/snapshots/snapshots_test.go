package snapshots

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
)

func TestSnapshotIsInspected(t *testing.T) {
	s := &meta.State{}
	meta.ApplyAt(s, 1, 0, meta.InitCluster{ID: "ORIGIN"})
	meta.ApplyAt(s, 2, 0, meta.NodeStarted{Node: meta.Node{ID: "n1"}})
	c := meta.TopicConfig{Partitions: 2, Replicas: 1, MinISR: 1}.WithDefaults(1, false)
	meta.ApplyAt(s, 3, 0, meta.CreateTopic{Name: "t", Config: c, Assignment: [][]meta.NodeID{{"n1"}, {"n1"}}})
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	r, err := Inspect(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if r.ClusterID != "ORIGIN" || r.Index != 3 || r.Nodes != 1 || r.Topics != 1 || r.Partitions != 2 || r.Bytes != b.Len() {
		t.Errorf("%+v", r)
	}
	for i := range b.Len() {
		damaged := bytes.Clone(b.Bytes())
		damaged[i] ^= 0x10
		if _, err := Inspect(damaged); err == nil {
			t.Errorf("a flipped bit in byte %d is not seen", i)
		}
		if _, err := Inspect(b.Bytes()[:i]); err == nil {
			t.Errorf("%d bytes are taken for all", i)
		}
	}
}

// A file is replaced atomically, and is not readable by other users.
func TestSnapshotIsWrittenAtomically(t *testing.T) {
	file := filepath.Join(t.TempDir(), "metadata")
	for _, content := range []string{"first, which is longer", "second"} {
		if err := Write(file, []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != content {
			t.Errorf("%q %v", got, err)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := Write(filepath.Join(file, "below"), nil); err == nil {
		t.Error("written below a file")
	}
	if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) != 1 {
		t.Errorf("left over: %v %v", all, err)
	}
}
