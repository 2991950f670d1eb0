// Package deploy holds the files that a service of brokerd is installed and monitored
// with, for programs that print them.
package deploy

import _ "embed"

var (
	// Config is the configuration file with every setting and its default.
	//
	//go:embed brokerd.toml
	Config string
	// Unit is the unit of systemd.
	//
	//go:embed systemd/brokerd.service
	Unit string
	// AlertRules is the rules of Prometheus.
	//
	//go:embed prometheus/brokerd-alerts.yml
	AlertRules string
	// Dashboard is the dashboard of Grafana.
	//
	//go:embed grafana/brokerd.json
	Dashboard string
)
