package broker

import (
	"strings"
	"testing"
)

// The metadata of a node is gone, or its data directory was taken from another
// cluster. Topics of the two may have the same name and incarnation.
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
	if h := n.Health(); !h.Degraded || h.Reasons[0].Code != "stray_data" {
		t.Errorf("health %+v", h)
	}
	if kept == "" {
		t.Errorf("the other cluster's data is gone: %v", names)
	}
	if names, err := n.fs.ReadDir("data/topics"); err != nil || len(names) != 1 {
		t.Errorf("topics: %v, %v", names, err)
	}
}
