package api

import (
	"context"
	"net/url"
	"time"
)

// Setting is a setting of a node, as its process uses it.
type Setting struct {
	Name   string `json:"name"`   // as a flag of brokerd, without the dashes
	Value  string `json:"value"`  // as text, without passwords
	Source string `json:"source"` // where it was set; "default": nowhere
}

// NodeSettings are all settings of a node.
type NodeSettings struct {
	Node     string    `json:"node"`
	LogLevel LogLevel  `json:"log_level"`
	Settings []Setting `json:"settings"`
}

// ClusterSettings are the settings of nodes, by node.
type ClusterSettings struct {
	Nodes        []NodeSettings `json:"nodes"`
	MissingNodes []string       `json:"missing_nodes,omitempty"` // they did not respond
}

// LogLevel is the minimum severity of what a node logs: debug, info, warn or error.
type LogLevel struct {
	Node       string     `json:"node"`
	Level      string     `json:"level"`
	Configured string     `json:"configured"`      // applies after Until, a restart, or a reload of the configuration
	Until      *time.Time `json:"until,omitempty"` // nil: Level does not end automatically
}

// SetLogLevel is a request to change the log level of a node.
type SetLogLevel struct {
	Level string `json:"level"`
	ForMS int64  `json:"for_ms,omitempty"` // afterwards the configured level applies again; 0: it does not end automatically
}

// settingsClient are the requests about settings of nodes.
type settingsClient struct{ t *transport }

// All returns the settings of all nodes, or of one.
func (s settingsClient) All(ctx context.Context, node string) (*ClusterSettings, error) {
	q := url.Values{}
	if node != "" {
		q.Set("node", node)
	}
	out := new(ClusterSettings)
	return out, s.t.get(ctx, path("settings"), q, out)
}

// SetLogLevel changes the log level of a node, and returns it.
func (s settingsClient) SetLogLevel(ctx context.Context, node string, req SetLogLevel) (*LogLevel, error) {
	return post[LogLevel](ctx, s.t, path("nodes", node, "log-level"), req)
}
