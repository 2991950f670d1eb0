package generate

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// run runs the group with arguments and returns what it prints.
func run(t *testing.T, nodes Nodes, args ...string) (string, error) {
	t.Helper()
	cmd := Command(nodes)
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.Execute()
	return out.String(), err
}

func none(context.Context) ([]string, error) { return nil, errors.New("no node answers") }

func TestFilesArePrintedUnchanged(t *testing.T) {
	for name, file := range map[string]string{
		"config": "brokerd.toml", "systemd-unit": "systemd/brokerd.service", "alert-rules": "prometheus/brokerd-alerts.yml",
		"grafana-dashboard": "grafana/brokerd.json",
	} {
		want, err := os.ReadFile(filepath.Join("../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run(t, none, name); err != nil || got != string(want) {
			t.Errorf("%s: %v, %d bytes instead of %d", name, err, len(got), len(want))
		}
	}
}

func TestPrometheusScrapesTheNodes(t *testing.T) {
	type config struct {
		Rules  []string `yaml:"rule_files"`
		Scrape []struct {
			Job    string                       `yaml:"job_name"`
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	nodes := func(context.Context) ([]string, error) { return []string{"n1:4151", "[::1]:4151"}, nil }
	for _, c := range []struct {
		args    []string
		targets int
		rules   int
	}{
		{[]string{"prometheus-config"}, 2, 1},
		{[]string{"prometheus-config", "--target", "a:1", "--rules", ""}, 1, 0},
	} {
		out, err := run(t, nodes, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		var got config
		if err := yaml.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %v\n%s", c.args, err, out)
		}
		if len(got.Scrape) != 1 || got.Scrape[0].Job != "brokerd" || len(got.Scrape[0].Static) != 1 ||
			len(got.Scrape[0].Static[0].Targets) != c.targets || len(got.Rules) != c.rules {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
	if _, err := run(t, none, "prometheus-config"); err == nil {
		t.Error("no error where no node answers")
	}
}

func TestManualPagesAreWritten(t *testing.T) {
	dir := t.TempDir()
	if _, err := run(t, none, "man-pages", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "generate-prometheus-config.1")); err != nil {
		t.Error(err)
	}
}
