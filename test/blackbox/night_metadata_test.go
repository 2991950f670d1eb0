package blackbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The metadata of all three nodes is damaged, and their messages are intact: the metadata is
// restored from a snapshot.
func TestNightTheMetadataIsDamaged(t *testing.T) {
	n := newNight(t, "metadata-damaged", nil)
	n.topic("one", "two", "three")
	file := filepath.Join(n.dir, "metadata")
	n.ctl("snapshot save", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if out, err := n.shell("brokerctl snapshot restore " + file); err == nil || err.Error() != "exit status 4" || !strings.Contains(out, "brokerd recover --only-survivor") {
		t.Errorf("restored into a running cluster: %v\n%s", err, out)
	}
	n.ctl("message pub orders four") // data that is newer than the snapshot is not lost with it
	n.ctl("topic create later --partitions 1 --replicas 3")
	n.ctl("message pub later five")
	for _, x := range n.Nodes {
		n.kills(x.ID)
		for _, name := range []string{"raft.db", "identity.json"} {
			if err := os.WriteFile(filepath.Join(x.Data(), "meta", name), []byte("damaged"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if x.ID != "n1" {
			if err := x.Wipe(); err != nil { // the others join it with empty directories
				t.Fatal(err)
			}
		}
	}
	n.words["DIR"], n.words["FILE"] = n.Node("n1").Data(), file
	n.shows(`(?m)^[A-Z2-7]{26} .* 1 `)
	if out, err := n.try(); err == nil || !strings.Contains(out, "orders/0") {
		t.Errorf("what would be lost: %v\n%s", err, out)
	}
	n.next()
	n.systemctl = n.serviceOfAll
	n.next()
	n.next()
	n.shows("stray_data") // of the topic created after the snapshot
	if kept, err := filepath.Glob(filepath.Join(n.Node("n1").Data(), "topics-*-behind-*", "later.*", "0", "*.log")); err != nil || len(kept) == 0 {
		t.Errorf("its messages are gone: %v, %v", kept, err)
	}
	if got := n.depth(); got != "4" {
		t.Errorf("%s messages, want 4", got)
	}
	n.ctl("message pub orders five")
	n.cured()
}
