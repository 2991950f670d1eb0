package broker

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Any replica may have been synced through the journal that is now damaged: each
// is compared with its leader before it counts as in sync.
func TestDamagedRedoJournalMakesAllReplicasSuspect(t *testing.T) {
	n := newNode(t)
	n.put("a", "one")
	n.put("b", "one")
	n.stop()
	path := filepath.Join(datadir.At(nil, "data").Redo(), "journal-0")
	if err := vfs.MkdirAllSynced(n.fs, filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileSynced(n.fs, path, bytes.Repeat([]byte("x"), 4096)); err != nil {
		t.Fatal(err)
	}
	if err := datadir.At(n.fs, "data").Replay(); err != nil {
		t.Fatal(err)
	}
	for _, topic := range n.Directory.Topics() {
		mark := filepath.Join(datadir.At(n.fs, "data").Replica(topic, 0), datadir.MarkSuspect)
		if _, err := n.fs.Stat(mark); err != nil {
			t.Errorf("replica of %s: %v", topic.Name, err)
		}
	}
	n.start()
	n.put("a", "two") // a single replica continues
}
