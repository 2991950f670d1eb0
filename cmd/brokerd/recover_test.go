package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// survivorDir returns the data directory of n1 after the loss of n2, with an address for n2. n1 is
// in sync in the first partition of t, is not in the second, and never held the third.
func survivorDir(t *testing.T, address string) string {
	t.Helper()
	dir := t.TempDir()
	s, err := raftstore.Open(raftstore.Options{Dir: metaDir(dir), NodeID: "n1", Bootstrap: true, ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := s.WaitLeader(ctx); err != nil {
		t.Fatal(err)
	}
	apply := func(c meta.Command) {
		t.Helper()
		if _, err := s.Propose(ctx, c); err != nil {
			t.Fatalf("%s: %v", meta.NameOf(c), err)
		}
	}
	apply(meta.InitCluster{ID: "ORIGIN"})
	apply(meta.NodeStarted{Node: meta.Node{ID: "n1", ClusterAddress: "127.0.0.1:1"}})
	apply(meta.NodeStarted{Node: meta.Node{ID: "n2", ClusterAddress: address}})
	apply(meta.NodeStarted{Node: meta.Node{ID: "n3", ClusterAddress: address}})
	c := meta.TopicConfig{Partitions: 3, Replicas: 2, MinISR: 2}.WithDefaults(2, false)
	apply(meta.CreateTopic{Name: "t", Config: c, Assignment: [][]meta.NodeID{{"n1", "n2"}, {"n2", "n1"}, {"n2", "n3"}}})
	apply(meta.AlterISR{Topic: "t", Partition: 1, Epoch: 1, Version: 1, ISR: []meta.NodeID{"n2"}})
	c.Partitions = 1
	for name, nodes := range map[string][]meta.NodeID{"gone": {"n2", "n3"}, "kept": {"n2", "n1"}} {
		apply(meta.CreateTopic{Name: name, Config: c, Assignment: [][]meta.NodeID{nodes}})
		apply(meta.DeleteTopic{Name: name})
	}
	if err := s.Members().AddNonvoter(ctx, "n2", address); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// closedAddress refuses connections: no test listens on a port below 1024, and the system assigns none.
const closedAddress = "127.0.0.1:2"

// brokerdSays runs the program with a command line.
func brokerdSays(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out bytes.Buffer
	errs, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	p := &program{args: append([]string{"brokerd"}, args...), stdout: &out, stderr: errs}
	code = p.run(t.Context())
	text, err := os.ReadFile(errs.Name())
	if err != nil {
		t.Fatal(err)
	}
	return code, out.String(), string(text)
}

func TestRecoverReportsLossesAndChangesNothingUnconfirmed(t *testing.T) {
	dir := survivorDir(t, closedAddress)
	code, out, stderr := brokerdSays(t, "recover", "--only-survivor", "--data-dir", dir)
	if code != exitFailed || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"lost      n2", "t/0        all", "t/1        some", "t/2        none", "ALL LATER CHANGES MADE WITHOUT n1 ARE LOST",
		"partition elect TOPIC/PARTITION --unclean --to n1", "Nothing was changed",
		"can no longer be restored, because n1 has no copy: gone\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "cluster")); !os.IsNotExist(err) {
		t.Errorf("the directory was claimed: %v", err)
	}
	code, out, stderr = brokerdSays(t, "recover", "--only-survivor", "--yes-lose-what-is-missing", "--data-dir", dir, "-o", "json")
	var r lossReport
	if err := json.Unmarshal([]byte(out), &r); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, stderr)
	}
	if !meta.Supersedes(r.NewClusterID, "ORIGIN") || len(r.Partitions) != 3 || len(r.LeftOut) != 1 || len(r.BelowMinISR) != 1 || len(r.DeletedLost) != 1 {
		t.Errorf("%+v", r)
	}
	owner, err := os.ReadFile(filepath.Join(dir, "cluster"))
	if err != nil || !strings.HasPrefix(string(owner), r.NewClusterID+" ") {
		t.Errorf("the topics belong to %q, want %s: %v", owner, r.NewClusterID, err)
	}
	code, out, stderr = brokerdSays(t, "recover", "--only-survivor", "--yes-lose-what-is-missing", "--data-dir", dir)
	if code != exitOK || !strings.Contains(out, "nothing to recover") {
		t.Errorf("again: exit code %d: %s%s", code, out, stderr)
	}
}

func TestRecoverRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	alive := survivorDir(t, l.Addr().String())
	used := survivorDir(t, closedAddress)
	lock, err := lockDataDir(used, "n1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	empty := t.TempDir()
	tests := []struct {
		name string
		args []string
		code int
		want string
	}{
		{"without being told that it is the only survivor", []string{"--data-dir", alive}, exitUsage, "--only-survivor"},
		{"without a directory", []string{"--only-survivor"}, exitUsage, "--data-dir"},
		{"a directory that is not there", []string{"--only-survivor", "--data-dir", filepath.Join(empty, "x")}, exitDisk, "no such file"},
		{"a directory of no node", []string{"--only-survivor", "--data-dir", empty}, exitUsage, "--node-id"},
		{"a directory without metadata", []string{"--only-survivor", "--data-dir", empty, "--node-id", "n1"}, exitDisk, "holds no metadata"},
		{"a directory of another node", []string{"--only-survivor", "--data-dir", alive, "--node-id", "n2"}, exitConfig, "n1"},
		{"a directory that is in use", []string{"--only-survivor", "--data-dir", used}, exitTemporary, "is in use by"},
		{"while another node answers", []string{"--only-survivor", "--data-dir", alive}, exitTemporary, "n2 at " + l.Addr().String()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, stderr := brokerdSays(t, append([]string{"recover", "--yes-lose-what-is-missing"}, tt.args...)...)
			if code != tt.code || !strings.Contains(stderr, tt.want) || out != "" {
				t.Errorf("exit code %d: %s%s", code, out, stderr)
			}
		})
	}
	code, out, stderr := brokerdSays(t, "recover", "--only-survivor", "--data-dir", alive, "--assume-dead", "n2")
	if code != exitFailed || !strings.Contains(out, "Nothing was changed") {
		t.Errorf("assumed dead: exit code %d: %s%s", code, out, stderr)
	}
}
