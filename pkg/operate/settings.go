package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/units"
)

// maxLogLevelFor is the longest time after which a changed log level ends automatically.
const maxLogLevelFor = 24 * time.Hour

// logLevels are the names of log levels.
var logLevels = []string{"debug", "info", "warn", "error"}

// Process is the process in which a node runs. Its methods are safe for concurrent use.
type Process interface {
	// Settings returns the settings as the process uses them, and its log level. Node is not set.
	Settings() api.NodeSettings
	// SetLogLevel sets the log level, for a time or (0) until the process restarts or reloads its
	// configuration. The level is one of debug, info, warn and error.
	SetLogLevel(level string, lasts time.Duration) api.LogLevel
}

// noProcess is that of a node without one, as in tests.
type noProcess struct{}

// Settings implements Process.
func (noProcess) Settings() api.NodeSettings { return api.NodeSettings{} }

// SetLogLevel implements Process.
func (noProcess) SetLogLevel(string, time.Duration) api.LogLevel { return api.LogLevel{} }

var askSettings = question[forward.Nothing, api.NodeSettings]{"settings", func(o *Node, _ context.Context, _ forward.Nothing) (api.NodeSettings, error) {
	s := o.process().Settings()
	s.Node, s.LogLevel.Node = string(o.Self), string(o.Self)
	return s, nil
}}

type levelArgs struct {
	Level string        `json:"level"`
	For   time.Duration `json:"for"`
}

var askLogLevel = question[levelArgs, api.LogLevel]{"log-level", func(o *Node, _ context.Context, a levelArgs) (api.LogLevel, error) {
	if err := checkLogLevel(a.Level, a.For); err != nil { // of a node of another build
		return api.LogLevel{}, err
	}
	l := o.process().SetLogLevel(a.Level, a.For)
	l.Node = string(o.Self)
	return l, nil
}}

func (o *Node) process() Process {
	if o.Process == nil {
		return noProcess{}
	}
	return o.Process
}

// Settings returns the settings of all nodes (""), or of one, and the nodes that did not respond.
func (o *Node) Settings(ctx context.Context, only meta.NodeID) (*api.ClusterSettings, error) {
	if only != "" && o.Meta.Node(only) == nil {
		return nil, fmt.Errorf("node %s: %w", only, failure.NodeNotFound)
	}
	var nodes []meta.NodeID
	for _, n := range o.Meta.Nodes() {
		if only == "" || n.ID == only {
			nodes = append(nodes, n.ID)
		}
	}
	present := slices.DeleteFunc(o.present(), func(id meta.NodeID) bool { return !slices.Contains(nodes, id) })
	answers := askAll(ctx, o, askSettings, present, func(meta.NodeID) forward.Nothing { return forward.Nothing{} })
	out := &api.ClusterSettings{Nodes: []api.NodeSettings{}}
	for _, id := range nodes {
		if a, ok := answers[id]; ok {
			out.Nodes = append(out.Nodes, a)
		} else {
			out.MissingNodes = append(out.MissingNodes, string(id))
		}
	}
	return out, nil
}

// SetLogLevel changes the log level of a node, for a time or (0) until it restarts or reloads its
// configuration.
func (o *Node) SetLogLevel(ctx context.Context, id meta.NodeID, level string, lasts time.Duration) (api.LogLevel, error) {
	if err := checkLogLevel(level, lasts); err != nil {
		return api.LogLevel{}, err
	}
	if o.Meta.Node(id) == nil {
		return api.LogLevel{}, fmt.Errorf("node %s: %w", id, failure.NodeNotFound)
	}
	l, err := askLogLevel.ask(ctx, o, id, levelArgs{level, lasts})
	return l, failure.About("node "+string(id), err)
}

func checkLogLevel(level string, lasts time.Duration) error {
	if !slices.Contains(logLevels, level) {
		return fmt.Errorf("%w: log level %q, want %s", failure.InvalidConfig, level, strings.Join(logLevels, ", "))
	}
	if lasts < 0 || lasts > maxLogLevelFor {
		return fmt.Errorf("%w: a log level may last for %s at most, not %s", failure.InvalidConfig, units.FormatDuration(maxLogLevelFor), units.FormatDuration(lasts))
	}
	return nil
}
