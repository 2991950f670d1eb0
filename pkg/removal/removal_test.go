package removal

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// rig is a node's disk with metadata of three topics, on n1, on n1 and n2, and on n2.
type rig struct {
	*Remover
	t      *testing.T
	dirs   datadir.Dir
	ledger *datadir.Ledger
	s      *meta.State
	in     map[string]meta.Incarnation
	todo   []func() // what runs in the background
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dirs: datadir.At(vfs.NewMem(), "data"), s: &meta.State{}, in: map[string]meta.Incarnation{}}
	r.ledger = datadir.NewLedger(r.dirs)
	if err := vfs.MkdirAllSynced(r.dirs.FS, r.ledger.Path()); err != nil {
		t.Fatal(err)
	}
	r.Remover = New(Options{
		Dirs: r.dirs, Ledger: r.ledger, Self: "n1", Log: slog.New(slog.DiscardHandler),
		Go: func(f func()) bool { r.todo = append(r.todo, f); return true },
	})
	for _, id := range []meta.NodeID{"n1", "n2"} {
		r.apply(meta.NodeStarted{Node: meta.Node{ID: id}})
	}
	for name, nodes := range map[string][]meta.NodeID{"mine": {"n1"}, "both": {"n1", "n2"}, "theirs": {"n2"}} {
		config := meta.TopicConfig{Replicas: len(nodes)}.WithDefaults(2, false)
		r.apply(meta.CreateTopic{Name: name, Config: config, Assignment: [][]meta.NodeID{nodes}})
		r.in[name] = r.s.Topic(name).Incarnation
	}
	return r
}

func (r *rig) apply(c meta.Command) {
	r.t.Helper()
	if res := r.s.Apply(r.s.Index()+1, c); res.Err != nil {
		r.t.Fatal(res.Err)
	}
}

// write writes n bytes to the log of a topic.
func (r *rig) write(name string, bytes int) {
	r.t.Helper()
	dir := filepath.Join(r.dirs.Topic(name, r.in[name]), "0")
	if err := vfs.MkdirAllSynced(r.dirs.FS, dir); err != nil {
		r.t.Fatal(err)
	}
	if err := vfs.WriteFileSynced(r.dirs.FS, filepath.Join(dir, "log"), make([]byte, bytes)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) delete(name string) {
	r.t.Helper()
	r.apply(meta.DeleteTopic{Name: name})
	if err := r.Deleted(name, r.in[name], r.s); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) there(name string) bool {
	_, err := r.dirs.FS.Stat(r.dirs.Topic(name, r.in[name]))
	return err == nil
}

// The oldest deleted topic is one that this node has, with as much as is asked for.
func TestOldestIsOneThatNodeHas(t *testing.T) {
	r := newRig(t)
	r.write("both", 10)
	r.write("mine", 100)
	for _, name := range []string{"theirs", "both", "mine"} {
		r.delete(name)
	}
	for _, test := range []struct {
		least int64
		want  string // "": none
	}{{0, "both"}, {10, "both"}, {11, "mine"}, {101, ""}} {
		got := r.Oldest(r.s, test.least)
		if (got == nil) != (test.want == "") || got != nil && got.Topic.Name != test.want {
			t.Errorf("with %d bytes: %+v, want %q", test.least, got, test.want)
		}
	}
}

// Review removes topics that left the trash, and replicas of a restored topic that are no longer
// assigned here.
func TestReviewKeepsWhatWasRestored(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"mine", "both", "theirs"} {
		r.write(name, 10)
		if err := r.ledger.Enter(datadir.ReplicaName(name, r.in[name], 0)); err != nil {
			t.Fatal(err)
		}
		r.delete(name)
	}
	if topics, bytes := r.Kept(); topics != 3 || bytes != 30 {
		t.Errorf("%d topics with %d bytes are kept, want 3 with 30", topics, bytes)
	}
	r.apply(meta.RestoreTopic{Name: "mine"})
	r.apply(meta.RestoreTopic{Name: "theirs"}) // n1 has a copy that it was to receive
	r.apply(meta.PurgeTopics{Incarnations: []meta.Incarnation{r.in["both"]}})
	for name := range r.in {
		if err := r.Review(name, r.s); err != nil {
			t.Fatal(err)
		}
	}
	if !r.there("mine") || r.there("both") {
		t.Errorf("restored is there: %v, purged is there: %v", r.there("mine"), r.there("both"))
	}
	if _, err := r.dirs.FS.Stat(filepath.Join(r.dirs.Topic("theirs", r.in["theirs"]), "0")); err == nil {
		t.Error("a copy stays that is no replica")
	}
	if topics, bytes := r.Kept(); topics != 0 || bytes != 0 {
		t.Errorf("%d topics with %d bytes are kept, though none is in the trash", topics, bytes)
	}
	if !r.Busy() || len(r.todo) != 2 {
		t.Errorf("%d directories are deleted in the background", len(r.todo))
	}
	for _, f := range r.todo {
		f()
	}
	if left, _ := r.dirs.FS.ReadDir(r.dirs.Trash()); r.Busy() || len(left) > 0 {
		t.Errorf("left are %v, busy %v", left, r.Busy())
	}
}

