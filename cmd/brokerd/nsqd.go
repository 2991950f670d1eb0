package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/brokerd/brokerd/internal/config"
)

const (
	nsqdName = "nsqd"
	// standInDir is the directory that the stand-in creates in nsqd's data path, separate from
	// nsqd's files.
	standInDir = "brokerd-data"
)

// nsqdDefaults are the settings whose defaults in the stand-in for nsqd differ from brokerd's.
func nsqdDefaults(hostname string) map[string]string {
	return map[string]string{
		"node-id": nsqdName, "tcp-address": "0.0.0.0:4150", "http-address": "0.0.0.0:4151", "https-address": "0.0.0.0:4152",
		"lookup-address": "", "cluster-address": "", "advertise-host": hostname, "tls-min-version": "tls1.0",
		"max-connections": "0", "pprof": "true",
	}
}

// standInOption is an option of a program that brokerd stands in for.
type standInOption struct {
	name string
	bool bool   // the value is optional
	key  string // the corresponding setting; "": none
	file string // its key in a file, if that is not the name with underscores
	note string // why it has no effect; "": it has an effect
}

func (o standInOption) fileKey() string {
	return cmp.Or(o.file, strings.ReplaceAll(o.name, "-", "_"))
}

// nsqdOptions lists every option of nsqd 1.3.0.
func nsqdOptions() []standInOption {
	options := []standInOption{
		{name: "version", bool: true},
		{name: "config"},
		{name: "verbose", bool: true},
		{name: "log-prefix"},
		{name: "log-level", key: "log-level"},
		{name: "node-id", key: "node-id", file: "id"},
		{name: "worker-id", note: "replaced by node-id"},
		{name: "data-path", key: "data-dir"},
		{name: "broadcast-address", key: "advertise-host"},
		{name: "broadcast-tcp-port"},
		{name: "broadcast-http-port"},
		{name: "lookupd-tcp-address", key: "lookupd-tcp-address", file: "nsqlookupd_tcp_addresses"},
		{name: "auth-http-address", key: "auth-http-address", file: "auth_http_addresses"},
		{name: "topology-region", key: "region"},
		{name: "topology-zone", key: "zone"},
		{name: "sync-every", key: "sync"},
		{name: "sync-timeout", key: "sync-interval"},
		{name: "snappy", bool: true, key: "snappy"},
		{name: "deflate", bool: true, key: "deflate"},
		{name: "tls-required", bool: true, key: "tls-required"},
		{name: "mem-queue-size", key: "mem-queue-size"},
		{name: "max-bytes-per-file", note: "set by segment-size"},
		{name: "queue-scan-worker-pool-max", note: "not needed: timeouts are kept in order, not scanned for"},
		{name: "queue-scan-selection-count", note: "not needed: timeouts are kept in order, not scanned for"},
		{name: "statsd-mem-stats", bool: true, key: "statsd-mem-stats"},
		{name: "statsd-exclude-ephemeral", bool: true, key: "statsd-exclude-ephemeral"},
		{name: "e2e-processing-latency-percentile", key: "e2e-processing-latency-percentile", file: "e2e_processing_latency_percentiles"},
		{name: "enable-experiment", note: "no experiments available"},
	}
	for _, same := range []string{
		"tcp-address", "http-address", "https-address", "auth-http-request-method",
		"http-client-connect-timeout", "http-client-request-timeout",
		"msg-timeout", "max-msg-timeout", "max-msg-size", "max-req-timeout", "max-body-size",
		"max-heartbeat-interval", "max-rdy-count", "max-output-buffer-size", "max-output-buffer-timeout",
		"min-output-buffer-timeout", "output-buffer-timeout", "max-channel-consumers", "max-deflate-level",
		"e2e-processing-latency-window-time", "statsd-address", "statsd-interval", "statsd-prefix", "statsd-udp-packet-size",
		"http-allowed-hosts", "allow-config-from-cidr", // brokerd's own
		"tls-cert", "tls-key", "tls-client-auth-policy", "tls-root-ca-file", "tls-min-version",
	} {
		options = append(options, standInOption{name: same, key: same})
	}
	return options
}

