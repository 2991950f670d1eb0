package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/brokerd/brokerd/test/steps"
)

// How often a registry is asked, and the pause between attempts.
const (
	registryAttempts = 4
	registryPause    = 10 * time.Second
)

// fetch runs a program that asks a registry, again while it fails.
func fetch(e env, dir, program string, args ...string) []byte {
	return steps.Need(again(e.ctx, registryAttempts, registryPause, func() ([]byte, error) {
		return capture(e.ctx, dir, program, args...)
	}))
}

// packages are the packages that a suite needs from a registry.
type packages struct {
	pins map[string]string // files that name the packages, each with its version and hash
	need func(env)         // checks that the programs that get uses are installed
	get  func(env)         // downloads the pinned packages into the cache
}

// install installs the packages, unless the cache has all pinned ones.
func (p packages) install(e env) {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(p.pins)) {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(p.pins[name]), p.pins[name])
	}
	done := filepath.Join(e.cache, fmt.Sprintf("lock-%x", sum.Sum(nil)[:8]))
	if _, err := os.Stat(done); err == nil {
		return
	}
	p.need(e)
	steps.Must(os.RemoveAll(e.cache))
	steps.Must(write(e.cache, p.pins))
	p.get(e)
	steps.Must(os.WriteFile(done, nil, 0o644))
}

// needPrograms fails with an error that names a missing program and how to install it.
func needPrograms(what string, programs ...string) func(env) {
	return func(env) {
		for _, program := range programs {
			if _, err := exec.LookPath(program); err != nil {
				steps.Fail("install %s: %w", what, err)
			}
		}
	}
}
