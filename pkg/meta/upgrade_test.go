package meta

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
)

func started(id NodeID, least, most level.Level) NodeStarted {
	return NodeStarted{Node: Node{ID: id, Version: "1.0", Levels: level.Range{Min: least, Max: most}}}
}

// applied returns a function that applies commands to s, one at a time.
func applied(s *State) func(Command) Result {
	return func(c Command) Result { return s.Apply(s.Index()+1, c) }
}

func TestLevelRisesWhenEveryNodeSupportsIt(t *testing.T) {
	var s State
	apply := applied(&s)
	apply(InitCluster{ID: "blue", Level: 1})
	apply(started("n1", 0, 1))
	apply(started("n2", 1, 2))
	if r := apply(FinalizeUpgrade{2}); !errors.Is(r.Err, failure.FeatureLevel) || !strings.Contains(r.Err.Error(), "n1 (1.0, supports 0 to 1)") || strings.Contains(r.Err.Error(), "n2") {
		t.Errorf("while n1 is old: %v", r.Err)
	}
	if s.Cluster().Level != 1 || Attainable(&s) != 1 {
		t.Errorf("level %v of %v", s.Cluster().Level, Attainable(&s))
	}
	apply(started("n1", 1, 3))
	if r := apply(FinalizeUpgrade{2}); r.Err != nil || r.Existed || s.Cluster().Level != 2 || Attainable(&s) != 2 {
		t.Errorf("%+v, level %v of %v", r, s.Cluster().Level, Attainable(&s))
	}
	if r := apply(FinalizeUpgrade{1}); r.Err != nil || !r.Existed || s.Cluster().Level != 2 {
		t.Errorf("back: %+v, level %v", r, s.Cluster().Level)
	}
	before := encode(t, &s)
	for _, c := range []NodeStarted{started("n1", 0, 1), started("n9", 3, 4)} {
		if r := apply(c); !errors.Is(r.Err, failure.FeatureLevel) {
			t.Errorf("%s, which supports %v, starts in a cluster of level 2: %v", c.Node.ID, c.Node.Levels, r.Err)
		}
	}
	if again := encode(t, &s); !bytes.Contains(again, []byte(`"level":2`)) || len(again) != len(before) {
		t.Errorf("refused starts changed the state: %s", again)
	}
	if r := apply(started("n9", 2, 4)); r.Err != nil {
		t.Errorf("n9: %v", r.Err)
	}
}

// A cluster of nodes of different releases starts at the level of the oldest one.
func TestClusterIsFormedAtALevelOfAllItsNodes(t *testing.T) {
	for _, c := range []struct {
		before []NodeStarted
		want   level.Level
	}{
		{nil, 3},
		{[]NodeStarted{started("n1", 1, 3), started("n2", 0, 2)}, 2},
		{[]NodeStarted{started("n1", 1, 4)}, 3},
	} {
		var s State
		apply := applied(&s)
		for _, n := range c.before {
			apply(n)
		}
		if r := apply(InitCluster{ID: "blue", Level: 3}); r.Err != nil || s.Cluster().Level != c.want {
			t.Errorf("%v: level %v, want %v, %v", c.before, s.Cluster().Level, c.want, r.Err)
		}
		if apply(InitCluster{ID: "red", Level: 9}); s.Cluster().Level != c.want {
			t.Errorf("a second name changed the level to %v", s.Cluster().Level)
		}
	}
}

func TestNodeWithoutALevelIsRefused(t *testing.T) {
	var s State
	if r := applied(&s)(started("n1", 2, 1)); !errors.Is(r.Err, failure.InvalidConfig) {
		t.Errorf("levels from 2 to 1: %v", r.Err)
	}
}

// A snapshot of a newer release is distinguished from a damaged one, whatever its
// content.
func TestSnapshotOfANewerLevelIsNotDamage(t *testing.T) {
	newer := level.Supported().Max + 1
	body := []byte("brkdmeta\x01\x00\x00\x00" + `{"index":7,"cluster":{"id":"blue","level":` + newer.String() + `,"color":1},"moons":3}` + "\n{}\n")
	s, err := DecodeSnapshot(bytes.NewReader(sealed(body)))
	if s != nil || !errors.Is(err, failure.FeatureLevel) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "install the release") {
		t.Errorf("%v, %v", s, err)
	}
	old := bytes.Replace(body, []byte(`"level":`+newer.String()), []byte(`"level":0`), 1)
	if s, err := DecodeSnapshot(bytes.NewReader(sealed(old))); s != nil || !errors.Is(err, ErrCorrupt) {
		t.Errorf("unknown fields at a level that is known: %v, %v", s, err)
	}
}

func TestLevelBelowTheSupportedOnesIsRefused(t *testing.T) {
	if err := checkLevel(1, level.Range{Min: 2, Max: 3}); !errors.Is(err, failure.FeatureLevel) || !strings.Contains(err.Error(), "previous release") {
		t.Errorf("%v", err)
	}
}
