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

// Option changes how nodes are started.
type Option func(*options)

// Set gives a setting of brokerd a value, both as its command line has them:
// Set("max-msg-size", "8MiB"). The addresses, the data directory and how nodes find each
// other are not for tests to set.
func Set(name, value string) Option { return func(o *options) { o.settings[name] = value } }

// InMemory keeps the messages in memory instead of files: faster where the disk is slow,
// and lost with the test. They survive Kill and Restart of their node all the same.
func InMemory() Option { return func(o *options) { o.memory = true } }

// In keeps the nodes' data below a directory, instead of a temporary one that goes with the
// test.
func In(dir string) Option { return func(o *options) { o.dir = dir } }

// TLS lets clients upgrade their connections to TLS with a certificate of the test's.
func TLS(c *tls.Config) Option { return func(o *options) { o.tls = c } }

// Log tells what the nodes log; without it nobody is told.
func Log(l *slog.Logger) Option { return func(o *options) { o.log = l } }

func optionsOf(with []Option) options {
	o := options{settings: maps.Clone(defaults), log: slog.New(slog.DiscardHandler)}
	for _, change := range with {
		change(&o)
	}
	return o
}

// defaults are settings of which a test wants another value than an operator: a machine
// that runs tests may have little room.
var defaults = map[string]string{"disk-reserve": "0", "drain-timeout": "5s"}
