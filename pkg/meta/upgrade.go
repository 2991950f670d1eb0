package meta

import (
	"fmt"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
)

// CheckLevel returns nil if a program that supports a range of levels may take part in the cluster.
// The error wraps failure.FeatureLevel.
func CheckLevel(s *State, has level.Range) error { return checkLevel(s.cluster.Level, has) }

func checkLevel(l level.Level, has level.Range) error {
	switch {
	case l > has.Max:
		return fmt.Errorf("%w: the cluster has feature level %v, this brokerd supports %v: install the release of the other nodes", failure.FeatureLevel, l, has)
	case l < has.Min:
		return fmt.Errorf("%w: the cluster has feature level %v, this brokerd supports %v: first install the previous release on all nodes, "+
			"and run brokerctl cluster finalize-upgrade", failure.FeatureLevel, l, has)
	}
	return nil
}

// Lagging returns the nodes that keep the cluster from a feature level: the programs with which
// they last started do not support it.
func Lagging(s *State, l level.Level) (out []*Node) {
	for n := range s.Nodes() {
		if !n.Levels.Supports(l) {
			out = append(out, n)
		}
	}
	return out
}

// Attainable returns the highest feature level that every node supports.
func Attainable(s *State) level.Level {
	var l level.Level
	for i, n := range s.nodes {
		if i == 0 || n.Levels.Max < l {
			l = n.Levels.Max
		}
	}
	return l
}

// FinalizeUpgrade raises the feature level of the cluster. It is refused with failure.FeatureLevel while a node
// does not support it. Afterwards older programs cannot take part.
type FinalizeUpgrade struct {
	Level level.Level `json:"level"`
}

func (c FinalizeUpgrade) validate() error { return nil }

func (c FinalizeUpgrade) apply(s *State, r *Result) error {
	if r.Existed = c.Level <= s.cluster.Level; r.Existed {
		return nil
	}
	if lagging := Lagging(s, c.Level); len(lagging) > 0 {
		return fmt.Errorf("%w: level %v is not supported by %s", failure.FeatureLevel, c.Level, lagNames(lagging))
	}
	s.cluster.Level = c.Level
	return nil
}

// lagNames names nodes with their supported levels: "n1 (0.1.0, supports 0 to 1)".
func lagNames(nodes []*Node) string {
	var texts []string
	for _, n := range nodes {
		texts = append(texts, fmt.Sprintf("%s (%s, supports %v)", n.ID, n.Version, n.Levels))
	}
	return someNames(texts)
}
