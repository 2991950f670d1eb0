package node

import (
	"bytes"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/build"
	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/meta"
)

// diagnose describes the process, for a debug bundle.
func diagnose(c *Config, started time.Time) api.Diagnosis {
	now := time.Now()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return api.Diagnosis{
		Node: c.Options.NodeID, Version: build.Version(), Build: build.This().String(), Go: runtime.Version(),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Processors: runtime.GOMAXPROCS(0),
		Now: now, Started: started, UptimeMS: now.Sub(started).Milliseconds(),
		Goroutines: runtime.NumGoroutine(), HeapBytes: memory.HeapAlloc,
		Config: settings(c), Stacks: stacks(),
	}
}

// snapshot returns a state as a file.
func snapshot(id string, state *meta.State) (api.MetadataSnapshot, error) {
	var b bytes.Buffer
	if err := state.Encode(&b); err != nil {
		return api.MetadataSnapshot{}, err
	}
	return api.MetadataSnapshot{Node: id, Index: state.Index(), Content: b.Bytes()}, nil
}

// settings prints the configuration without passwords.
func settings(c *Config) string {
	loaded := config.Loaded{Options: c.Options, Sources: c.Sources}
	return withoutPasswords(loaded.Print(true))
}

// addresses are the URLs in a text.
var addresses = regexp.MustCompile(`[a-z]+://[^\s"]+`)

// withoutPasswords removes the user and the query, which may contain a token, from a URL.
func withoutPasswords(text string) string {
	return addresses.ReplaceAllStringFunc(text, func(address string) string {
		scheme, rest, _ := strings.Cut(address, "://")
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			rest = "REDACTED" + rest[at:]
		}
		if plain, _, asks := strings.Cut(rest, "?"); asks {
			rest = plain + "?REDACTED"
		}
		return scheme + "://" + rest
	})
}

// stacks returns all goroutines, those with the same stack together.
func stacks() string {
	var b strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1) // a Builder never fails
	return b.String()
}
