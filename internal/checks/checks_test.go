package checks

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// wants compares a result with its state, a part of its summary, and its number of details.
func (r Result) wants(t *testing.T, name string, s State, summary string, details int) {
	t.Helper()
	if r.State != s || !strings.Contains(r.Summary, summary) || len(r.Details) != details || r.Details == nil || r.Figures == nil {
		t.Errorf("%s: %s %q %q", name, r.State, r.Summary, r.Details)
	}
}

func TestCluster(t *testing.T) {
	c := &api.Cluster{Nodes: []api.Node{{ID: "n1", State: api.NodeUp}, {ID: "n2", State: api.NodeUp, Silent: true}, {ID: "n3", State: api.NodeDown}}}
	down := api.Reason{Code: "nodes_down", What: "n3"}
	for _, test := range []struct {
		name    string
		health  api.Health
		state   State
		summary string
		details int
	}{
		{"healthy", api.Health{Healthy: true}, OK, "1 of 3 nodes up, healthy", 0},
		{"with something to know", api.Health{Healthy: true, Reasons: []api.Reason{{Code: "two_voters"}}}, OK, "healthy", 1},
		{"degraded", api.Health{Healthy: true, Degraded: true, Reasons: []api.Reason{down}}, Warning, "nodes_down: n3", 1},
		{"degraded, and not called healthy", api.Health{Degraded: true, Reasons: []api.Reason{down}}, Warning, "nodes_down: n3", 1},
		{"unhealthy", api.Health{Reasons: []api.Reason{{Code: "no_leader"}, down}}, Critical, "no_leader:  (and 1 more)", 2},
		{"without a reason", api.Health{}, Critical, "no reason", 0},
	} {
		r := cluster(&test.health, c)
		r.wants(t, test.name, test.state, test.summary, test.details)
	}
}

func TestRaft(t *testing.T) {
	member := func(id string, voter, answered bool, applied uint64) api.RaftMember {
		return api.RaftMember{ID: id, Voter: voter, Answered: answered, AppliedIndex: applied, CommitIndex: applied}
	}
	well := []api.RaftMember{member("n1", true, true, 5000), member("n2", true, true, 4999), member("n3", true, true, 4500)}
	for _, test := range []struct {
		name    string
		raft    api.Raft
		state   State
		summary string
		details int
	}{
		{"well", api.Raft{Leader: "n1", Term: 3, Voters: 3, Tolerance: 1, Members: well}, OK, "leader n1, term 3, 3 voters, tolerates 1 failure", 0},
		{"one node", api.Raft{Leader: "n1", Voters: 1, Members: well[:1]}, OK, "1 voter, tolerates 0 failures", 0},
		{"two nodes", api.Raft{Leader: "n1", Voters: 2, Members: well[:2]}, OK, "2 voters", 0},
		{"no tolerance", api.Raft{Leader: "n1", Voters: 3, Members: well}, Warning, "one more voter", 1},
		{"no leader", api.Raft{Voters: 3, Tolerance: 1, Members: well}, Critical, "no node leads", 1},
		{"no quorum", api.Raft{Leader: "n1", Voters: 3, Tolerance: -1, Members: well}, Critical, "voters missing: 1", 1},
		{"silent voter", api.Raft{Leader: "n1", Voters: 3, Tolerance: 1, Members: []api.RaftMember{well[0], member("n2", true, false, 0)}}, Warning, "voter n2 does not answer", 1},
		{"silent node", api.Raft{Leader: "n1", Voters: 3, Tolerance: 1, Members: []api.RaftMember{well[0], member("n4", false, false, 0)}}, Warning, "node n4 does not answer", 1},
		{"far behind", api.Raft{Leader: "n1", Voters: 3, Tolerance: 1, Members: []api.RaftMember{well[0], member("n2", true, true, 3000)}}, Warning, "n2 is 2000 commands behind", 1},
	} {
		r := raft(&test.raft)
		r.wants(t, test.name, test.state, test.summary, test.details)
	}
}

func TestChannel(t *testing.T) {
	lag := func(depth int64, age time.Duration) api.ChannelLag {
		return api.ChannelLag{Topic: "t", Channel: "c", Depth: depth, OldestAgeMS: age.Milliseconds()}
	}
	offline, missing, paused := lag(0, 0), lag(1, 0), lag(3, time.Second)
	offline.OfflinePartitions, missing.MissingNodes, paused.Paused = 2, []string{"n2", "n3"}, true
	limits := channelLimits{WarnLag: 10, CritLag: 100, WarnAge: time.Minute, CritAge: time.Hour, MinConsumers: 1}
	for _, test := range []struct {
		name      string
		lag       api.ChannelLag
		consumers int
		limits    channelLimits
		state     State
		summary   string
		details   int
	}{
		{"at the limits", lag(10, time.Minute), 1, limits, OK, "t/c: 10 messages wait, the oldest for 1m, 1 consumer", 0},
		{"beyond the lower", lag(11, time.Minute+time.Second), 1, limits, Warning, "11 messages wait, more than 10 (and 1 more)", 2},
		{"at the upper", lag(100, time.Hour), 1, limits, Warning, "100 messages", 2},
		{"too many", lag(101, 0), 1, limits, Critical, "101 messages wait, more than 100", 1},
		{"too old", lag(11, time.Hour+time.Second), 1, limits, Critical, "the oldest message is 1h", 2},
		{"no consumer", lag(0, 0), 0, limits, Critical, "0 consumers, fewer than 1", 1},
		{"offline", offline, 1, channelLimits{}, Critical, "2 partitions without a leader", 1},
		{"not all known", missing, 1, limits, Unknown, "n2, n3 do not answer", 1},
		{"no limits", lag(1e9, time.Hour), 1, channelLimits{}, OK, "", 0},
		{"no limits, no consumer", lag(1, time.Hour), 0, channelLimits{}, Warning, "has no consumer, 1 message wait", 1},
		{"no limits, paused", paused, 1, channelLimits{}, Warning, "is paused", 1},
		{"no limits, nothing", lag(0, 0), 0, channelLimits{}, OK, "", 0},
	} {
		r := Channel(&test.lag, test.consumers, test.limits)
		r.wants(t, test.name, test.state, test.summary, test.details)
	}
}

