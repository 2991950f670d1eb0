package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/internal/output"
)

// goldenCommands are command lines whose output in every form is kept in testdata. The file name is
// the command with dashes.
var goldenCommands = [][]string{
	{"topic", "create", "clicks#ephemeral"},
	{"topic", "list"},
	{"topic", "describe", "orders"},
	{"topic", "alter", "orders", "--retention", "72h"},
	{"topic", "add-partitions", "orders", "--partitions", "2"},
	{"topic", "pause", "orders"},
	{"topic", "resume", "orders"},
	{"topic", "empty", "orders", "--yes"},
	{"topic", "delete", "orders", "--yes"},
	{"topic", "restore", "orders"},
	{"channel", "create", "orders/invoice"},
	{"channel", "alter", "orders/invoice", "--max-attempts", "5", "--backoff", "1s..10m"},
	{"channel", "list", "orders"},
	{"channel", "describe", "orders/invoice"},
	{"channel", "explain", "orders/invoice"},
	{"channel", "pause", "orders/invoice"},
	{"channel", "resume", "orders/invoice"},
	{"channel", "empty", "orders/invoice", "--yes"},
	{"channel", "delete", "orders/invoice", "--yes"},
	{"channel", "seek", "orders/invoice", "--to", "-2h", "--dry-run"},
	{"message", "pub", "orders", "one", "two"},
	{"message", "peek", "orders/invoice", "-n", "3"},
	{"message", "tail", "orders", "-n", "2"},
	{"dlq", "list"},
	{"dlq", "peek", "orders/invoice"},
	{"dlq", "redrive", "orders/invoice", "--rate", "none"},
	{"dlq", "purge", "orders/invoice", "--dry-run"},
	{"partition", "list"},
	{"partition", "verify", "orders"},
	{"cluster", "info"},
	{"cluster", "health"},
	{"cluster", "balance"},
	{"cluster", "map"},
	{"cluster", "raft"},
	{"cluster", "config"},
	{"node", "log-level", "n2", "debug"},
	{"node", "list"},
	{"node", "describe", "n2"},
	{"node", "drain", "n2"},
	{"node", "undrain", "n2"},
	{"node", "decommission", "n2", "--yes"},
	{"node", "remove", "n2", "--yes"},
	{"partition", "describe", "orders/0"},
	{"partition", "transfer", "orders/0", "--to", "n2"},
	{"partition", "elect", "orders/0", "--to", "n3", "--unclean", "--yes"},
	{"partition", "repair", "orders/0"},
	{"partition", "move", "orders/0", "--replicas", "n1,n2,n4", "--yes"},
}

// otherCommands are covered by other tests: their output contains times or comes from cobra.
var otherCommands = []string{
	"bench pub", "bench sub", "bench e2e", "version", "top", "events", "rolling restart", "rolling upgrade", "debug bundle",
	"backup create", "backup list", "backup verify", "backup restore", "backup delete", "backup prune", "snapshot save", "snapshot inspect", "snapshot restore",
	"check node", "check cluster", "check raft", "check channel", "check disk", "check cert", "context set", "context use", "context list", "context show", "context validate", "context delete", "user passwd", "message export", "message import", "topic export", "topic import", "generate config", "generate systemd-unit", "generate alert-rules", "generate grafana-dashboard", "generate prometheus-config", "generate man-pages",
	"completion bash", "completion fish", "completion powershell", "completion zsh", "help",
}

// commandIn returns the command of a command line: two words, or three in a group of a group.
func commandIn(args []string) string {
	if args[1] == "join-token" {
		return strings.Join(args[:3], " ")
	}
	return strings.Join(args[:2], " ")
}

func TestEveryCommandAnswersInEveryForm(t *testing.T) {
	for _, args := range slices.Concat(goldenCommands, operatorCommands, deferredCommands, accessCommands) {
		name := strings.ReplaceAll(commandIn(args), " ", "-")
		t.Run(name, func(t *testing.T) { goldenForms(t, name, args) })
	}
}

func TestChannelsOfAllTopicsAreListed(t *testing.T) {
	goldenForms(t, "channel-list-all", []string{"channel", "list"})
}

// goldenForms compares the output of a command in every form with the golden files.
func goldenForms(t *testing.T, name string, args []string) {
	t.Helper()
	broker := newFakeBroker(t)
	var got strings.Builder
	for _, f := range output.Formats() {
		r := broker.brokerctl(t, append(args, "-o", f)...)
		if r.exit != exitOK || r.stderr != "" {
			t.Errorf("-o %s: exit %d, stderr %q", f, r.exit, r.stderr)
		}
		checkForm(t, output.Format(f), r.stdout)
		fmt.Fprintf(&got, "$ brokerctl %s -o %s\n%s\n", strings.Join(args, " "), f, r.stdout)
	}
	golden.Compare(t, filepath.Join("testdata", name+".txt"), got.String())
}

// checkForm parses an output like a program would.
func checkForm(t *testing.T, f output.Format, text string) {
	t.Helper()
	var err error
	switch f {
	case output.FormatYAML:
		for dec := yaml.NewDecoder(strings.NewReader(text)); err == nil; {
			var v map[string]any
			err = dec.Decode(&v)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	case output.FormatJSON, output.FormatNDJSON:
		for l := range strings.Lines(text) {
			var v map[string]any
			if err = json.Unmarshal([]byte(l), &v); err != nil {
				break
			}
		}
	case output.FormatTable, output.FormatWide, output.FormatName, output.FormatTemplate:
	}
	if err != nil || text == "" {
		t.Errorf("-o %s: %q: %v", f, text, err)
	}
}

func TestEveryCommandIsCovered(t *testing.T) {
	covered := map[string]bool{}
	for _, args := range slices.Concat(goldenCommands, operatorCommands, deferredCommands, accessCommands) {
		covered[commandIn(args)] = true
	}
	for _, name := range otherCommands {
		covered[name] = true
	}
	root := newRootCommand(&globals{})
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.HasSubCommands() {
			return
		}
		path := strings.TrimPrefix(cmd.CommandPath(), "brokerctl ")
		if !covered[path] {
			t.Errorf("%q has no golden answer: add it to goldenCommands", path)
		}
		if cmd.InheritedFlags().Lookup("output") == nil {
			t.Errorf("%q does not take -o", path)
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%q: short text %q", path, cmd.Short)
		}
	}
	walk(root)
}
