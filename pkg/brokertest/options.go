package brokertest

import (
	"crypto/tls"
	"log/slog"
	"maps"
)

// options is what nodes are started with.
type options struct {
	settings map[string]string
	dir      string // "": t.TempDir
	memory   bool
	tls      *tls.Config
	log      *slog.Logger
}

// Option configures the nodes.
type Option func(*options)

// Set sets a setting of brokerd, with name and value as on the command line:
// Set("max-msg-size", "8MiB"). The addresses, the data directory and the join addresses cannot
// be set.
func Set(name, value string) Option { return func(o *options) { o.settings[name] = value } }

// InMemory stores data in memory instead of files: faster on a slow disk. Data survives Kill
// and Restart, and is lost at the end of the test.
func InMemory() Option { return func(o *options) { o.memory = true } }

// In stores the nodes' data below a directory instead of a temporary one that is removed after
// the test.
func In(dir string) Option { return func(o *options) { o.dir = dir } }

// TLS lets clients upgrade their connections to TLS with a certificate of the test's.
func TLS(c *tls.Config) Option { return func(o *options) { o.tls = c } }

// Log receives the nodes' log; without it nothing is logged.
func Log(l *slog.Logger) Option { return func(o *options) { o.log = l } }

func optionsOf(with []Option) options {
	o := options{settings: maps.Clone(defaults), log: slog.New(slog.DiscardHandler)}
	for _, change := range with {
		change(&o)
	}
	return o
}

// defaults are settings whose values differ from those for operators: a machine that runs tests may
// have little space.
var defaults = map[string]string{"disk-reserve": "0", "drain-timeout": "5s"}
