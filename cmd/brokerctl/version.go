package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/build"
)

// program says which program this is.
type program struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the sources; "": not known
	Go       string `json:"go"`
}

func thisProgram() program { return program{build.Version, build.Revision(), runtime.Version()} }

// String describes the program in one line.
func (b program) String() string {
	if b.Revision == "" {
		return fmt.Sprintf("brokerctl %s (%s)", b.Version, b.Go)
	}
	return fmt.Sprintf("brokerctl %s (revision %.12s, %s)", b.Version, b.Revision, b.Go)
}

// userAgent is what brokers are told that we are.
const userAgent = "brokerctl/" + build.Version

func newVersionCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of brokerctl",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisProgram()
			return g.show(cmd, view{object: b, names: []string{b.Version}, text: func(p *page) { p.line("%s", b) }})
		},
	}
}
