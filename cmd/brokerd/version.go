package main

import (
	"fmt"
	"runtime"

	"github.com/brokerd/brokerd/internal/build"
)

// nsqVersion is the release of nsqd that clients and tools are told; some
// of them parse it and compare.
const nsqVersion = "1.3.0"

// version is the version of brokerd.
var version = build.Version()

// versionLine describes the build.
func versionLine() string {
	return fmt.Sprintf("brokerd v%s (%s, NSQ %s compatible, built w/%s)", version, build.This(), nsqVersion, runtime.Version())
}

// standInVersion is the version line of the program that is stood in for;
// tools parse it.
func standInVersion(name string) string {
	return fmt.Sprintf("%s v%s (built w/%s)", name, nsqVersion, runtime.Version())
}
