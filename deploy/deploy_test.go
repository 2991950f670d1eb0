package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/brokerd/brokerd/internal/config"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// configure reads settings like a node that has them in its environment.
func configure(t *testing.T, who string, environ []string) config.Options {
	t.Helper()
	loaded, err := config.Load(config.Input{Environ: environ, Hostname: "host", ReadFile: os.ReadFile})
	if err != nil {
		t.Errorf("%s: a node would refuse this environment: %v", who, err)
	}
	return loaded.Options
}

// imageEnvironment is the environment set by the image.
func imageEnvironment(t *testing.T) []string {
	t.Helper()
	text := strings.ReplaceAll(read(t, "docker/Dockerfile"), "\\\n", " ")
	m := regexp.MustCompile(`(?m)^ENV (.*)$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatal("the Dockerfile has no ENV")
	}
	return strings.Fields(m[1])
}

func TestImageStartsANode(t *testing.T) {
	o := configure(t, "Dockerfile", imageEnvironment(t))
	if o.DataDir != "/var/lib/brokerd" || !strings.HasPrefix(o.Listen.TCP, "0.0.0.0:") || !strings.HasPrefix(o.Listen.Cluster, "127.") {
		t.Errorf("%+v", o)
	}
	text := read(t, "docker/Dockerfile")
	for _, want := range []string{
		"FROM scratch", "\nUSER 65532:65532\n", "\nVOLUME /var/lib/brokerd\n", `ENTRYPOINT ["/usr/bin/brokerd"]`,
		`CMD ["/usr/bin/brokerctl", "check", "node", "-q"]`, "STOPSIGNAL SIGTERM",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile does not have %q", want)
		}
	}
}

type composed struct {
	Services map[string]struct {
		Environment map[string]string
		Volumes     []string
		Ports       []string
		Secrets     []string
		Grace       string `yaml:"stop_grace_period"`
	}
	Volumes, Secrets map[string]any
}

func TestComposeRunsThreeNodes(t *testing.T) {
	var c composed
	if err := yaml.Unmarshal([]byte(read(t, "docker/compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Services) != 3 {
		t.Fatalf("%d services", len(c.Services))
	}
	published := map[string]string{}
	for name, s := range c.Services {
		environ := imageEnvironment(t)
		for key, value := range s.Environment {
			environ = append(environ, key+"="+value)
		}
		o := configure(t, name, environ)
		if o.NodeID != name || o.Advertise.Host != name || o.Cluster.BootstrapExpect != 3 || len(o.Cluster.Join) != 3 || !slices.Contains(o.Cluster.Join, name+":4152") {
			t.Errorf("%s: node %s at %s, expects %d of %v", name, o.NodeID, o.Advertise.Host, o.Cluster.BootstrapExpect, o.Cluster.Join)
		}
		if _, ok := c.Volumes[name]; !ok || !slices.Contains(s.Volumes, name+":/var/lib/brokerd") {
			t.Errorf("%s has no volume of its own: %v", name, s.Volumes)
		}
		if len(s.Secrets) != 1 || o.Cluster.SecretFile != "/run/secrets/"+s.Secrets[0] || c.Secrets[s.Secrets[0]] == nil {
			t.Errorf("%s reads %s and has %v", name, o.Cluster.SecretFile, s.Secrets)
		}
		if grace, err := time.ParseDuration(s.Grace); err != nil || grace <= o.Process.DrainTimeout {
			t.Errorf("%s is killed after %s (%v), and drains for %s", name, s.Grace, err, o.Process.DrainTimeout)
		}
		for _, p := range s.Ports {
			outer := p[:strings.LastIndex(p, ":")]
			if other, taken := published[outer]; taken || !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s, as %s does, or to everyone", name, p, other)
			}
			published[outer] = name
		}
	}
}

// objects returns the documents of a Kubernetes file.
func objects(t *testing.T, name string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for d := yaml.NewDecoder(strings.NewReader(read(t, name))); ; {
		var o map[string]any
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, o)
	}
}

// set is the part of the StatefulSet that must agree with the node and with other objects.
// tools/manifests checks all objects against the types of Kubernetes.
type set struct {
	Spec struct {
		ServiceName string `yaml:"serviceName"`
		Policy      string `yaml:"podManagementPolicy"`
		Replicas    int
		Template    struct {
			Spec struct {
				Grace      int  `yaml:"terminationGracePeriodSeconds"`
				Links      bool `yaml:"enableServiceLinks"`
				Containers []struct {
					Env []struct {
						Name, Value string
						ValueFrom   any `yaml:"valueFrom"`
					}
					Ports []struct {
						Name string
						Port int `yaml:"containerPort"`
					}
					StartupProbe   probe `yaml:"startupProbe"`
					ReadinessProbe probe `yaml:"readinessProbe"`
					LivenessProbe  probe `yaml:"livenessProbe"`
				}
			}
		}
	}
}

type probe struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

func TestKubernetesStartsAClusterOfThree(t *testing.T) {
	var s set
	if err := yaml.Unmarshal([]byte(read(t, "kubernetes/statefulset.yaml")), &s); err != nil {
		t.Fatal(err)
	}
	pod := s.Spec.Template.Spec
	if len(pod.Containers) != 1 || s.Spec.Policy != "Parallel" || s.Spec.Replicas != 3 || pod.Links {
		t.Fatalf("%+v", s)
	}
	c := pod.Containers[0]
	environ := imageEnvironment(t)
	for _, e := range c.Env {
		value := strings.NewReplacer("$(POD_NAME)", "brokerd-1", "$(POD_NAMESPACE)", "queue").Replace(e.Value)
		if strings.HasPrefix(e.Name, "BROKERD_") {
			environ = append(environ, e.Name+"="+value)
		}
	}
	o := configure(t, "StatefulSet", environ)
	if o.NodeID != "brokerd-1" || o.Advertise.Host != "brokerd-1."+s.Spec.ServiceName+".queue.svc.cluster.local" || o.Cluster.BootstrapExpect != 3 {
		t.Errorf("node %s at %s", o.NodeID, o.Advertise.Host)
	}
	if want := []string{"brokerd-0.brokerd-nodes:4152", "brokerd-1.brokerd-nodes:4152", "brokerd-2.brokerd-nodes:4152"}; !slices.Equal(o.Cluster.Join, want) {
		t.Errorf("joins %v", o.Cluster.Join)
	}
	if grace := time.Duration(pod.Grace) * time.Second; grace < o.Process.DrainTimeout+10*time.Second {
		t.Errorf("a pod is killed after %s, and drains for %s", grace, o.Process.DrainTimeout)
	}
	for _, p := range []struct {
		is   probe
		path string
	}{{c.StartupProbe, "/startupz"}, {c.ReadinessProbe, "/readyz"}, {c.LivenessProbe, "/livez"}} {
		if p.is.Get.Path != p.path || p.is.Get.Port != "http" {
			t.Errorf("probe %+v, want %s", p.is, p.path)
		}
	}
	addresses := map[string]string{"tcp": o.Listen.TCP, "http": o.Listen.HTTP, "cluster": o.Listen.Cluster, "lookup": o.Listen.Lookup}
	for _, p := range c.Ports {
		if !strings.HasSuffix(addresses[p.Name], ":"+strconv.Itoa(p.Port)) {
			t.Errorf("port %s is %d, and the node listens at %s", p.Name, p.Port, addresses[p.Name])
		}
	}
}

func TestKubernetesFindsNodesThatAreNotReady(t *testing.T) {
	found := 0
	for _, o := range objects(t, "kubernetes/services.yaml") {
		spec := o["spec"].(map[string]any)
		if o["metadata"].(map[string]any)["name"] == "brokerd-nodes" {
			found++
			if spec["clusterIP"] != "None" || spec["publishNotReadyAddresses"] != true {
				t.Errorf("%v", spec)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d services of the nodes", found)
	}
}

func TestEveryManifestIsInTheKustomization(t *testing.T) {
	var k struct{ Resources []string }
	if err := yaml.Unmarshal([]byte(read(t, "kubernetes/kustomization.yaml")), &k); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(k.Resources)+1 {
		t.Errorf("%v, and the kustomization has %v", files, k.Resources)
	}
}

// TestEveryAlertIsTestedAndExplained finds rules without a promtool test, which `make alerts` runs,
// and rules without a runbook.
func TestEveryAlertIsTestedAndExplained(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	for name, into := range map[string]any{"prometheus/brokerd-alerts.yml": &rules, "prometheus/brokerd-alerts_test.yml": &tests} {
		if err := yaml.Unmarshal([]byte(read(t, name)), into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	fires := map[string]bool{}
	for _, test := range tests.Tests {
		for _, a := range test.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
		}
	}
	count := 0
	pages := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(read(t, "../docs/operations/alerts.md"), -1) {
		pages[m[1]] = true
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			if !pages[r.Alert] {
				t.Errorf("docs/operations/alerts.md does not say what to do at %s", r.Alert)
			}
			const page = "https://github.com/brokerd/brokerd/blob/main/docs/operations/alerts.md#"
			if want := page + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
				t.Errorf("the runbook of %s is %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
			}
			delete(pages, r.Alert)
			if count++; !fires[r.Alert] {
				t.Errorf("no test in which %s fires", r.Alert)
			}
		}
	}
	if count < 20 {
		t.Errorf("only %d alerts", count)
	}
	for name := range pages {
		t.Errorf("docs/operations/alerts.md speaks of %s, which is no alert", name)
	}
}

// TestAnsibleWritesAValidConfiguration fills in the variables of the template.
func TestAnsibleWritesAValidConfiguration(t *testing.T) {
	text := read(t, "ansible/templates/brokerd.toml.j2")
	text = regexp.MustCompile(`\[\{% for.*endfor %\}\]`).ReplaceAllString(text, `["n1.example.org:4152", "n2.example.org:4152"]`)
	text = regexp.MustCompile(`(?m)^\{%.*%\}\n`).ReplaceAllString(text, "")
	for name, value := range map[string]string{
		"ansible_managed": "managed", "inventory_hostname_short": "n1", "inventory_hostname": "n1.example.org",
		"brokerd_bootstrap_expect": "3", "brokerd_zone": "a",
	} {
		text = strings.ReplaceAll(text, "{{ "+name+" }}", value)
	}
	text = regexp.MustCompile(`\{\{ \w+ \| default\('([^']*)'\) \}\}`).ReplaceAllString(text, "$1")
	loaded, err := config.Load(config.Input{
		Environ: []string{"BROKERD_CONFIG=/etc/brokerd/brokerd.toml"}, Hostname: "host",
		ReadFile: func(string) ([]byte, error) { return []byte(text), nil },
	})
	if err != nil || loaded.Options.NodeID != "n1" || loaded.Options.Zone != "a" || len(loaded.Options.Cluster.Join) != 2 {
		t.Errorf("%v\n%s", err, text)
	}
	l := loaded.Options.Listen
	for _, at := range []string{l.TCP, l.HTTP, l.Lookup, l.Cluster} {
		if !strings.HasPrefix(at, "0.0.0.0:") || loaded.Options.Advertise.Host != "n1.example.org" {
			t.Errorf("other nodes cannot reach %s, advertised as %s", at, loaded.Options.Advertise.Host)
		}
	}
	for _, file := range []string{"ansible/playbook.yml", "ansible/inventory.yml"} {
		var any any
		d := yaml.NewDecoder(bytes.NewReader([]byte(read(t, file))))
		if err := d.Decode(&any); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// Everything that runs brokerctl unattended can be given a token: it would fail once access control
// is on.
func TestDeploymentsPassATokenToBrokerctl(t *testing.T) {
	if unit := read(t, "systemd/brokerd-backup.service"); !strings.Contains(unit, "\nEnvironmentFile=-/etc/brokerd/backup.env\n") {
		t.Error("the backup reads no token")
	} else if !strings.Contains(unit, `--keep-last "$$BROKERD_BACKUP_KEEP" --yes'`+"\n") {
		t.Error("the unit keeps all backups")
	}
	var plays []struct {
		Tasks []struct {
			Environment map[string]string
			Block       []map[string]any
			Command     string `yaml:"ansible.builtin.command"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "ansible/playbook.yml")), &plays); err != nil {
		t.Fatal(err)
	}
	asks := 0
	for _, play := range plays {
		for _, task := range play.Tasks {
			commands := []any{task.Command}
			for _, inner := range task.Block {
				commands = append(commands, inner["ansible.builtin.command"])
			}
			for _, command := range commands {
				if text, _ := command.(string); strings.HasPrefix(text, "brokerctl ") {
					if asks++; !strings.Contains(task.Environment["BROKERCTL_TOKEN"], "brokerd_token") {
						t.Errorf("%s has no token", text)
					}
				}
			}
		}
	}
	if asks != 3 {
		t.Errorf("%d commands ask the cluster", asks)
	}
}

// TestStoppedPlayGoesOn: what a run has changed is forgotten when it stops. No task may depend on it, and the restart must
// find by itself what is newer than the process, and where a run was stopped between a drain and its end.
func TestStoppedPlayGoesOn(t *testing.T) {
	text := read(t, "ansible/playbook.yml")
	if found := regexp.MustCompile(`(?m)^.*\bis (not )?changed\b.*$`).FindString(text); found != "" {
		t.Errorf("a task depends on what this run has changed: %s", found)
	}
	begin, drain := strings.Index(text, "path: /etc/brokerd/restarting, state: touch"), strings.Index(text, "brokerctl node drain")
	end, healthy := strings.Index(text, "path: /etc/brokerd/restarting, state: absent"), strings.Index(text, "brokerctl cluster health")
	if begin < 0 || begin > drain || end < healthy || healthy < drain {
		t.Errorf("the note of a restart is made at %d and removed at %d, want it before the drain at %d and after the cluster is healthy at %d",
			begin, end, drain, healthy)
	}
}

// TestNewerFilesAreFound runs the command with which the play finds what is newer than the process.
func TestNewerFilesAreFound(t *testing.T) {
	find, err := exec.LookPath("find")
	if err != nil {
		t.Skip("no find on this machine")
	}
	m := regexp.MustCompile(`find (.*) -newerct "\$since"`).FindStringSubmatch(read(t, "ansible/playbook.yml"))
	if m == nil {
		t.Fatal("the play does not compare the files with the start of the process")
	}
	at := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(at, old, old); err != nil { // as a package does
		t.Fatal(err)
	}
	for since, want := range map[time.Time]string{time.Now().Add(-time.Minute): at, time.Now().Add(time.Minute): ""} {
		// As systemctl show --timestamp=us prints it.
		out, err := exec.Command(find, at, "-newerct", since.UTC().Format("Mon 2006-01-02 15:04:05.000000 MST")).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("newer than %s: %q, %v", since, out, err)
		}
	}
}
