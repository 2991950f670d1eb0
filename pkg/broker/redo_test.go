package broker

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Any replica may have been synced through a journal that is damaged now: each is
// compared with its leader before it counts as in sync.
func TestADamagedRedoJournalMakesAllReplicasSuspect(t *testing.T) {
	n := newNode(t)
	n.put("a", "one")
	n.put("b", "one")
	n.stop()
	path := filepath.Join(layout{"data"}.redo(), "journal-0")
	if err := vfs.MkdirAllSynced(n.fs, filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileSynced(n.fs, path, bytes.Repeat([]byte("x"), 4096)); err != nil {
		t.Fatal(err)
	}
	o := Options{FS: n.fs, DataDir: "data"}.withDefaults()
	journaled, err := openRedo(&o)
	if err != nil {
		t.Fatal(err)
	}
	if err := journaled.Close(); err != nil {
		t.Fatal(err)
	}
	for _, topic := range n.Topics() {
		mark := filepath.Join(n.dirs.partition(topic, 0), markSuspect)
		if _, err := n.fs.Stat(mark); err != nil {
			t.Errorf("replica of %s: %v", topic.Name, err)
		}
	}
	n.start()
	n.put("a", "two") // a replica without others goes on
}
