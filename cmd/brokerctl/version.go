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
	Tag      string `json:"tag"`      // "": not known
	Commit   string `json:"commit"`   // of the sources; "": not known
	Date     string `json:"date"`     // of the commit; "": not known
	Modified bool   `json:"modified"` // the sources were not those of the commit
	Go       string `json:"go"`
}

func thisProgram() program {
	o := build.This()
	return program{o.Version, o.Tag, o.Commit, o.Date, o.Modified, runtime.Version()}
}

// String describes the program in one line.
func (b program) String() string {
	o := build.Origin{Tag: b.Tag, Commit: b.Commit, Date: b.Date, Modified: b.Modified}
	return fmt.Sprintf("brokerctl %s (%s, %s)", b.Version, o, b.Go)
}

// userAgent is what brokers are told that we are.
func userAgent() string { return "brokerctl/" + build.Version() }

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
