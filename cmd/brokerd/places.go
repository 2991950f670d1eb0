package main

import (
	"os"
	"runtime"
)

// makePlaces lets Go code go on while a goroutine syncs: that keeps its place among
// those that run until the monitor of Go's runtime looks, which may be 10 ms later
// (docs/adr/0021-the-runtimes-monitor.md). With a single place nothing else would
// run meanwhile.
func makePlaces() {
	if runtime.GOMAXPROCS(0) == 1 && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2)
	}
}
