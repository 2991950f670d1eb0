package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestNamesRoundTrip(t *testing.T) {
	for _, topic := range []string{"t", "a.b", "7", "1.2.3", "x#ephemeral"} {
		if got, in, ok := ParseTopicName(TopicName(topic, 9)); !ok || got != topic || in != 9 {
			t.Errorf("directory of %s: %s %d %v", topic, got, in, ok)
		}
		if got, in, i, ok := parseReplicaName(ReplicaName(topic, 9, 3)); !ok || got != topic || in != 9 || i != 3 {
			t.Errorf("replica of %s: %s %d %d %v", topic, got, in, i, ok)
		}
		if got, in, i, ok := ParseAsideName(AsideName(topic, 9, 3, 12)); !ok || got != topic || in != 9 || i != 3 {
			t.Errorf("set-aside copy of %s: %s %d %d %v", topic, got, in, i, ok)
		}
	}
	for _, name := range []string{"", "t", "t.x", ".", "t.1.x", "t.x.1", "t.1.-1", "lost+found"} {
		if topic, in, i, ok := parseReplicaName(name); ok {
			t.Errorf("%q is a replica: %s %d %d", name, topic, in, i)
		}
		if topic, in, i, ok := ParseAsideName(name + ".5"); ok {
			t.Errorf("%q is a set-aside copy: %s %d %d", name+".5", topic, in, i)
		}
	}
}

