package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/otlp"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/units"
)

// Bounds of settings that have any.
const (
	maxMessage         = units.Size(limit.Message)
	maxBody            = units.Size(limit.Body)
	minSegment         = units.MiB
	minScrub           = time.Minute
	maxSegment         = 2 * units.GiB
	maxBootstrapExpect = 9
	maxMetricsObjects  = 1_000_000 // a scrape has about twelve lines for each
	maxDeflateLevel    = 9
	maxCreations       = 1_000_000
	minStatsd          = time.Second
	minLatencyWindow   = time.Second
	maxPercentiles     = 20
	maxUDP             = units.Size(65507)
	minTrace           = units.MiB
	shortestTimeout    = time.Millisecond
	minElectionTimeout = 100 * time.Millisecond
	minLeaderLease     = 50 * time.Millisecond
	minCommitTimeout   = 10 * time.Millisecond
	minApplyTimeout    = 100 * time.Millisecond
	minNodeTimeout     = 500 * time.Millisecond
	minDiskTimeout     = 500 * time.Millisecond
	maxNodeTimeout     = time.Minute // of all time-outs between nodes
)

// mistake is a value that does not make sense.
type mistake struct{ key, text string }

type checker struct{ found []mistake }

// require notes a mistake unless ok.
func (c *checker) require(ok bool, key, format string, args ...any) {
	if !ok {
		c.found = append(c.found, mistake{key, fmt.Sprintf(format, args...)})
	}
}

// check finds every value of o that does not make sense, alone or beside the
// others.
func check(o *Options) []mistake {
	var c checker
	id := regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	c.require(id.MatchString(o.NodeID), "node-id", "%q must be 1 to 64 characters of a-z A-Z 0-9 _ . -", o.NodeID)
	c.require(o.DataDir != "", "data-dir", "is empty")
	c.addresses(o)
	c.limits(&o.Limits)
	c.tls(o)
	c.auth(&o.Auth)
	c.topics(&o.Topics)
	c.statsd(&o.Statsd)
	c.latency(&o.Latency)
	c.tracing(&o.Tracing)
	c.require(o.Process.DrainTimeout >= 0, "drain-timeout", "is negative")
	c.require(o.Process.MetricsObjects >= 1 && o.Process.MetricsObjects <= maxMetricsObjects, "metrics-max-objects",
		"%d is not between 1 and %d", o.Process.MetricsObjects, maxMetricsObjects)
	return c.found
}

func (c *checker) addresses(o *Options) {
	c.require(o.Listen.TCP != "", "tcp-address", "is empty")
	taken := map[string]string{}
	for _, l := range []struct {
		key, address string
		unix         bool
	}{
		{"tcp-address", o.Listen.TCP, true},
		{"http-address", o.Listen.HTTP, true},
		{"https-address", o.Listen.HTTPS, true},
		{"lookup-address", o.Listen.Lookup, false},
		{"cluster-address", o.Listen.Cluster, false},
	} {
		if l.address == "" || l.unix && IsUnix(l.address) {
			continue
		}
		_, port, ok := hostPort(l.address)
		c.require(ok, l.key, "%q is not host:port", l.address)
		if !ok || port == 0 {
			continue
		}
		other, double := taken[l.address]
		c.require(!double, l.key, "%q is already used by %s", l.address, other)
		taken[l.address] = l.key
	}
	c.require(!strings.ContainsAny(o.Advertise.Host, ":/ ") || net.ParseIP(o.Advertise.Host) != nil,
		"advertise-host", "%q is not a host name or address", o.Advertise.Host)
	for _, a := range []struct{ key, address string }{
		{"advertise-tcp-address", o.Advertise.TCP},
		{"advertise-http-address", o.Advertise.HTTP},
		{"advertise-https-address", o.Advertise.HTTPS},
		{"advertise-lookup-address", o.Advertise.Lookup},
		{"advertise-cluster-address", o.Advertise.Cluster},
	} {
		c.reachable(a.key, a.address, a.address != "")
	}
	_, err := ParseNetworks(o.Web.ConfigFrom)
	c.require(err == nil, "allow-config-from-cidr", "%v", err)
	for _, a := range o.Cluster.Join {
		c.reachable("join", a, true)
	}
	for _, a := range o.LookupdTCPAddresses {
		c.reachable("lookupd-tcp-address", a, true)
	}
	n := o.Cluster.BootstrapExpect
	c.require(n >= 1 && n <= maxBootstrapExpect, "bootstrap-expect", "%d is not between 1 and %d", n, maxBootstrapExpect)
	c.require(n <= 1 || len(o.Cluster.Join) > 0, "bootstrap-expect", "%d requires join", n)
	c.require(o.Listen.Cluster != "" || len(o.Cluster.Join) == 0, "join", "requires a cluster-address")
	c.raft(&o.Cluster)
	c.between("node-timeout", o.Cluster.NodeTimeout, minNodeTimeout)
	c.between("disk-timeout", o.Cluster.DiskTimeout, minDiskTimeout)
	t := &o.Cluster.TLS
	given := []string{t.CertFile, t.KeyFile, t.CAFile}
	c.require(!slices.Contains(given, "") || strings.Join(given, "") == "", "cluster-tls-cert", "cluster-tls-cert, cluster-tls-key and cluster-tls-ca must be set together")
}

