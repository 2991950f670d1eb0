package main

import (
	"fmt"
	"runtime"

	"github.com/brokerd/brokerd/internal/build"
)

// nsqVersion is the nsqd version reported to clients and tools; some of them parse and compare it.
const nsqVersion = "1.3.0"

// version is the version of brokerd.
var version = build.Version()

// versionLine describes the build.
func versionLine() string {
	return fmt.Sprintf("brokerd v%s (%s, NSQ %s compatible, built w/%s)", version, build.This(), nsqVersion, runtime.Version())
}

// standInVersion is the version line of the replaced program, which tools parse.
func standInVersion(name string) string {
	return fmt.Sprintf("%s v%s (built w/%s)", name, nsqVersion, runtime.Version())
}