// stateOf returns metadata of a cluster with a topic of two partitions, of which n1 has the first,
// after the given number of starts of n1.
func stateOf(t *testing.T, cluster string, starts int) *meta.State {
	t.Helper()
	s := new(meta.State)
	apply := func(c meta.Command) {
		if r := s.Apply(s.Index()+1, c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	apply(meta.InitCluster{ID: cluster})
	for range starts {
		apply(meta.NodeStarted{Node: meta.Node{ID: "n1"}})
	}
	apply(meta.NodeStarted{Node: meta.Node{ID: "n2"}})
	config := meta.TopicConfig{Partitions: 2, Replicas: 1}.WithDefaults(2, false)
	apply(meta.CreateTopic{Name: "t", Config: config, Assignment: [][]meta.NodeID{{"n1"}, {"n2"}}})
	return s
}

// TestDirectoryIsClaimed claims directories with all kinds of content.
func TestDirectoryIsClaimed(t *testing.T) {
	const mine = "MINE"
	for _, of := range []struct {
		name    string
		owner   string // what the owner file holds; "" if none
		ledger  bool   // there is one, without entries
		starts  int
		foreign int
		entered bool // the replica of the topic
	}{
		{"new", "", false, 1, 0, false},
		{"its own", string(encodeOwner(mine)), true, 2, 0, false},
		{"its own, without a ledger", string(encodeOwner(mine)), false, 2, 0, true},
		{"another's", string(encodeOwner("OTHER")), true, 2, 1, false},
		{"another's, without a ledger", string(encodeOwner("OTHER")), false, 2, 1, false},
		{"of a damaged name, of a known node", "MINE 00000000\n", true, 2, 0, false},
		{"of a damaged name, of a new node", "MINE 00000000\n", true, 1, 1, false},
	} {
		t.Run(of.name, func(t *testing.T) {
			s := stateOf(t, mine, of.starts)
			replica := ReplicaName("t", s.Topic("t").Incarnation, 0)
			d := At(vfs.NewMem(), "data")
			if err := vfs.MkdirAllSynced(d.FS, d.Topic("t", 5)); err != nil {
				t.Fatal(err)
			}
			if of.owner != "" {
				if err := vfs.WriteFileSynced(d.FS, d.Owner(), []byte(of.owner)); err != nil {
					t.Fatal(err)
				}
			}
			if of.ledger {
				if err := NewLedger(d).create(nil); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // a claimed directory stays claimed
				l := NewLedger(d)
				foreign, err := d.Claim(l, s, "n1", slog.New(slog.DiscardHandler))
				if err != nil || foreign != of.foreign {
					t.Fatalf("%d directories of others, %v", foreign, err)
				}
				if got := l.Has(replica); got != of.entered {
					t.Errorf("the replica is entered: %v", got)
				}
				if _, err := d.FS.Stat(d.Topic("t", 5)); (err == nil) != (of.foreign == 0) {
					t.Errorf("the topic: %v", err)
				}
				text, err := vfs.ReadFile(d.FS, d.Owner(), maxOwnerFile)
				if cluster, ok := decodeOwner(text); err != nil || !ok || cluster != mine {
					t.Errorf("the owner file holds %q, %v", text, err)
				}
			}
		})
	}
}

// TestLedgerOutlivesACrash enters and forgets replicas, and loses power at each change
// of the disk.
func TestLedgerOutlivesACrash(t *testing.T) {
	for at := int64(1); ; at++ {
		disk := vfs.NewCrashable()
		faulty := vfstest.NewFaulty(disk)
		broken := false
		faulty.Decide(func(n int64, _ vfs.Op) vfstest.Fault {
			broken = broken || n >= at
			if broken {
				return vfstest.Fault{Err: errors.New("power is gone")}
			}
			return vfstest.Fault{}
		})
		l := NewLedger(At(faulty, "data"))
		var entered []string
		create := l.create([]string{"a.1.0"})
		if create == nil {
			entered = append(entered, "a.1.0")
		}
		for _, name := range []string{"a.1.1", "b.2.0"} {
			if create == nil && l.Enter(name) == nil {
				entered = append(entered, name)
			}
		}
		again := NewLedger(At(disk.CrashClone(vfs.Crash{}), "data"))
		if there, err := again.load(); err != nil || !there && len(entered) > 0 {
			t.Fatalf("at change %d: %v, %v", at, there, err)
		}
		for _, name := range entered {
			if !again.Has(name) {
				t.Fatalf("at change %d: %s is gone", at, name)
			}
		}
		if broken {
			continue
		}
		if err := again.Forget("a", 1); err != nil || again.Has("a.1.0") || again.Has("a.1.1") || !again.Has("b.2.0") {
			t.Errorf("a topic is forgotten: %v", err)
		}
		return
	}
}

func TestMoveIsDoneOnce(t *testing.T) {
	d := At(vfs.NewMem(), "data")
	if err := vfs.MkdirAllSynced(d.FS, filepath.Join(d.Topic("t", 1), "0")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"t.1", ""} {
		if name, err := d.Move(d.Topic("t", 1), d.Trash(), "t.1"); err != nil || name != want {
			t.Fatalf("moved to %q, %v, want %q", name, err, want)
		}
	}
	names, err := d.FS.ReadDir(filepath.Join(d.Trash(), "t.1"))
	if err != nil || !slices.Equal(names, []string{"0"}) {
		t.Errorf("trash holds %v, %v", names, err)
	}
}

// TestMovedDirectoriesHaveUniqueNames: a replica that was damaged twice at one version of its partition could not be set
// aside the second time, and was not copied again.
func TestMovedDirectoriesHaveUniqueNames(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.OS{}} {
		d := At(fsys, filepath.Join(t.TempDir(), name))
		as := AsideName("t", 1, 0, 7)
		for i, want := range []string{as, as + "-2", as + "-3"} {
			replica := filepath.Join(d.Topic("t", 1), "0")
			if err := vfs.MkdirAllSynced(d.FS, replica); err != nil {
				t.Fatal(err)
			}
			if i != 1 { // an empty directory has the name, too
				if err := vfs.WriteFileSynced(d.FS, filepath.Join(replica, "log"), []byte{byte(i)}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := d.Move(replica, d.Quarantine(), as)
			if topic, in, p, ok := ParseAsideName(got); err != nil || got != want || topic != "t" || in != 1 || p != 0 || !ok {
				t.Errorf("%s: moved to %q, want %q: %v; parsed as %s %d %d %v", name, got, want, err, topic, in, p, ok)
			}
		}
		if text, err := vfs.ReadFile(d.FS, filepath.Join(d.Quarantine(), as, "log"), 9); err != nil || !slices.Equal(text, []byte{0}) {
			t.Errorf("%s: the first has %v, %v", name, text, err)
		}
	}
}

// TestLedgerKeepsWhatIsInTheTrash trims the ledger while a topic can be restored, and after.
func TestLedgerKeepsWhatIsInTheTrash(t *testing.T) {
	d := At(vfs.NewMem(), "data")
	s := &meta.State{}
	apply := func(c meta.Command) {
		t.Helper()
		if r := s.Apply(s.Index()+1, c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	apply(meta.NodeStarted{Node: meta.Node{ID: "n1"}})
	apply(meta.CreateTopic{Name: "t", Config: meta.TopicConfig{}.WithDefaults(1, false), Assignment: [][]meta.NodeID{{"n1"}}})
	in := s.Topic("t").Incarnation
	entry := ReplicaName("t", in, 0)
	l := NewLedger(d)
	if err := l.create([]string{entry}); err != nil {
		t.Fatal(err)
	}
	apply(meta.DeleteTopic{Name: "t"})
	if err := l.Trim(s, "n1"); err != nil || !l.Has(entry) {
		t.Errorf("what can be restored is forgotten, %v", err)
	}
	if err := l.Trim(s, "n2"); err != nil || l.Has(entry) {
		t.Errorf("what another node holds is kept, %v", err)
	}
	if err := l.Enter(entry); err != nil {
		t.Fatal(err)
	}
	apply(meta.PurgeTopics{Incarnations: []meta.Incarnation{in}})
	if err := l.Trim(s, "n1"); err != nil || l.Has(entry) {
		t.Errorf("what was purged is kept, %v", err)
	}
}

// mounted is a file system with another one below it.
type mounted struct {
	vfs.FS
	below string
}

func (m mounted) Stat(name string) (fs.FileInfo, error) {
	info, err := m.FS.Stat(name)
	dev := uint64(1)
	if strings.HasPrefix(name, m.below) {
		dev = 2
	}
	return statOf{info, dev}, err
}

type statOf struct {
	fs.FileInfo
	dev uint64
}

func (s statOf) Sys() any { return &syscall.Stat_t{Dev: s.dev} }

// TestAnotherDiskBelowIsSyncedFileByFile: one call syncs one file system, and topics may be on another.
func TestAnotherDiskBelowIsSyncedFileByFile(t *testing.T) {
	mem := vfs.NewMem()
	for _, dir := range []string{"d/topics/a.1", "d/topics/b.2"} {
		if err := mem.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	for below, want := range map[string]bool{"elsewhere": true, "d/topics": false, "d/topics/b.2": false} {
		if got := At(mounted{mem, below}, "d").onOneDisk(); got != want {
			t.Errorf("with another disk at %s: on one disk %v", below, got)
		}
	}
	if !At(mem, "d").onOneDisk() || !At(mem, "none").onOneDisk() {
		t.Error("not on one disk")
	}
}

// TestStartSyncsAllAtOnceOnOneDiskOnly makes the call fail, which shows whether it was made.
func TestStartSyncsAllAtOnceOnOneDiskOnly(t *testing.T) {
	for below, want := range map[string]bool{"elsewhere": true, "d/topics": false} {
		d := At(mounted{vfs.NewMem(), below}, "d")
		for i := range syncAllFrom {
			if err := errors.Join(d.FS.MkdirAll(filepath.Join(d.replicas(), fmt.Sprint(i))), d.FS.MkdirAll(filepath.Join(d.Topics(), fmt.Sprintf("t.%d", i)))); err != nil {
				t.Fatal(err)
			}
		}
		_, journaled, report, err := d.Journaled(redo.Options{SyncAll: !want}, slog.New(slog.DiscardHandler), func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		if got := report.NotAtOnce != nil; got != want {
			t.Errorf("with another disk at %s: tried %v, %v", below, got, report.NotAtOnce)
		}
		if err := journaled.Close(); err != nil {
			t.Error(err)
		}
	}
}
