package main

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/brokerd/brokerd/internal/build"
)

const (
	// version is the release of brokerd.
	version = build.Version
	// nsqVersion is the release of nsqd that clients and tools are told; some
	// of them parse it and compare.
	nsqVersion = "1.3.0"
)

// versionLine describes the build.
func versionLine() string {
	return fmt.Sprintf("brokerd v%s (revision %.12s, NSQ %s compatible, built w/%s)", version, revision(), nsqVersion, runtime.Version())
}

// standInVersion is the version line of the program that is stood in for;
// tools parse it.
func standInVersion(name string) string {
	return fmt.Sprintf("%s v%s (built w/%s)", name, nsqVersion, runtime.Version())
}

func revision() string { return cmp.Or(build.Revision(), "unknown") }