func scraped(node string, lines ...string) Scraped {
	return Scraped{Node: node, Text: []byte("# HELP x y\n" + strings.Join(lines, "\n") + "\n")}
}

func disk(node, free, state string) Scraped {
	return scraped(node, "brokerd_disk_free_bytes "+free, "brokerd_disk_free_bytes_of_others 1", "brokerd_disk_reserved_bytes 1.073741824e+09", "brokerd_disk_watermark_state "+state)
}

func TestDisk(t *testing.T) {
	well, low, full, silent := disk("n1", "1e+12", "0"), disk("n2", "2e+09", "1"), disk("n3", "1e+09", "2"), Scraped{Node: "n4", Err: errors.New("is down")}
	for _, test := range []struct {
		name    string
		nodes   []Scraped
		limits  diskLimits
		state   State
		summary string
		details int
	}{
		{"well", []Scraped{well}, diskLimits{}, OK, "at least 931.3 GiB free on 1 node (n1)", 0},
		{"low", []Scraped{well, low}, diskLimits{}, Warning, "n2: 1.9 GiB free; it refuses publishes below 1.0 GiB", 1},
		{"full", []Scraped{low, full}, diskLimits{}, Critical, "n3 refuses publishes", 2},
		{"one is not known", []Scraped{well, silent}, diskLimits{}, Unknown, "n4: is down", 1},
		{"full is worse than not known", []Scraped{silent, full}, diskLimits{}, Critical, "n3 refuses", 2},
		{"a limit", []Scraped{well}, diskLimits{WarnFree: 1 << 40}, Warning, "n1: 931.3 GiB free, less than 1TiB", 1},
		{"both limits", []Scraped{well}, diskLimits{WarnFree: 1 << 41, CritFree: 1 << 40}, Critical, "less than 1TiB", 1},
		{"limits that are kept", []Scraped{well}, diskLimits{WarnFree: 1 << 30, CritFree: 1 << 20}, OK, "", 0},
		{"no metrics of a disk", []Scraped{scraped("n1")}, diskLimits{}, Unknown, "n1: its metrics do not tell", 1},
	} {
		r := Disk(test.nodes, test.limits)
		r.wants(t, test.name, test.state, test.summary, test.details)
	}
}

func TestCertificates(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	cert := func(node, usage, end string) string {
		return `brokerd_tls_certificate_not_after_timestamp_seconds{usage="` + usage + `"} ` + end
	}
	const noToken = "brokerd_token_not_after_timestamp_seconds +Inf"
	limits := certLimits{Warn: 30 * 24 * time.Hour, Crit: 7 * 24 * time.Hour}
	for _, test := range []struct {
		name    string
		nodes   []Scraped
		state   State
		summary string
		details int
	}{
		{"none", []Scraped{scraped("n1", noToken)}, OK, "no TLS certificate is in use on 1 node", 0},
		{"long", []Scraped{scraped("n1", cert("n1", "server", "1.01e+09"), noToken)}, OK, "valid for at least 115d", 0},
		{"soon", []Scraped{scraped("n1", cert("n1", "server", "1.01e+09"), cert("n1", "cluster", "1.001e+09"))}, Warning, "n1 cluster certificate expires in 11d", 1},
		{"very soon", []Scraped{scraped("n1", cert("n1", "server", "1.0001e+09"))}, Critical, "n1 server certificate expires in 27h47m", 1},
		{"over", []Scraped{scraped("n1", cert("n1", "server", "9.99e+08"))}, Critical, "has expired", 1},
		{"a token, which all nodes tell", []Scraped{scraped("n1", "brokerd_token_not_after_timestamp_seconds 1.001e+09"), scraped("n2", "brokerd_token_not_after_timestamp_seconds 1.001e+09")}, Warning, "access token expires in 11d", 1},
		{"one is not known", []Scraped{scraped("n1", noToken), {Node: "n2", Err: errors.New("is down")}}, Unknown, "n2: is down", 1},
	} {
		r := certificates(test.nodes, now, limits)
		r.wants(t, test.name, test.state, test.summary, test.details)
	}
}

func TestForms(t *testing.T) {
	r := begin("disk")
	crit := 5.0
	r.figure("n1's free", 12.5, "bytes", nil, &crit)
	r.figure("age", 3, "seconds")
	r.find(Warning, "a | b\nc")
	r.find(Critical, "d")
	r.end("never")
	want := "BROKERD DISK CRITICAL - d (and 1 more) | 'n1''s free'=12.5B;;5 'age'=3s\nwarning: a / b c\ncritical: d\n"
	if got := r.Nagios(); got != want {
		t.Errorf("%q", got)
	}
	var out strings.Builder
	if err := r.WritePrometheus(&out); err != nil || !strings.Contains(out.String(), "\nbrokerd_check_state{check=\"disk\"} 2\n") ||
		!strings.Contains(out.String(), `brokerd_check_value{check="disk",name="age",unit="seconds"} 3`) {
		t.Error(out.String(), err)
	}
	raw, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(raw), `"state":"critical"`) || !strings.Contains(string(raw), `"crit":5`) {
		t.Errorf("%s %v", raw, err)
	}
	if State(9).String() != "unknown" {
		t.Error(State(9))
	}
}
