package blackbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/brokerd/brokerd/internal/golden"
)

// queries returns the Prometheus queries of the dashboard and the alerting rules.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	read := func(path string, into any, decode func([]byte, any) error) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err == nil {
			err = decode(text, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	var board struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	read("../../deploy/grafana/brokerd.json", &board, json.Unmarshal)
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Record, Expr string }
		}
	}
	read("../../deploy/prometheus/brokerd-alerts.yml", &rules, yaml.Unmarshal)
	all := map[string][]string{}
	for _, p := range board.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			all["panel "+p.Title] = append(all["panel "+p.Title], target.Expr)
		}
	}
	for _, v := range board.Templating.List {
		all["variable "+v.Name] = append(all["variable "+v.Name], v.Definition)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all["rule "+r.Alert+r.Record] = append(all["rule "+r.Alert+r.Record], r.Expr)
		}
	}
	if len(all) < 60 {
		t.Fatalf("found only %d panels and rules", len(all))
	}
	return all
}

// byPrometheus are labels that Prometheus adds to scraped metrics.
var byPrometheus = []string{"job", "instance"}

// manualOfMetrics contains two tables of metrics, each between two comments.
const (
	manualOfMetrics = "../../docs/operations/metrics.md"
	scrapedBegins   = "<!-- metrics -->\n"
	detailedBegins  = "<!-- detailed metrics -->\n"
	tableEnds       = "<!-- end -->\n"
)

var (
	family = regexp.MustCompile(`(?m)^# HELP (brokerd_\w+) (.*)\n# TYPE \w+ (\w+)\n`)
	label  = regexp.MustCompile(`(\w+)="`)
)

// tableOf returns the table of the metrics in a scrape: name, type, labels and meaning.
func tableOf(scrape string) string {
	rows := map[string]string{}
	for _, m := range family.FindAllStringSubmatch(scrape, -1) {
		labels := map[string]bool{}
		for _, series := range regexp.MustCompile(`(?m)^`+m[1]+`(?:_bucket|_sum|_count)?\{(.*)\} \S+$`).FindAllStringSubmatch(scrape, -1) {
			for _, l := range label.FindAllStringSubmatch(series[1], -1) {
				if l[1] != "le" {
					labels["`"+l[1]+"`"] = true
				}
			}
		}
		rows[m[1]] = fmt.Sprintf("| `%s` | %s | %s | %s |\n", m[1], m[3], strings.Join(slices.Sorted(maps.Keys(labels)), ", "), m[2])
	}
	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		table.WriteString(rows[name])
	}
	return table.String()
}

// compareManual compares one of the manual's tables with the exported metrics, both ways.
func compareManual(t *testing.T, tableBegins, scrape string) {
	raw, err := os.ReadFile(manualOfMetrics)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(raw), tableBegins)
	table, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("no table in %s", manualOfMetrics)
	}
	want := tableOf(scrape)
	if golden.Update() {
		if err := os.WriteFile(manualOfMetrics, []byte(before+tableBegins+want+tableEnds+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(table, "\n"), strings.Split(want, "\n")); diff != "" {
		t.Errorf("the table of %s is not what two nodes export; the flag -update rewrites it:\n%s", manualOfMetrics, diff)
	}
}

var (
	metricName = regexp.MustCompile(`\b(?:brokerd|go|process)_[a-z0-9_]+`)
	selector   = regexp.MustCompile(`\b((?:brokerd|go|process)_[a-z0-9_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)(=~|!=|=)"([^"]*)"`)
)

// scrapeOfTwo returns a scrape of two nodes on which every counted event has happened, and their
// detailed metrics.
func scrapeOfTwo(t *testing.T) (text, detailed string) {
	t.Helper()
	authority := newAuthority(t)
	authority.issue("server", authority)
	n := startNode(t, "--tls-cert", authority.path("server.pem"), "--tls-key", authority.path("server.key"))
	other := startNode(t, "--node-id", "n2", "--join", n.address("CLUSTER"))
	brokerctl := func(args ...string) {
		t.Helper()
		if code, _, stderr := run(t, "brokerctl", append([]string{"--addr", "http://" + n.address("HTTP")}, args...)...); code != 0 {
			t.Fatalf("brokerctl %v: %d %s", args, code, stderr)
		}
	}
	brokerctl("topic", "create", "parcels", "--replicas", "2", "--partitions", "2", "--max-bytes", "1GiB")
	brokerctl("channel", "create", "parcels/send")
	brokerctl("message", "pub", "parcels", "one", "two", "three", "four")
	brokerctl("message", "tail", "parcels/send", "-n", "2")
	brokerctl("channel", "create", "parcels/redrive") // as a dead-letter topic has it
	n.consumer("parcels", "send", 1, "{}")
	scrape := func(path string) string {
		return "\n" + n.get(path) + "\n" + other.get(path)
	}
	eventually(t, "both nodes lead, replicate to each other, and know the way", func() bool {
		text = scrape("/metrics")
		for _, late := range []string{
			`brokerd_peer_bytes_total{class="replication"`, "brokerd_peer_round_trip_seconds{", "brokerd_peer_calls_total{", "brokerd_replica_lag_seconds{",
			"brokerd_topic_quota_used_ratio{", "brokerd_channel_depth{",
		} {
			if !strings.Contains(text, "\n"+late) {
				return false
			}
		}
		detailed = scrape("/metrics/detailed?family=topic,channel,partition,channel_partition,replica,client&topic=parcels")
		return strings.Contains(detailed, "\nbrokerd_detailed_client_in_flight{") && strings.Contains(detailed, "\nbrokerd_detailed_replica_lag_seconds{")
	})
	return text, detailed
}

// TestDashboardAndAlertsUseExistingMetrics looks up every queried metric, label and value, and
// every metric in the manual.
func TestDashboardAndAlertsUseExistingMetrics(t *testing.T) {
	text, detailed := scrapeOfTwo(t)
	t.Run("manual", func(t *testing.T) {
		compareManual(t, scrapedBegins, text)
		compareManual(t, detailedBegins, detailed)
	})
	for who, exprs := range queries(t) {
		for _, expr := range exprs {
			for _, name := range metricName.FindAllString(expr, -1) {
				if name != "go_version" && // a label
					!strings.Contains(text, "\n"+name+"{") &&
					!strings.Contains(text, "\n"+name+" ") {
					t.Errorf("%s asks for %s, which is not there", who, name)
				}
			}
			for _, s := range selector.FindAllStringSubmatch(expr, -1) {
				series := regexp.MustCompile(`(?m)^`+s[1]+`\{.*$`).FindAllString(text, -1)
				for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
					if slices.Contains(byPrometheus, m[1]) {
						continue
					}
					want := m[1] + `="`
					if m[2] == "=" {
						want += m[3] + `"`
					}
					if !slices.ContainsFunc(series, func(one string) bool { return strings.Contains(one, want) }) {
						t.Errorf("%s asks for %s with %s, which is not there", who, s[1], m[0])
					}
				}
			}
		}
	}
}