// raft requires time-outs with which the metadata's Raft group can work.
func (c *checker) raft(o *Cluster) {
	c.between("election-timeout", o.ElectionTimeout, minElectionTimeout)
	if o.Raft.Heartbeat != 0 {
		c.between("raft-heartbeat-timeout", o.Raft.Heartbeat, minElectionTimeout)
		c.require(o.Raft.Heartbeat <= o.ElectionTimeout, "raft-heartbeat-timeout", "%v is longer than election-timeout, %v", o.Raft.Heartbeat, o.ElectionTimeout)
	}
	if o.Raft.Lease != 0 {
		c.between("raft-leader-lease", o.Raft.Lease, minLeaderLease)
		c.require(o.Raft.Lease <= o.HeartbeatTimeout(), "raft-leader-lease", "%v is longer than raft-heartbeat-timeout, %v", o.Raft.Lease, o.HeartbeatTimeout())
	}
	c.between("raft-commit-timeout", o.Raft.Commit, minCommitTimeout)
	c.between("raft-apply-timeout", o.Raft.Apply, minApplyTimeout)
}

// between requires a time-out between nodes that makes sense.
func (c *checker) between(key string, d, least time.Duration) {
	c.require(d >= least && d <= maxNodeTimeout, key, "%v is not between %v and %v", d, least, maxNodeTimeout)
}

