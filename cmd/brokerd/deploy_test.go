package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const unit = "../../deploy/systemd/brokerd.service"

func TestUnitStartsExistingFiles(t *testing.T) {
	f, err := os.Open(unit)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	has := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), "="); ok && !strings.HasPrefix(key, "#") {
			has[key] = value
		}
	}
	for key, want := range map[string]string{
		"Type": "notify", "Environment": "BROKERD_DATA_DIR=/var/lib/brokerd",
		"Restart": "on-failure", "RestartPreventExitStatus": "64 78", "WatchdogSec": "30",
		"StartLimitIntervalSec": "0", "ExecStartPre": "", "ExecReload": `/bin/sh -c 'kill -HUP "$$MAINPID"'`, "TimeoutStopSec": "150", "MemoryMax": "80%", "LimitNOFILE": "1048576",
		"TimerSlackNSec": "1ms",
	} {
		if has[key] != want {
			t.Errorf("%s=%s, want %s", key, has[key], want)
		}
	}
	fields := strings.Fields(has["ExecStart"])
	cmd, rest, err := (&program{}).rootCommand().Find(fields[1:])
	if err != nil || cmd.Name() != "serve" {
		t.Fatalf("%v %v", cmd, err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Error(err)
	}
}

func TestUnitPassesSystemdAnalyze(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze on this machine")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "brokerd.service")
	if err := os.WriteFile(copied, []byte(strings.ReplaceAll(string(content), "/usr/bin/brokerd", program)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", copied).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", copied).CombinedOutput(); err != nil {
		t.Errorf("exposed more than 2.0: %v: %s", err, out)
	}
}

func TestAlertsAreWellFormed(t *testing.T) {
	content, err := os.ReadFile("../../deploy/prometheus/brokerd-alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Record, Expr string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			complete := r.Record != "" || r.Labels["severity"] != "" && r.Annotations["summary"] != ""
			if r.Expr == "" || (r.Alert == "") == (r.Record == "") || !complete {
				t.Errorf("rule %s%s is not complete", r.Alert, r.Record)
			}
		}
	}
}
