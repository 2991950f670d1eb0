package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/build"
	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// program describes this program.
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

// userAgent is the user agent sent to brokers.
func userAgent() string { return "brokerctl/" + build.Version() }

func newVersionCommand(g *globals) *cobra.Command {
	var skew bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of brokerctl, and whether the nodes run it",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if skew {
				return checkSkew(cmd, g)
			}
			b := thisProgram()
			return g.show(cmd, output.View{Object: b, Names: []string{b.Version}, Text: func(p *output.Page) { p.Line("%s", b) }})
		},
	}
	cmd.Flags().BoolVar(&skew, "check-skew", false, "compare with the versions of the nodes: exit code 1 if they differ")
	return cmd
}

// versions lists the release of each node.
type versions struct {
	Brokerctl string        `json:"brokerctl"`
	Nodes     []nodeVersion `json:"nodes"` // by id
	Level     uint32        `json:"level"` // the feature level of the cluster
	Skew      bool          `json:"skew"`  // the versions differ
}

type nodeVersion struct {
	ID      string        `json:"id"`
	State   api.NodeState `json:"state"`
	Version string        `json:"version"`
	Levels  api.Levels    `json:"levels"`
}

// checkSkew compares the versions of all programs.
func checkSkew(cmd *cobra.Command, g *globals) error {
	c, err := query(cmd.Context(), g, g.client.Cluster)
	if err != nil {
		return err
	}
	v := versions{Brokerctl: build.Version(), Nodes: []nodeVersion{}, Level: c.Level}
	for _, n := range c.Nodes {
		v.Nodes = append(v.Nodes, nodeVersion{n.ID, n.State, n.Version, n.Levels})
		v.Skew = v.Skew || n.Version != v.Brokerctl
	}
	err = g.show(cmd, output.View{Object: v, Names: listing.Names(v.Nodes, func(n nodeVersion) string { return n.ID + " " + n.Version }), Text: func(p *output.Page) {
		t := output.NewTable("PROGRAM", "STATE", "VERSION", "LEVELS")
		t.Row("brokerctl", "", v.Brokerctl, "")
		for _, n := range v.Nodes {
			t.Row(n.ID, n.State, n.Version, levels(n.Levels))
		}
		p.Table(t)
	}})
	if err == nil && v.Skew {
		err = verdict(failure.ExitFailed)
	}
	return err
}