// memberOptions are brokerd's options that make a stand-in a member of a cluster. nsqd has no
// options with these names.
func memberOptions() []standInOption {
	taken := map[string]bool{"lookupd-tcp-address": true}
	keys := []string{"cluster-address", "advertise-cluster-address"}
	settings := new(config.Options).Settings()
	for _, s := range settings {
		if s.Group == config.ClusterGroup {
			keys = append(keys, s.Key)
		}
	}
	var options []standInOption
	for _, s := range settings {
		if slices.Contains(keys, s.Key) && !taken[s.Key] {
			options = append(options, standInOption{name: s.Key, key: s.Key, bool: s.IsBool()})
		}
	}
	return options
}

// errNoEnvironment refuses variables that a stand-in does not read. Ignoring them would silently
// make each node a cluster of one.
var errNoEnvironment = errors.New("ignored: as a stand-in for nsqd, brokerd reads no environment variables; use a flag")

// refuseEnvironment refuses to start the stand-in for nsqd if the environment configures a
// cluster.
func refuseEnvironment(environ []string) error {
	for _, o := range memberOptions() {
		name := config.Setting{Key: o.key}.Env()
		if lookupEnv(environ, name) != "" {
			return exitWith(exitConfig, fmt.Errorf("environment variable %s: %w", name, errNoEnvironment))
		}
	}
	return nil
}

// nsqd runs the stand-in for nsqd.
func (p *program) nsqd(ctx context.Context, args []string) error {
	if err := refuseEnvironment(p.environ); err != nil {
		return err
	}
	given, err := parseStandIn(nsqdName, slices.Concat(nsqdOptions(), memberOptions()), args, p.stderr)
	if err != nil {
		return err
	}
	if given.has("version") {
		_, err := fmt.Fprintln(p.stdout, standInVersion(nsqdName))
		return err
	}
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	load := func() (config.Loaded, error) { return nsqdConfig(given, hostname) }
	loaded, err := load()
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	setLevel(level, loaded.Options.Process.LogLevel)
	out := newLogOut(p.stderr)
	defer out.flush()
	log := standInLogger(given, nsqdName, out, level)
	log.Info(standInVersion(nsqdName))
	log.Info("running as stand-in for nsqd", "version", version, "data", loaded.Options.DataDir)
	given.complain(log)
	if err := p.importNsqd(ctx, &loaded, log, level); err != nil {
		return err
	}
	return p.runNode(ctx, &process{
		loaded: loaded, again: load, log: log, level: level,
		greet: func(protocol, address string) { log.Info(protocol + ": listening on " + address) },
	})
}

func standInLogger(given *standInArgs, name string, out *logOut, level slog.Leveler) *slog.Logger {
	prefix := "[" + name + "] "
	if own := given.last("log-prefix"); own != "" {
		prefix = strings.TrimRight(own, " ") + " "
	}
	log := slog.New(&lineHandler{to: out, level: level, head: nsqHead(prefix)})
	out.reports(log)
	return log
}

// nsqdConfig converts nsqd's options to a configuration.
func nsqdConfig(given *standInArgs, hostname string) (config.Loaded, error) {
	fromFile, err := given.readFile()
	if err != nil {
		return config.Loaded{}, err
	}
	defaults := nsqdDefaults(hostname)
	directory, err := filepath.Abs(".")
	if err != nil {
		return config.Loaded{}, fmt.Errorf("data path: %w", err)
	}
	defaults["data-dir"] = filepath.Join(directory, standInDir)
	layers := [][]config.Assignment{translate(given.options, fromFile), translate(given.options, given.flags)}
	if !sets(layers, "tls-cert") {
		defaults["https-address"] = ""
		for i := range layers { // as in nsqd, which serves HTTPS only with a certificate
			layers[i] = slices.DeleteFunc(layers[i], func(a config.Assignment) bool { return a.Key == "https-address" })
		}
	}
	loaded, err := config.Resolve(hostname, defaults, layers...)
	if err != nil {
		return loaded, err
	}
	return loaded, broadcastPorts(&loaded.Options, slices.Concat(fromFile, given.flags))
}

