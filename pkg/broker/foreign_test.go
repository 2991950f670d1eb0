package broker

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// The metadata of a node is lost, or its data directory comes from another
// cluster. Topics of the two clusters may have the same name and incarnation.
func TestDataOfAnotherClusterIsNeitherServedNorRemoved(t *testing.T) {
	n := newNode(t)
	n.put("t", "secret", "of another")
	n.stop()
	n.dir = t.TempDir()
	n.start() // a cluster that is as young as the other was
	n.put("t", "mine")
	if got := n.subscribe("t", "ch").take(1); got != "mine" {
		t.Errorf("got %q", got)
	}
	for range 3 { // past the index of any topic of the other
		n.restart()
	}
	names, err := n.fs.ReadDir("data")
	if err != nil {
		t.Fatal(err)
	}
	kept := ""
	for _, name := range names {
		if strings.HasPrefix(name, "topics-") {
			kept = name
		}
	}
	if h := n.Node.Health(); !h.Degraded || h.Reasons[0].Code != "stray_data" {
		t.Errorf("health %+v", h)
	}
	if kept == "" {
		t.Errorf("the other cluster's data is gone: %v", names)
	}
	if names, err := n.fs.ReadDir("data/topics"); err != nil || len(names) != 1 {
		t.Errorf("topics: %v, %v", names, err)
	}
}

// The file that names the cluster is damaged. The rest would be another cluster's name,
// and the node would set aside all its topics.
func TestDamagedClusterIDRemovesNoTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1")
		l.kill("n1")
		started := meta.NodeStarted{Node: meta.Node{ID: "n1", Levels: level.Supported()}}
		for range 2 {
			if _, err := l.store.Propose(t.Context(), started); err != nil {
				t.Fatal(err)
			}
		}
		l.start("n1")
		l.create("t", "n1")
		l.mustPut("t", 0, "mine")
		path := datadir.At(nil, "data").Owner()
		intact, err := vfs.ReadFile(l.hosts["n1"].disk, path, 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		harmed := [][]byte{nil, intact[:len(intact)-1], intact[:3], append(slices.Clone(intact), "more"...), make([]byte, 2<<10)}
		for at := range intact {
			one := slices.Clone(intact)
			one[at] ^= 1 << (at % 8)
			harmed = append(harmed, one)
		}
		for _, text := range harmed {
			l.kill("n1")
			if err := vfs.WriteFileSynced(l.hosts["n1"].disk, path, text); err != nil {
				t.Fatal(err)
			}
			l.start("n1")
			l.settled("t", "n1")
			if end := l.at("n1").Host.Lookup("t").Held(0).Replica.Log().End(); end != 1 {
				t.Fatalf("%q: the log ends at %d", text, end)
			}
			if h := l.at("n1").Node.Health(); h.Degraded {
				t.Fatalf("%q: health %+v", text, h)
			}
			if got, err := vfs.ReadFile(l.hosts["n1"].disk, path, 1<<10); err != nil || string(got) != string(intact) {
				t.Fatalf("%q was left as %q, %v", text, got, err)
			}
		}
	})
}

// A node that has newly joined its cluster does not serve data of an unknown
// cluster.
func TestDataOfAnUnknownClusterIsSetAside(t *testing.T) {
	n := newNode(t)
	n.put("t", "secret", "of another")
	n.stop()
	n.dir = t.TempDir()
	if err := vfs.WriteFileSynced(n.fs, datadir.At(nil, "data").Owner(), []byte("OTHER 12345678\n")); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.put("t", "mine")
	if got := n.subscribe("t", "ch").take(1); got != "mine" {
		t.Errorf("got %q", got)
	}
	if h := n.Node.Health(); !h.Degraded || h.Reasons[0].Code != "stray_data" {
		t.Errorf("health %+v", h)
	}
}