// A start completes interrupted removals, and keeps what can be restored.
func TestSweep(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"mine", "both"} {
		r.write(name, 10)
		r.apply(meta.DeleteTopic{Name: name})
	}
	r.apply(meta.PurgeTopics{Incarnations: []meta.Incarnation{r.in["both"]}})
	r.in["future"] = 1 << 40
	r.write("future", 10)
	if strays := r.Sweep(r.s); strays != 1 || !r.there("mine") || r.there("both") || !r.there("future") {
		t.Errorf("%d strays; %v, %v, %v", strays, r.there("mine"), r.there("both"), r.there("future"))
	}
	if got := r.Oldest(r.s, 1); got == nil || got.Topic.Name != "mine" {
		t.Errorf("the oldest: %+v", got)
	}
}

// A replica that is assigned to another node was moved there, or this disk was given the directories of
// another node's: then it may be the only copy.
func TestOnlyReplicasCreatedHereAreSwept(t *testing.T) {
	for _, created := range []bool{true, false} {
		r := newRig(t)
		r.write("theirs", 10)
		entry := datadir.ReplicaName("theirs", r.in["theirs"], 0)
		if created {
			if err := r.ledger.Enter(entry); err != nil {
				t.Fatal(err)
			}
		}
		strays := r.Sweep(r.s)
		_, err := r.dirs.FS.Stat(filepath.Join(r.dirs.Topic("theirs", r.in["theirs"]), "0"))
		if kept := err == nil; kept == created || (strays == 1) == created || r.ledger.Has(entry) {
			t.Errorf("created here: %v: kept %v, %d strays, in the ledger %v", created, kept, strays, r.ledger.Has(entry))
		}
	}
}

// A crash between the creation of a replica's directory and its entry leaves an empty directory.
func TestEmptyDirectoryIsNoStrayReplica(t *testing.T) {
	r := newRig(t)
	dir := filepath.Join(r.dirs.Topic("theirs", r.in["theirs"]), "0")
	if err := vfs.MkdirAllSynced(r.dirs.FS, dir); err != nil {
		t.Fatal(err)
	}
	strays := r.Sweep(r.s)
	if _, err := r.dirs.FS.Stat(dir); err == nil || strays > 0 {
		t.Errorf("%d strays, stat: %v", strays, err)
	}
}

// The directory of a deleted topic is kept as a whole. Its entries stay, so that a copy that is no
// replica any more is removed once the topic is restored, also while the node is down.
func TestCopyInTrashIsStillInTheLedger(t *testing.T) {
	r := newRig(t)
	r.write("theirs", 10)
	if err := r.ledger.Enter(datadir.ReplicaName("theirs", r.in["theirs"], 0)); err != nil {
		t.Fatal(err)
	}
	r.apply(meta.DeleteTopic{Name: "theirs"})
	r.Sweep(r.s)
	r.apply(meta.RestoreTopic{Name: "theirs"})
	if strays := r.Sweep(r.s); strays > 0 {
		t.Error("a copy that this node created is taken for another node's")
	}
}

// What is removed leaves the ledger; what can be restored stays in it, so that its loss would be
// noticed.
func TestLedgerForgetsWhatIsRemoved(t *testing.T) {
	r := newRig(t)
	if err := vfs.MkdirAllSynced(r.dirs.FS, r.ledger.Path()); err != nil {
		t.Fatal(err)
	}
	entry := func(name string) string { return datadir.ReplicaName(name, r.in[name], 0) }
	for _, name := range []string{"mine", "both"} {
		r.write(name, 10)
		if err := r.ledger.Enter(entry(name)); err != nil {
			t.Fatal(err)
		}
		r.delete(name)
		if !r.ledger.Has(entry(name)) {
			t.Errorf("%s is in the trash, and the ledger has forgotten it", name)
		}
	}
	r.apply(meta.PurgeTopics{Incarnations: []meta.Incarnation{r.in["both"]}})
	if err := r.Review("both", r.s); err != nil {
		t.Fatal(err)
	}
	if err := r.Deleted("mine", r.in["mine"], &meta.State{}); err != nil { // its trash is empty
		t.Fatal(err)
	}
	for _, name := range []string{"mine", "both"} {
		if r.ledger.Has(entry(name)) {
			t.Errorf("%s is removed, and the ledger has it", name)
		}
	}
}
