package main

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/lookupd"
	"github.com/brokerd/brokerd/internal/node"
	"github.com/brokerd/brokerd/pkg/admin"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/units"
)

const (
	nsqlookupdName     = "nsqlookupd"
	allowedHostsOption = "http-allowed-hosts"
)

// Timeouts of the lookup daemon's HTTP server.
const (
	lookupHeaderTimeout = 10 * time.Second
	lookupIdleTimeout   = 2 * time.Minute
	lookupStopTimeout   = 5 * time.Second
)

// nsqlookupdOptions lists every option of nsqlookupd 1.3.0, and brokerd's own.
func nsqlookupdOptions() []standInOption {
	return []standInOption{
		{name: "version", bool: true},
		{name: "config"},
		{name: "verbose", bool: true},
		{name: "log-prefix"},
		{name: "log-level"},
		{name: "tcp-address"},
		{name: "http-address"},
		{name: "broadcast-address"},
		{name: "inactive-producer-timeout"},
		{name: "tombstone-lifetime"},
		{name: allowedHostsOption}, // brokerd's own
	}
}

// lookupDaemon holds the options of a lookup daemon.
type lookupDaemon struct {
	tcpAddress, httpAddress, broadcast, hostname, logLevel string
	inactive, tombstone                                    time.Duration
	allowedHosts                                           []string // in addition to its own names
}

// nsqlookupd runs the stand-in for nsqlookupd.
func (p *program) nsqlookupd(ctx context.Context, args []string) error {
	given, err := parseStandIn(nsqlookupdName, nsqlookupdOptions(), args, p.stderr)
	if err != nil {
		return err
	}
	if given.has("version") {
		_, err := fmt.Fprintln(p.stdout, standInVersion(nsqlookupdName))
		return err
	}
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	d, err := lookupDaemonFrom(given, hostname)
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	setLevel(level, d.logLevel)
	out := newLogOut(p.stderr)
	defer out.flush()
	log := standInLogger(given, nsqlookupdName, out, level)
	log.Info(standInVersion(nsqlookupdName))
	given.complain(log)
	return d.run(ctx, log, p.signals)
}

func lookupDaemonFrom(given *standInArgs, hostname string) (*lookupDaemon, error) {
	d := &lookupDaemon{
		tcpAddress: "0.0.0.0:4160", httpAddress: "0.0.0.0:4161", broadcast: hostname, hostname: hostname,
		inactive: 5 * time.Minute, tombstone: 45 * time.Second,
	}
	fromFile, err := given.readFile()
	if err != nil {
		return nil, err
	}
	var problems config.Problems
	for _, g := range slices.Concat(fromFile, given.flags) {
		value := standInValue(g.name, g.value)
		switch g.name {
		case "tcp-address":
			d.tcpAddress = value
		case "http-address":
			d.httpAddress = value
		case "broadcast-address":
			d.broadcast = value
		case "log-level":
			d.logLevel = value
		case allowedHostsOption:
			d.allowedHosts = append(d.allowedHosts, strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })...)
		case "inactive-producer-timeout", "tombstone-lifetime":
			target := map[string]*time.Duration{"inactive-producer-timeout": &d.inactive, "tombstone-lifetime": &d.tombstone}[g.name]
			if *target, err = units.ParseDuration(value); err != nil {
				problems = append(problems, config.Problem{Where: g.where, Text: fmt.Sprintf("%q %v", g.value, err), Flag: g.flag})
			}
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return d, nil
}

// run serves until a signal or a failure.
func (d *lookupDaemon) run(ctx context.Context, log *slog.Logger, signals <-chan os.Signal) error {
	ls, err := node.Bind(ctx, config.Listen{TCP: d.tcpAddress, HTTP: d.httpAddress})
	if err != nil {
		return err
	}
	defer ls.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // as brokerd
	directory := lookupd.NewDirectory(d.inactive, d.tombstone)
	self := lookupd.Self{Version: nsqVersion, BroadcastAddress: d.broadcast, Hostname: d.hostname, TCPPort: portOfAll(ls.TCP), HTTPPort: portOfAll(ls.HTTP)}
	nodes := &lookupd.Server{Directory: directory, Self: self, IdleTimeout: 2 * d.inactive, Log: log}
	web := &http.Server{
		Handler: d.guard(lookupd.Handler(directory, nsqVersion)), ReadHeaderTimeout: lookupHeaderTimeout, IdleTimeout: lookupIdleTimeout,
		ErrorLog: stdlog.New(new(complaint.Book).Writer(log, slog.LevelWarn, "HTTP"), "", 0),
	}
	failed := make(chan error, len(ls.TCP)+len(ls.HTTP))
	var serving sync.WaitGroup
	for _, l := range ls.TCP {
		log.Info("TCP: listening on " + l.Addr().String())
		serving.Go(func() { failed <- nodes.Serve(ctx, l) })
	}
	for _, l := range ls.HTTP {
		log.Info("HTTP: listening on " + l.Addr().String())
		serving.Go(func() { failed <- web.Serve(l) })
	}
	notify(daemon.SdNotifyReady)
	err = waitForStop(signals, failed)
	notify(daemon.SdNotifyStopping)
	stop()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupStopTimeout)
	defer cancel()
	if web.Shutdown(bounded) != nil {
		web.Close()
	}
	serving.Wait()
	log.Info("bye")
	return err
}

// guard refuses requests from pages of other origins, and requests for host names that are not the
// daemon's.
func (d *lookupDaemon) guard(next http.Handler) http.Handler {
	own := web.NewHosts(slices.Concat([]string{d.broadcast, d.hostname}, d.allowedHosts, node.MachineNames()))
	return own.Guard(http.NewCrossOriginProtection().Handler(next), admin.Refuse)
}

// waitForStop returns nil on a signal to stop, or the error of a component that fails first.
func waitForStop(signals <-chan os.Signal, failed <-chan error) error {
	for {
		select {
		case s := <-signals:
			if s != syscall.SIGHUP {
				return nil
			}
		case err := <-failed:
			if err != nil && !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
		}
	}
}

// portOfAll returns the common port of the listeners of one role.
func portOfAll(bound []net.Listener) int {
	if len(bound) == 0 {
		return 0
	}
	return node.PortOf(strings.TrimPrefix(bound[0].Addr().String(), "unix:"))
}
