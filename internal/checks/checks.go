package checks

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/units"
)

// cluster judges the health of a cluster: degraded is a warning, unhealthy is
// critical.
func cluster(h *api.Health, c *api.Cluster) Result {
	r := begin("cluster")
	up := 0
	for _, n := range c.Nodes {
		if n.State != api.NodeDown && !n.Silent {
			up++
		}
	}
	r.figure("nodes_up", float64(up), "")
	r.figure("nodes", float64(len(c.Nodes)), "")
	r.figure("reasons", float64(len(h.Reasons)), "")
	state := OK
	switch {
	case h.Healthy && !h.Degraded:
	case h.Degraded:
		state = Warning
	default:
		state = Critical
	}
	// The first reason is the gravest; the gravity of the others is not known here.
	for _, reason := range h.Reasons {
		r.Details = append(r.Details, reason.Code+": "+reason.What)
	}
	if state != OK {
		r.State, r.Summary = state, "the cluster gives no reason"
		if len(r.Details) > 0 {
			r.Summary = r.Details[0]
		}
	}
	return r.end("%d of %s up, healthy", up, words.Plural(len(c.Nodes), "node"))
}

// raft judges the metadata's Raft group.
func raft(a *api.Raft) Result {
	r := begin("raft")
	r.figure("voters", float64(a.Voters), "")
	r.figure("tolerance", float64(a.Tolerance), "")
	r.figure("term", float64(a.Term), "")
	switch {
	case a.Tolerance < 0:
		r.find(Critical, "the metadata has no quorum, voters missing: %d", -a.Tolerance)
	case a.Leader == "":
		r.find(Critical, "no node leads the metadata")
	case a.Tolerance == 0 && a.Voters >= 3:
		r.find(Warning, "if one more voter fails, the metadata cannot change")
	}
	var newest uint64
	for _, m := range a.Members {
		newest = max(newest, m.CommitIndex)
	}
	for _, m := range a.Members {
		switch {
		case !m.Answered && m.Voter:
			r.find(Warning, "voter %s does not answer", m.ID)
		case !m.Answered:
			r.find(Warning, "node %s does not answer", m.ID)
		case m.AppliedIndex+maxBehind < newest:
			r.find(Warning, "node %s is %d commands behind", m.ID, newest-m.AppliedIndex)
		}
	}
	return r.end("leader %s, term %d, %s, tolerates %s", a.Leader, a.Term, words.Plural(a.Voters, "voter"), words.Plural(a.Tolerance, "failure"))
}

// maxBehind is how many metadata commands a healthy follower may lack.
const maxBehind = 1000

// channelLimits are the limits of a channel's lag. Zero: no limit.
type channelLimits struct {
	WarnLag, CritLag int64 // waiting messages
	WarnAge, CritAge time.Duration
	MinConsumers     int
}

// validate returns why the limits make no sense, or nil.
func (l *channelLimits) validate() error {
	if l.WarnLag < 0 || l.CritLag < 0 || l.WarnAge < 0 || l.CritAge < 0 || l.MinConsumers < 0 {
		return errors.New("limits must not be negative")
	}
	if l.CritLag > 0 && l.WarnLag > l.CritLag {
		return fmt.Errorf("--warn-lag %d is above --max-lag %d: there would be no warning", l.WarnLag, l.CritLag)
	}
	if l.CritAge > 0 && l.WarnAge > l.CritAge {
		return fmt.Errorf("--warn-age %s is above --max-age %s: there would be no warning", units.ShortDuration(l.WarnAge), units.ShortDuration(l.CritAge))
	}
	return nil
}

// None reports whether there is no limit.
func (l *channelLimits) None() bool { return *l == channelLimits{} }

