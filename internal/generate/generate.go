// Package generate prints the files to install and monitor brokerd with: those of deploy/, a
// Prometheus configuration, the manual pages.
//
// It does not connect to the cluster: the command passes the list of nodes.
package generate

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/deploy"
	"github.com/brokerd/brokerd/internal/manual"
)

// Nodes returns the HTTP addresses of the cluster's nodes.
type Nodes func(context.Context) ([]string, error)

// Command returns the group of commands. nodes returns the targets if none are named.
func Command(nodes Nodes) *cobra.Command {
	group := &cobra.Command{
		Use:   "generate",
		Short: "Print files to install and monitor brokerd",
		Long:  "Print files to install and monitor brokerd with, as of this release. Only prometheus-config\nneeds a running node.",
	}
	group.AddCommand(
		printed("config", "Print a configuration file with every setting and its default", deploy.Config),
		printed("systemd-unit", "Print the systemd unit", deploy.Unit),
		printed("alert-rules", "Print alert and recording rules for Prometheus", deploy.AlertRules),
		printed("grafana-dashboard", "Print a dashboard to import into Grafana", deploy.Dashboard),
		prometheusCommand(nodes),
	)
	man := &cobra.Command{
		Use:   "man-pages DIR",
		Short: "Write the manual pages of brokerctl into a directory",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return manual.Write(cmd.Root(), manual.SectionUser, args[0])
		},
	}
	group.AddCommand(man)
	return group
}

// printed returns a command that prints a text unchanged.
func printed(use, short, text string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
}

func prometheusCommand(nodes Nodes) *cobra.Command {
	var targets []string
	var rules string
	cmd := &cobra.Command{
		Use:   "prometheus-config",
		Short: "Print a Prometheus configuration that scrapes the cluster",
		Long: "Print a Prometheus configuration that scrapes the cluster: the nodes named by --target, or\n" +
			"all nodes of the cluster. Add nodes that join later.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(targets) == 0 {
				var err error
				if targets, err = nodes(cmd.Context()); err != nil {
					return err
				}
			}
			_, err := io.WriteString(cmd.OutOrStdout(), prometheus(targets, rules))
			return err
		},
	}
	cmd.Flags().StringArrayVar(&targets, "target", nil, "`HOST:PORT` of a node's HTTP address; repeat for each node")
	cmd.Flags().StringVar(&rules, "rules", "brokerd-alerts.yml", "`FILE` with the rules of alert-rules; empty for none")
	return cmd
}

// prometheus returns a configuration that scrapes targets, with the job name that the alerting
// rules use.
func prometheus(targets []string, rules string) string {
	var out strings.Builder
	out.WriteString("global:\n  scrape_interval: 15s\n  evaluation_interval: 15s\n")
	if rules != "" {
		fmt.Fprintf(&out, "rule_files:\n- %q\n", rules)
	}
	out.WriteString("scrape_configs:\n- job_name: brokerd\n  static_configs:\n  - targets:\n")
	for _, t := range targets {
		fmt.Fprintf(&out, "    - %q\n", t)
	}
	return out.String()
}