// ParseNetworks reads prefixes like 10.0.0.0/8. A plain address is a network of one.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, bad := netip.ParseAddr(text)
			if bad != nil {
				return nil, fmt.Errorf("%q is not a network in CIDR notation such as 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// reachable requires an address that others can connect to.
func (c *checker) reachable(key, address string, given bool) {
	if given {
		host, port, ok := hostPort(address)
		c.require(ok && host != "" && port != 0, key, "%q is not host:port with a non-zero port", address)
	}
}

// IsUnix reports whether a listening address is the path of a unix socket.
func IsUnix(address string) bool {
	_, _, err := net.SplitHostPort(address)
	return err != nil && strings.Contains(address, "/")
}

func hostPort(address string) (host string, port int, ok bool) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, false
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return host, int(n), err == nil
}

func (c *checker) limits(l *Limits) {
	c.require(l.MaxMsgSize >= 1 && l.MaxMsgSize <= maxMessage, "max-msg-size", "%v is not between 1 and %v", l.MaxMsgSize, maxMessage)
	c.require(l.MaxBodySize >= 1 && l.MaxBodySize <= maxBody, "max-body-size", "%v is not between 1 and %v", l.MaxBodySize, maxBody)
	c.require(l.MaxUncommitted == 0 || l.MaxUncommitted >= l.MaxBodySize, "max-uncommitted-size", "%v is less than max-body-size, %v", l.MaxUncommitted, l.MaxBodySize)
	c.require(l.MemoryBudget == 0 || l.MemoryBudget >= 8*l.MaxBodySize, "memory-budget", "%v is less than eight times max-body-size, %v", l.MemoryBudget, l.MaxBodySize)
	for _, d := range []struct {
		key  string
		time time.Duration
	}{
		{"msg-timeout", l.MsgTimeout},
		{"max-msg-timeout", l.MaxMsgTimeout},
		{"max-heartbeat-interval", l.MaxHeartbeatInterval},
		{"max-output-buffer-timeout", l.MaxOutputBufferTimeout},
		{"min-output-buffer-timeout", l.MinOutputBufferTimeout},
	} {
		c.require(d.time >= shortestTimeout, d.key, "%v is less than %v", d.time, shortestTimeout)
	}
	c.require(l.MsgTimeout <= l.MaxMsgTimeout, "msg-timeout", "%v is more than max-msg-timeout, %v", l.MsgTimeout, l.MaxMsgTimeout)
	c.require(l.MinOutputBufferTimeout <= l.MaxOutputBufferTimeout, "min-output-buffer-timeout",
		"%v is more than max-output-buffer-timeout, %v", l.MinOutputBufferTimeout, l.MaxOutputBufferTimeout)
	c.require(l.MaxRdyCount >= 1, "max-rdy-count", "%d is less than 1", l.MaxRdyCount)
	c.require(l.MaxOutputBufferSize >= 64, "max-output-buffer-size", "%v is less than 64", l.MaxOutputBufferSize)
	c.require(l.MaxDeflateLevel >= 1 && l.MaxDeflateLevel <= maxDeflateLevel, "max-deflate-level", "%d is not between 1 and %d", l.MaxDeflateLevel, maxDeflateLevel)
	c.require(l.MaxChannelConsumers >= 0, "max-channel-consumers", "is negative")
	c.require(l.MemQueueSize >= 0, "mem-queue-size", "is negative")
	c.require(l.MaxConnections >= 0, "max-connections", "is negative")
	c.require(l.MaxOfAddress >= 0, "max-connections-per-address", "is negative")
	c.require(l.MaxPartitions >= 0, "max-partitions", "is negative")
	c.require(l.CreationBurst >= 0 && l.CreationBurst <= maxCreations, "creation-burst", "%d is not between 0 and %d", l.CreationBurst, maxCreations)
	c.require(l.CreationRate >= 1 && l.CreationRate <= maxCreations, "creation-rate", "%d is not between 1 and %d", l.CreationRate, maxCreations)
}

func (c *checker) tls(o *Options) {
	t := &o.TLS
	on := t.CertFile != "" && t.KeyFile != ""
	c.require(t.KeyFile != "" || t.CertFile == "", "tls-cert", "requires tls-key")
	c.require(t.CertFile != "" || t.KeyFile == "", "tls-key", "requires tls-cert")
	c.require(on || t.Required == "false", "tls-required", "requires tls-cert and tls-key")
	c.require(on || t.ClientAuthPolicy == "", "tls-client-auth-policy", "requires tls-cert and tls-key")
	c.require(on || o.Listen.HTTPS == "", "https-address", "requires tls-cert and tls-key")
	c.require(t.RootCAFile != "" || t.ClientAuthPolicy != "require-verify", "tls-client-auth-policy", "require-verify requires tls-root-ca-file")
}

func (c *checker) auth(a *Auth) {
	c.require(a.ConnectTimeout > 0, "http-client-connect-timeout", "must be greater than 0")
	c.require(a.RequestTimeout > 0, "http-client-request-timeout", "must be greater than 0")
	for _, address := range a.HTTPAddresses {
		_, _, ok := hostPort(address)
		c.require(ok || strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://"),
			"auth-http-address", "%q is neither host:port nor a URL", address)
	}
}

func (c *checker) statsd(s *Statsd) {
	c.reachable("statsd-address", s.Address, s.Address != "")
	c.require(s.Interval >= minStatsd, "statsd-interval", "%v is less than %v", s.Interval, minStatsd)
	c.require(s.PacketSize >= 1 && s.PacketSize <= maxUDP, "statsd-udp-packet-size", "%v is not between 1 and %v", s.PacketSize, maxUDP)
}

func (c *checker) latency(l *Latency) {
	const name = "e2e-processing-latency-percentile"
	c.require(len(l.Percentiles) <= maxPercentiles, name, "%d percentiles, limit is %d", len(l.Percentiles), maxPercentiles)
	for _, text := range l.Percentiles {
		_, ok := quantile(text)
		c.require(ok, name, "%q is not a number greater than 0 and at most 1", text)
	}
	c.require(l.Window >= minLatencyWindow, "e2e-processing-latency-window-time", "%v is less than %v", l.Window, minLatencyWindow)
}

func (c *checker) tracing(t *Tracing) {
	c.require(t.Bytes >= minTrace, "trace-size", "%v is less than %v", t.Bytes, minTrace)
	c.require(t.SlowPublish >= 0, "slow-publish", "must not be negative")
	c.require(t.SlowDelivery >= 0, "slow-delivery", "must not be negative")
	if t.OTLPEndpoint != "" {
		_, err := otlp.ParseEndpoint(t.OTLPEndpoint)
		c.require(err == nil, "otlp-endpoint", "%v", err)
	}
	c.require(t.OTLPHeaders == "" || t.OTLPEndpoint != "", "otlp-headers-file", "requires otlp-endpoint")
}

func (c *checker) topics(t *Topics) {
	c.require(t.Partitions >= 1 && t.Partitions <= seq.MaxPartitions, "default-partitions", "%d is not between 1 and %d", t.Partitions, seq.MaxPartitions)
	c.require(t.Sync.Every <= meta.MaxSyncEvery, "sync", "%d is more than %d", t.Sync.Every, meta.MaxSyncEvery)
	c.require(t.SyncInterval >= shortestTimeout && t.SyncInterval <= meta.MaxSyncInterval, "sync-interval",
		"%v is not between %v and %v", t.SyncInterval, shortestTimeout, meta.MaxSyncInterval)
	c.require(t.CarryAge >= 0, "carry-forward-age", "must not be negative")
	c.require(t.ScrubInterval == 0 || t.ScrubInterval >= minScrub, "scrub-interval", "%v is neither 0 nor at least %v", t.ScrubInterval, minScrub)
	c.require(t.SegmentSize >= minSegment && t.SegmentSize <= maxSegment, "segment-size", "%v is not between %v and %v", t.SegmentSize, minSegment, maxSegment)
}