func sets(layers [][]config.Assignment, key string) bool {
	return slices.ContainsFunc(slices.Concat(layers...), func(a config.Assignment) bool { return a.Key == key && a.Value != "" })
}

// broadcastPorts applies the two options that override only a port.
func broadcastPorts(o *config.Options, given []standInArg) error {
	for _, g := range given {
		target := map[string]*string{"broadcast-tcp-port": &o.Advertise.TCP, "broadcast-http-port": &o.Advertise.HTTP}[g.name]
		if target == nil || g.value == "0" {
			continue
		}
		if port, err := strconv.ParseUint(g.value, 10, 16); err != nil || port == 0 {
			return config.Problems{{Where: g.where, Text: fmt.Sprintf("%q is not a port", g.value), Flag: true}}
		}
		*target = net.JoinHostPort(o.Advertise.Host, g.value)
	}
	return nil
}

// translate converts options with a corresponding setting to assignments.
func translate(options []standInOption, given []standInArg) []config.Assignment {
	var layer []config.Assignment
	for _, g := range given {
		i := slices.IndexFunc(options, func(o standInOption) bool { return o.name == g.name })
		if options[i].key == "" {
			continue
		}
		layer = append(layer, config.Assignment{Key: options[i].key, Value: standInValue(g.name, g.value), Where: g.where, Flag: g.flag})
		if g.name == "sync-timeout" && !slices.ContainsFunc(given, func(o standInArg) bool { return o.name == "sync-every" }) {
			layer = append(layer, config.Assignment{Key: "sync", Value: "interval", Where: g.where, Flag: g.flag})
		}
	}
	return layer
}

// standInValue converts values that nsqd writes differently.
func standInValue(name, value string) string {
	number, err := strconv.ParseInt(value, 10, 64)
	isNumber := err == nil
	switch {
	case name == "data-path":
		return filepath.Join(value, standInDir)
	case name == "node-id":
		return nsqdName + "-" + value
	case name == "log-level":
		return strings.Replace(strings.ToLower(value), "fatal", "error", 1)
	case name == "tls-min-version":
		return strings.Replace(value, "ssl3.0", "tls1.0", 1)
	case name == "tls-required":
		if b, err := strconv.ParseBool(cmp.Or(value, "false")); err == nil {
			return strconv.FormatBool(b)
		}
	case name == "sync-every" && isNumber && number <= 1:
		return "always"
	case isNumber && (strings.HasSuffix(name, "-timeout") || strings.HasSuffix(name, "-interval")):
		return value + "ms" // a bare number is milliseconds
	}
	return value
}

// readFile reads nsqd's configuration file. Unknown keys are ignored with a warning, as in nsqd.
func (a *standInArgs) readFile() ([]standInArg, error) {
	name := a.last("config")
	if name == "" {
		return nil, nil
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, exitWith(exitConfig, err)
	}
	var tree map[string]any
	if err := toml.Unmarshal(content, &tree); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			return nil, exitWith(exitConfig, fmt.Errorf("%s:\n%s", name, at.String()))
		}
		return nil, exitWith(exitConfig, fmt.Errorf("%s: %w", name, err))
	}
	a.unknown = nil
	var found []standInArg
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		i := slices.IndexFunc(a.options, func(o standInOption) bool {
			return o.fileKey() == key || strings.ReplaceAll(o.name, "-", "_") == key
		})
		if i < 0 {
			a.unknown = append(a.unknown, key)
			continue
		}
		values, isList := tree[key].([]any)
		if !isList {
			values = []any{tree[key]}
		}
		for _, v := range values {
			found = append(found, standInArg{name: a.options[i].name, value: fmt.Sprint(v), where: name + ": " + key})
		}
	}
	a.file = found
	return found, nil
}