// Channel judges a channel with a number of consumers.
func Channel(l *api.ChannelLag, consumers int, limits channelLimits) Result {
	r := begin("channel")
	name := l.Topic + "/" + l.Channel
	age := time.Duration(l.OldestAgeMS) * time.Millisecond
	r.figure("lag", float64(l.Depth), "", limit(float64(limits.WarnLag)), limit(float64(limits.CritLag)))
	r.figure("oldest_age", age.Seconds(), "seconds", limit(limits.WarnAge.Seconds()), limit(limits.CritAge.Seconds()))
	r.figure("in_flight", float64(l.InFlight), "")
	r.figure("deferred", float64(l.Deferred), "")
	r.figure("consumers", float64(consumers), "")
	if l.OfflinePartitions > 0 {
		r.find(Critical, "%s: %s without a leader", name, words.Plural(l.OfflinePartitions, "partition"))
	}
	if len(l.MissingNodes) > 0 {
		r.find(Unknown, "%s: its leaders %s do not answer", name, strings.Join(l.MissingNodes, ", "))
	}
	switch {
	case limits.CritLag > 0 && l.Depth > limits.CritLag:
		r.find(Critical, "%s: %s wait, more than %d", name, words.Plural(l.Depth, "message"), limits.CritLag)
	case limits.WarnLag > 0 && l.Depth > limits.WarnLag:
		r.find(Warning, "%s: %s wait, more than %d", name, words.Plural(l.Depth, "message"), limits.WarnLag)
	}
	switch {
	case limits.CritAge > 0 && age > limits.CritAge:
		r.find(Critical, "%s: the oldest message is %s old, more than %s", name, units.ShortDuration(age), units.ShortDuration(limits.CritAge))
	case limits.WarnAge > 0 && age > limits.WarnAge:
		r.find(Warning, "%s: the oldest message is %s old, more than %s", name, units.ShortDuration(age), units.ShortDuration(limits.WarnAge))
	}
	if consumers < limits.MinConsumers {
		r.find(Critical, "%s: %s, fewer than %d", name, words.Plural(consumers, "consumer"), limits.MinConsumers)
	}
	if limits.None() && l.Depth > 0 {
		switch {
		case l.Paused:
			r.find(Warning, "%s is paused, %s wait", name, words.Plural(l.Depth, "message"))
		case consumers == 0:
			r.find(Warning, "%s has no consumer, %s wait", name, words.Plural(l.Depth, "message"))
		}
	}
	return r.end("%s: %s wait, the oldest for %s, %s", name, words.Plural(l.Depth, "message"), units.ShortDuration(age), words.Plural(consumers, "consumer"))
}

