package main

import (
	"os"
	"runtime"
)

// makePlaces allows Go code to run while a goroutine syncs. A syncing goroutine occupies a P until
// the monitor of the Go runtime checks, up to 10 ms later (docs/adr/0021-the-runtimes-monitor.md).
// With a single P, nothing else would run meanwhile.
func makePlaces() {
	if runtime.GOMAXPROCS(0) == 1 && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2)
	}
}
