package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

func TestUnnamedNodeKeepsTheNameOfItsData(t *testing.T) {
	dir := t.TempDir()
	stored := func() os.FileInfo {
		t.Helper()
		s, err := raftstore.Open(raftstore.Options{Dir: metaDir(dir), NodeID: "old", Bootstrap: true, ReserveBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.WaitLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(metaDir(dir), "identity.json"))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	if first := stored(); !os.SameFile(first, stored()) {
		t.Error("the identity is written again: a store must open on a disk that is full")
	}
	for _, tt := range []struct{ source, dir, want string }{
		{"host name", dir, "old"},
		{"host name", t.TempDir(), "host"},
		{"flag --node-id", dir, "host"},
	} {
		loaded := config.Loaded{Sources: map[string]string{"node-id": tt.source}}
		loaded.Options.NodeID, loaded.Options.DataDir = "host", tt.dir
		if adoptNodeID(&loaded); loaded.Options.NodeID != tt.want {
			t.Errorf("named by %s: node %q, want %q", tt.source, loaded.Options.NodeID, tt.want)
		}
	}
}
