package raftstore

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

// beyond is a level that this program does not support.
func beyond() level.Level { return level.Supported().Max + 1 }

// A program that finds the cluster beyond its level stops before it reads data that
// it may misunderstand. So does its next start, from the log and from a snapshot.
func TestOlderProgramStopsAtTheRaisedLevel(t *testing.T) {
	dir := t.TempDir()
	s := open(t, options(dir))
	propose(t, s, meta.NodeStarted{Node: meta.Node{ID: "n1", Levels: level.Range{Max: beyond()}}})
	_, err := s.Propose(t.Context(), meta.FinalizeUpgrade{Level: beyond()})
	<-s.Failed()
	if err != nil && !errors.Is(s.Err(), failure.FeatureLevel) {
		t.Errorf("proposal: %v, store: %v", err, s.Err())
	}
	if !errors.Is(s.Err(), failure.FeatureLevel) {
		t.Errorf("failed with %v", s.Err())
	}
	closeNow(t, s)
	if _, err := ReadStored(dir, "n1"); !errors.Is(err, failure.FeatureLevel) {
		t.Errorf("read the log: %v", err)
	}
	s, err = Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	<-s.Failed()
	if !errors.Is(s.Err(), failure.FeatureLevel) {
		t.Errorf("started again: %v", s.Err())
	}
	closeNow(t, s)
}

// A snapshot from a newer leader stops the store. Otherwise the leader would send
// it repeatedly.
func TestSnapshotOfANewerLevelStopsTheStore(t *testing.T) {
	var newState meta.State
	newState.Apply(1, meta.InitCluster{ID: "blue", Level: beyond()})
	m := newMachine(0)
	var failed error
	m.onFail = func(err error) { failed = err }
	if err := m.Restore(snapshotOf(t, &newState)); !errors.Is(err, failure.FeatureLevel) || !errors.Is(failed, failure.FeatureLevel) {
		t.Errorf("restore: %v, failed with %v", err, failed)
	}
	if m.state.Cluster().ID != "" {
		t.Error("the snapshot was taken over")
	}
}

// snapshotOf returns a state in the form in which it is sent.
func snapshotOf(t *testing.T, s *meta.State) io.ReadCloser {
	t.Helper()
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return io.NopCloser(&b)
}