func limit(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

// Scraped is the metrics of a node, or the error of getting them.
type Scraped struct {
	Node string
	Text []byte // of /metrics
	Err  error
}

// sample is a line of metrics.
type sample struct {
	labels string // with the braces
	value  float64
}

// label returns the value of a label.
func (s sample) label(name string) string {
	_, rest, _ := strings.Cut(s.labels, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// samples returns the series of a metric.
func (s *Scraped) samples(name string) (all []sample) {
	for line := range strings.Lines(string(s.Text)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		at := strings.LastIndexByte(rest, ' ')
		if v, err := strconv.ParseFloat(rest[at+1:], 64); err == nil {
			all = append(all, sample{rest[:at], v})
		}
	}
	return all
}

// one returns the only series of a metric.
func (s *Scraped) one(name string) (float64, bool) {
	if all := s.samples(name); len(all) == 1 {
		return all[0].value, true
	}
	return 0, false
}

// diskLimits are the limits of a disk's free space. Zero: critical below the node's reserve, where it
// refuses publishes, and a warning below twice the reserve.
type diskLimits struct{ WarnFree, CritFree units.Size }

func (l *diskLimits) validate() error {
	if l.WarnFree > 0 && l.CritFree > l.WarnFree {
		return fmt.Errorf("--crit-free %s is above --warn-free %s: there would be no warning", l.CritFree, l.WarnFree)
	}
	return nil
}

// Disk judges the disks of nodes.
func Disk(nodes []Scraped, limits diskLimits) Result {
	r := begin("disk")
	least, where := -1.0, ""
	for i := range nodes {
		n := &nodes[i]
		if n.Err != nil {
			r.find(Unknown, "%s: %v", n.Node, n.Err)
			continue
		}
		free, ok := n.one("brokerd_disk_free_bytes")
		state, known := n.one("brokerd_disk_watermark_state")
		reserved, _ := n.one("brokerd_disk_reserved_bytes")
		if !ok || !known {
			r.find(Unknown, "%s: its metrics do not tell about a disk", n.Node)
			continue
		}
		r.figure(n.Node+"_free", free, "bytes", limit(max(float64(limits.WarnFree), 2*reserved)), limit(max(float64(limits.CritFree), reserved)))
		if least < 0 || free < least {
			least, where = free, n.Node
		}
		switch {
		case state >= 2:
			r.find(Critical, "%s refuses publishes: %s free, less than its reserve of %s", n.Node, words.Size(int64(free)), words.Size(int64(reserved)))
		case limits.CritFree > 0 && free < float64(limits.CritFree):
			r.find(Critical, "%s: %s free, less than %s", n.Node, words.Size(int64(free)), limits.CritFree)
		case state >= 1:
			r.find(Warning, "%s: %s free; it refuses publishes below %s", n.Node, words.Size(int64(free)), words.Size(int64(reserved)))
		case limits.WarnFree > 0 && free < float64(limits.WarnFree):
			r.find(Warning, "%s: %s free, less than %s", n.Node, words.Size(int64(free)), limits.WarnFree)
		}
	}
	return r.end("at least %s free on %s (%s)", words.Size(int64(max(least, 0))), words.Plural(len(nodes), "node"), where)
}

// certLimits are the minimum remaining validities of certificates and tokens.
type certLimits struct{ Warn, Crit time.Duration }

func (l *certLimits) validate() error {
	if l.Warn < 0 || l.Crit < 0 {
		return errors.New("limits must not be negative")
	}
	if l.Crit > l.Warn {
		return fmt.Errorf("--crit %s is above --warn %s: there would be no warning", units.ShortDuration(l.Crit), units.ShortDuration(l.Warn))
	}
	return nil
}

// certificates judges the TLS certificates and the access tokens that nodes use.
func certificates(nodes []Scraped, now time.Time, limits certLimits) Result {
	r := begin("cert")
	found := 0
	var first time.Duration
	judge := func(what string, end float64) {
		left := time.Duration(end-float64(now.Unix())) * time.Second
		if found++; found == 1 || left < first {
			first = left
		}
		warn, crit := limits.Warn.Seconds(), limits.Crit.Seconds()
		r.figure(strings.ReplaceAll(what, " ", "_"), left.Seconds(), "seconds", &warn, &crit)
		switch {
		case left <= 0:
			r.find(Critical, "%s has expired", what)
		case left < limits.Crit:
			r.find(Critical, "%s expires in %s", what, units.ShortDuration(left))
		case left < limits.Warn:
			r.find(Warning, "%s expires in %s", what, units.ShortDuration(left))
		}
	}
	tokens := 0.0 // when the first one expires: every node reports the same
	for i := range nodes {
		n := &nodes[i]
		if n.Err != nil {
			r.find(Unknown, "%s: %v", n.Node, n.Err)
			continue
		}
		for _, s := range n.samples("brokerd_tls_certificate_not_after_timestamp_seconds") {
			judge(n.Node+" "+s.label("usage")+" certificate", s.value)
		}
		// 1e11 is the year 5138: the value is +Inf if no token expires.
		if end, ok := n.one("brokerd_token_not_after_timestamp_seconds"); ok && end < 1e11 && (tokens == 0 || end < tokens) {
			tokens = end
		}
	}
	if tokens > 0 {
		judge("access token", tokens)
	}
	if found == 0 {
		return r.end("no TLS certificate is in use on %s, and no token expires", words.Plural(len(nodes), "node"))
	}
	return r.end("valid for at least %s", units.ShortDuration(first))
}
