package raftstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options(dir string) Options {
	return Options{Dir: dir, NodeID: "n1", Bootstrap: true, ReserveBytes: -1}
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.WaitLeader(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

func propose(t testing.TB, s *Store, c meta.Command) meta.Result {
	t.Helper()
	r, err := s.Propose(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", meta.NameOf(c), err)
	}
	return r
}

func topic(name string) meta.CreateTopic {
	return meta.CreateTopic{
		Name: name, Config: meta.TopicConfig{}.WithDefaults(1, false), Assignment: [][]meta.NodeID{{"n1"}},
	}
}

// populate registers the node and makes topics with a channel each.
func populate(t testing.TB, s *Store, topics int) {
	t.Helper()
	propose(t, s, meta.NodeStarted{Node: meta.Node{ID: "n1", Levels: level.Supported()}})
	for i := range topics {
		name := fmt.Sprintf("topic-%d", i)
		propose(t, s, topic(name))
		propose(t, s, meta.CreateChannel{Topic: name, Channel: "ch", CreatedAt: int64(i)})
	}
}

func encoded(t testing.TB, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.View().Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func closeNow(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRestartFindsEverything(t *testing.T) {
	o := options(t.TempDir())
	s := open(t, o)
	id, err := s.Init(t.Context())
	if err != nil || id == "" {
		t.Fatalf("init: %q, %v", id, err)
	}
	populate(t, s, 5)
	want := encoded(t, s)
	closeNow(t, s)
	closeNow(t, s) // again is harmless
	start := time.Now()
	s = open(t, o)
	t.Logf("restart to leader: %v", time.Since(start))
	if got := encoded(t, s); !bytes.Equal(got, want) {
		t.Fatalf("after restart:\n%q\nbefore:\n%q", got, want)
	}
	if again, err := s.Init(t.Context()); err != nil || again != id {
		t.Fatalf("cluster id %q, %v; was %q", again, err, id)
	}
}

func TestRestartFindsSnapshotAndLog(t *testing.T) {
	o := options(t.TempDir())
	o.SnapshotThreshold, o.TrailingLogs = 8, 4
	s := open(t, o)
	populate(t, s, 20)
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	propose(t, s, meta.PauseTopic{Name: "topic-3", Paused: true})
	want := encoded(t, s)
	if st := s.Stats(); st.SnapshotIndex == 0 || st.StoreBytes == 0 || len(st.Voters) != 1 || !st.IsLeader || st.Writes.Count == 0 {
		t.Errorf("stats: %+v", st)
	}
	closeNow(t, s)
	s = open(t, o)
	if got := encoded(t, s); !bytes.Equal(got, want) {
		t.Fatalf("after restart:\n%q\nbefore:\n%q", got, want)
	}
	if tp := s.Topic("topic-3"); tp == nil || !tp.Paused {
		t.Errorf("topic-3: %+v", tp)
	}
}

// copyDir copies the files in their current state, as after a kill of the
// process.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestKilledProcessLosesNothingThatWasProposed(t *testing.T) {
	o := options(t.TempDir())
	s := open(t, o)
	populate(t, s, 10)
	want := encoded(t, s)
	killed := o
	killed.Dir = copyDir(t, o.Dir)
	again := open(t, killed)
	if got := encoded(t, again); !bytes.Equal(got, want) {
		t.Fatalf("after kill:\n%q\nbefore:\n%q", got, want)
	}
}

func TestCommandsOfManyGoroutines(t *testing.T) {
	const workers, each = 8, 125
	o := options(t.TempDir())
	s := open(t, o)
	propose(t, s, meta.NodeStarted{Node: meta.Node{ID: "n1"}})
	start := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("t-%d-%d", w, i)
				if _, err := s.Propose(t.Context(), topic(name)); err != nil {
					t.Error(err)
				}
				if _, err := s.Propose(t.Context(), meta.CreateChannel{Topic: name, Channel: "ch"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	st := s.Stats()
	t.Logf("%d commands in %v, %d writes, %d bytes", 2*workers*each, time.Since(start), st.Writes.Count, st.StoreBytes)
	if n := len(s.Topics()); n != workers*each {
		t.Fatalf("%d topics", n)
	}
	closeNow(t, s)
	start = time.Now()
	s = open(t, o)
	t.Logf("restart to leader: %v", time.Since(start))
	if n := len(s.Topics()); n != workers*each {
		t.Fatalf("%d topics after restart", n)
	}
}

func TestRefusalsSayThatNothingWasChanged(t *testing.T) {
	s := open(t, Options{NodeID: "n1", Bootstrap: true, InMemory: true})
	populate(t, s, 1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	lone, err := Open(Options{NodeID: "n2", InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	closed := open(t, Options{NodeID: "n1", Bootstrap: true, InMemory: true})
	closeNow(t, closed)
	other := topic("topic-0")
	other.Config.Ordered = true
	for _, test := range []struct {
		name  string
		store *Store
		ctx   context.Context
		cmd   meta.Command
		want  error
	}{
		{"the state refuses", s, t.Context(), other, failure.TopicExists},
		{"the command is invalid", s, t.Context(), topic("no good"), failure.InvalidName},
		{"the caller has given up", s, gone, topic("x"), failure.NotProposed},
		{"no leader", lone, t.Context(), topic("x"), failure.NotController},
		{"closed", closed, t.Context(), topic("x"), failure.MetadataClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.store.Propose(test.ctx, test.cmd)
			if !errors.Is(err, test.want) || fate.Of(err) != fate.Refused {
				t.Errorf("%v, %v", err, fate.Of(err))
			}
		})
	}
	if err := lone.Close(); err != nil {
		t.Error(err)
	}
}

func TestChangedIsClosedByTheNextCommand(t *testing.T) {
	s := open(t, Options{NodeID: "n1", Bootstrap: true, InMemory: true})
	changed, before := s.Changed(), s.Applied()
	select {
	case <-changed:
		t.Fatal("changed without a command")
	default:
	}
	populate(t, s, 0)
	<-changed
	if s.Applied() <= before || s.Node("n1") == nil || len(s.Nodes()) != 1 {
		t.Errorf("applied %d after %d, nodes %v", s.Applied(), before, s.Nodes())
	}
}

func TestDamageStopsTheStoreAndNamesTheFile(t *testing.T) {
	o := options(t.TempDir())
	o.TrailingLogs = 4
	s := open(t, o)
	populate(t, s, 30)
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	closeNow(t, s)
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at%len(b)] ^= 0x40; return b }
	}
	for _, test := range []struct {
		name, glob string
		change     func([]byte) []byte // nil: the file goes
	}{
		{"a snapshot with a flipped bit", "snapshots/*/state.bin", flip(700)},
		{"a short snapshot", "snapshots/*/state.bin", func(b []byte) []byte { return b[:len(b)/2] }},
		{"an empty snapshot", "snapshots/*/state.bin", func([]byte) []byte { return nil }},
		{"no snapshot", "snapshots/*/state.bin", nil},
		{"a snapshot without description", "snapshots/*/meta.json", nil},
		{"a snapshot with a bad description", "snapshots/*/meta.json", flip(0)},
		{"no log", "raft.db", nil},
		{"an empty log", "raft.db", func([]byte) []byte { return nil }},
		{"half a log", "raft.db", func(b []byte) []byte { return b[:len(b)/2] }},
		{"a log that is none", "raft.db", func(b []byte) []byte { return bytes.Repeat([]byte("no "), len(b)/3) }},
		{"a bad identity", "identity.json", flip(0)},
	} {
		t.Run(test.name, func(t *testing.T) {
			damaged := o
			damaged.Dir = copyDir(t, o.Dir)
			names, err := filepath.Glob(filepath.Join(damaged.Dir, test.glob))
			if err != nil || len(names) == 0 {
				t.Fatal(names, err)
			}
			damage(t, names[0], test.change)
			s, err := Open(damaged)
			if err == nil {
				t.Fatalf("opened, with %d topics: %v", len(s.Topics()), s.Close())
			}
			t.Log(err)
			if fate.Of(err) != fate.Corrupt || !bytes.Contains([]byte(err.Error()), []byte(filepath.Base(names[0]))) {
				t.Errorf("%v: fate %v, file %s", err, fate.Of(err), names[0])
			}
		})
	}
}

func damage(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	if change == nil {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLostSnapshotsAreDetectedByGap(t *testing.T) {
	o := options(t.TempDir())
	o.TrailingLogs = 1
	s := open(t, o)
	populate(t, s, 30)
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	closeNow(t, s)
	if err := os.RemoveAll(filepath.Join(o.Dir, "snapshots")); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(o); !errors.Is(err, errLost) {
		t.Fatalf("opened: %v, %v", s, err)
	}
}

// A flipped byte of the log file is either detected at the open or makes no
// difference to the state.
func TestFlippedLogBitNeverChangesState(t *testing.T) {
	o := options(t.TempDir())
	s := open(t, o)
	populate(t, s, 5)
	want := encoded(t, s)
	closeNow(t, s)
	name := filepath.Join(o.Dir, "raft.db")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var refused, same int
	const probes = 60
	for i := range probes {
		bad := o
		bad.Dir = copyDir(t, o.Dir)
		b := bytes.Clone(whole)
		b[(i*7919)%len(b)] ^= 1 << (i % 8)
		if err := os.WriteFile(filepath.Join(bad.Dir, "raft.db"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := verify(bad.Dir, "n1"); err != nil {
			refused++
			continue
		}
		s := open(t, bad)
		if got := encoded(t, s); !bytes.Equal(got, want) {
			t.Errorf("byte %d: another state", (i*7919)%len(b))
		}
		closeNow(t, s)
		same++
	}
	t.Logf("%d refused, %d the same", refused, same)
}

func TestDirectoryOfAnotherNodeIsRefused(t *testing.T) {
	o := options(t.TempDir())
	closeNow(t, open(t, o))
	o.NodeID = "n2"
	if s, err := Open(o); !errors.Is(err, ErrOtherNode) {
		t.Fatalf("opened: %v, %v", s, err)
	}
}

// A damaged identity file counts as damage, not as another node's, unless it has
// another node's name. The error suggests a remedy.
func TestDamagedIdentityIsRefused(t *testing.T) {
	o := options(t.TempDir())
	closeNow(t, open(t, o))
	name := filepath.Join(o.Dir, identityFile)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", string(whole) + "more", strings.Replace(string(whole), "node_id", "nodf_id", 1)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Exists(o.Dir, o.NodeID); fate.Of(err) != fate.Corrupt || !strings.Contains(err.Error(), "start with an empty one") {
			t.Errorf("%q: exists: %v", text, err)
		}
		if s, err := Open(o); fate.Of(err) != fate.Corrupt || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "start with an empty one") {
			t.Errorf("%q: opened: %v, %v", text, s, err)
		}
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	o := options(t.TempDir())
	open(t, o)
	if s, err := Open(o); err == nil || fate.Of(err) == fate.Corrupt {
		t.Fatalf("opened: %v, %v", s, err)
	}
}

func TestInterruptedFirstStartIsRepeated(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, dir string)
	}{
		{"before the log was written", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, logFile), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"after the term, before the first entry", func(t *testing.T, dir string) {
			p, err := openParts(new(options(dir)))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(p.log.SetUint64([]byte("CurrentTerm"), 1), p.close()); err != nil {
				t.Fatal(err)
			}
		}},
		{"before it said whose it is", func(t *testing.T, dir string) {
			closeNow(t, open(t, options(dir)))
			if err := os.Remove(filepath.Join(dir, identityFile)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			test.prepare(t, dir)
			populate(t, open(t, options(dir)), 1)
			if _, err := os.Stat(filepath.Join(dir, identityFile)); errors.Is(err, fs.ErrNotExist) {
				t.Error("no identity")
			}
		})
	}
}
