package datadir

import (
	"slices"
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Data that is newer than restored metadata is kept: a partition that was assigned to this node
// since then, and a topic. Data of topics deleted before is left to the node.
func TestDataNewerThanStateIsKept(t *testing.T) {
	d := At(vfs.NewMem(), "data")
	s := stateOf(t, "ORIGIN", 1)
	of := s.Topic("t")
	late := TopicName("late", meta.Incarnation(s.Index()+1))
	known := TopicName("t", of.Incarnation)
	for _, dir := range []string{known + "/0", known + "/1", late + "/0", TopicName("deleted", 2) + "/0", "stranger"} {
		if err := d.FS.MkdirAll(d.Topics() + "/" + dir); err != nil {
			t.Fatal(err)
		}
	}
	n := NewerThan(s, d, "n1")
	got, err := n.Paths()
	slices.Sort(got)
	if want := []string{late, known + "/1"}; err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v, %v, want %v", got, err, want)
	}
	for range 2 { // a recovery may be repeated
		if err := n.Keep(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{n.Kept() + "/" + late + "/0", n.Kept() + "/" + known + "/1", d.Topics() + "/" + known + "/0", d.Topics() + "/stranger"} {
		if _, err := d.FS.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	if got, err := n.Paths(); len(got) > 0 || err != nil {
		t.Errorf("left: %v, %v", got, err)
	}
}
