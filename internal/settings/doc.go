// Package settings has brokerctl's commands about the settings of nodes: cluster config, which shows
// and compares them, and node log-level, which changes the log level of a node for a time.
package settings
