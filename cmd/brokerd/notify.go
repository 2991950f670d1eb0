package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// While a node recovers, systemd is asked every extendEvery for extendBy more.
const (
	extendEvery = 10 * time.Second
	extendBy    = 30 * time.Second
)

// notify tells the service manager, where there is one. That it cannot be told
// is no reason to stop.
func notify(states ...string) { _, _ = daemon.SdNotify(false, strings.Join(states, "\n")) }

func status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

func extend() string { return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extendBy.Microseconds()) }

// reloading is the state in which systemd waits for READY=1; the time tells
// this reload from an earlier one.
func reloading() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return daemon.SdNotifyReloading
	}
	return fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/1000)
}

// keepAsking asks for more time until ctx is done.
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

// pingWatchdog tells the watchdog, three times in its period, that the node is
// alive, until ctx is done. What alive finds wrong is given to complain.
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
