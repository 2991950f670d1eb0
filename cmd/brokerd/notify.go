package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// While a node recovers, systemd is asked every extendEvery to wait for extendBy longer.
const (
	extendEvery = 10 * time.Second
	extendBy    = 30 * time.Second
)

// notify sends a state to the service manager, if there is one. A failure to send is ignored.
func notify(states ...string) { _, _ = daemon.SdNotify(false, strings.Join(states, "\n")) }

func status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

func extend() string { return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extendBy.Microseconds()) }

// reloading is the state after which systemd waits for READY=1. The time identifies this reload.
func reloading() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return daemon.SdNotifyReloading
	}
	return fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/1000)
}

// keepAsking requests more time until ctx is done.
func keepAsking(ctx context.Context, what string) {
	tick := time.NewTicker(extendEvery)
	defer tick.Stop()
	for {
		notify(status(what), extend())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// pingWatchdog notifies the watchdog three times per period while the node is alive, until ctx is
// done. Failed liveness checks are passed to complain.
func pingWatchdog(ctx context.Context, alive func() error, statusLine func() string, complain func(error)) {
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil || period == 0 {
		return
	}
	tick := time.NewTicker(period / 3)
	defer tick.Stop()
	for {
		if err := alive(); err != nil {
			complain(err)
		} else {
			notify(daemon.SdNotifyWatchdog, status(statusLine()))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
