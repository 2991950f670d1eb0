package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const ours = "../../deploy/kubernetes"

func TestManifestsAreRight(t *testing.T) {
	if n, err := check(ours); err != nil || n < 5 {
		t.Errorf("%d objects: %v", n, err)
	}
}

// TestMistakesAreFound introduces one mistake at a time.
func TestMistakesAreFound(t *testing.T) {
	for _, c := range []struct{ file, old, replacement string }{
		{"statefulset.yaml", "minReadySeconds:", "minReadySecond:"},
		{"statefulset.yaml", "serviceName: brokerd-nodes", "serviceName: nodes"},
		{"statefulset.yaml", "replicas: 3", "replicas: three"},
		{"statefulset.yaml", "{name: data, mountPath", "{name: date, mountPath"},
		{"services.yaml", "targetPort: lookup", "targetPort: look"},
		{"disruption.yaml", "component: node", "component: nodes"},
		{"network.yaml", "port: cluster", "port: clusters"},
		{"network.yaml", `brokerd-client: "true"`, `brokerd-client: "yes"`},
		{"network.yaml", `brokerd-client: "true"`, `app.kubernetes.io/name: brokerd, brokerd-client: "true"`},
		{"network.yaml", `- podSelector: {matchLabels: {brokerd-client: "true"}}`, "- podSelector: {}"},
		{"network.yaml", "kubernetes.io/metadata.name: monitoring", "name: monitoring"},
		{"network.yaml", "- {port: lookup}", "- {port: cluster}"},
		{"network.yaml", "    - podSelector: {matchLabels: {app.kubernetes.io/name: brokerd, app.kubernetes.io/component: node}}", "    - podSelector: {matchLabels: {app.kubernetes.io/component: node}}"},
		{"network.yaml", "policyTypes: [Ingress]", "policyTypes: [Egress]"},
		{"kustomization.yaml", "- pairs: {app.kubernetes.io/name: brokerd}", "- includeSelectors: true\n  pairs: {app.kubernetes.io/name: brokerd}"},
	} {
		dir := t.TempDir()
		files, err := filepath.Glob(ours + "/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			changed := string(text)
			if filepath.Base(name) == c.file {
				if !strings.Contains(changed, c.old) {
					t.Fatalf("%s has no %q", c.file, c.old)
				}
				changed = strings.Replace(changed, c.old, c.replacement, 1)
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := check(dir); err == nil {
			t.Errorf("%s: %q instead of %q is taken", c.file, c.replacement, c.old)
		}
	}
}
