package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release of brokerctl.
const version = "0.1.0"

// build says which program this is.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the sources; "": not built from a repository
	Go       string `json:"go"`
}

// thisBuild reads what the linker left in the program.
func thisBuild() build {
	b := build{Version: version, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}

// userAgent is what brokers are told that we are.
const userAgent = "brokerctl/" + version

func newVersionCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of brokerctl",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			return g.show(cmd, view{
				object: b,
				names:  []string{b.Version},
				text:   func(p *page) { p.line("brokerctl %s (%s)", b.Version, b.Go) },
			})
		},
	}
}
