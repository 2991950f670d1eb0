package config

import "strings"

// Setting describes one setting. The zero Setting is of no use; Settings
// returns the real ones.
type Setting struct {
	Key     string // as a flag: lower case, words joined by dashes
	Group   string // heading in the reference
	Default string // as text; parsed like any other value
	Doc     string // one or two sentences
	Reload  bool   // SIGHUP applies a change; otherwise it needs a restart

	value value
}

// Env returns the environment variable of the setting.
func (s Setting) Env() string { return envPrefix + strings.ToUpper(s.FileKey()) }

// FileKey returns the setting's key in a TOML file.
func (s Setting) FileKey() string { return strings.ReplaceAll(s.Key, "-", "_") }

// Type returns what values look like: text, number, bool, size, duration,
// list, or the words to choose from.
func (s Setting) Type() string { return s.value.typeName() }

// IsBool reports whether the flag needs no value.
func (s Setting) IsBool() bool { _, ok := s.value.(typed[bool]); return ok }

// IsList reports whether a flag may be repeated.
func (s Setting) IsList() bool { _, ok := s.value.(typed[[]string]); return ok }

// JSON returns the setting's value as JSON shows it: durations in nanoseconds,
// sizes in bytes.
func (s Setting) JSON() any { return s.value.native() }

// Value returns the setting's value in the Options that it was taken from.
func (s Setting) Value() string { return s.value.String() }

// ClusterGroup is the Group of the settings by which a node finds others.
const ClusterGroup = "Cluster and discovery"

// Settings returns the table with its values bound to o: reading one reads o.
func (o *Options) Settings() []Setting {
	groups := []struct {
		name     string
		settings []Setting
	}{
		{"Node", o.nodeSettings()},
		{"Addresses", o.addressSettings()},
		{ClusterGroup, o.clusterSettings()},
		{"Messages and connections", o.messageSettings()},
		{"Buffers and compression", o.bufferSettings()},
		{"TLS", o.tlsSettings()},
		{"Authorisation", o.authSettings()},
		{"Topics and disk", o.topicSettings()},
		{"Statistics", o.statsdSettings()},
		{"Tracing", o.tracingSettings()},
		{"Process and logs", o.processSettings()},
	}
	var all []Setting
	for _, g := range groups {
		for _, s := range g.settings {
			s.Group = g.name
			all = append(all, s)
		}
	}
	return all
}

func (o *Options) nodeSettings() []Setting {
	return []Setting{
		{Key: "config", value: textValue(&o.Config), Doc: "TOML configuration file. Can be set only by flag or by BROKERD_CONFIG."},
		{Key: "node-id", value: textValue(&o.NodeID), Doc: "Stable name of the node, 1 to 64 characters of a-z A-Z 0-9 _ . -; if empty, the name stored in the data directory, or the host name for a new one."},
		{Key: "data-dir", Default: "./brokerd-data", value: textValue(&o.DataDir), Doc: "Directory for all data of this node. Locked against use by a second process."},
		{Key: "zone", value: textValue(&o.Zone), Doc: "Failure domain for replica placement; also the NSQ topology zone."},
		{Key: "region", value: textValue(&o.Region), Doc: "NSQ topology region, announced to clients."},
	}
}

func (o *Options) addressSettings() []Setting {
	l, a := &o.Listen, &o.Advertise
	return []Setting{
		{Key: "tcp-address", Default: "127.0.0.1:4150", value: textValue(&l.TCP), Doc: "Listen address of the NSQ protocol: host:port or a unix socket path."},
		{Key: "http-address", Default: "127.0.0.1:4151", value: textValue(&l.HTTP), Doc: "Listen address of the nsqd and nsqlookupd HTTP API, /v1, /metrics and health probes: host:port or a unix socket path; empty disables it."},
		{Key: "https-address", value: textValue(&l.HTTPS), Doc: "Listen address of the same HTTP endpoints over TLS; empty disables it."},
		{Key: "lookup-address", Default: "127.0.0.1:4161", value: textValue(&l.Lookup), Doc: "Listen address of the nsqlookupd HTTP API on its usual port; empty disables it."},
		{Key: "cluster-address", Default: "127.0.0.1:4152", value: textValue(&l.Cluster), Doc: "Listen address for other nodes: metadata, replication, forwarding."},
		{Key: "http-allowed-hosts", value: listValue(&o.Web.AllowedHosts), Doc: "Host names accepted in HTTP requests, in addition to IP addresses, single-label names, private domains and advertised names; .example.org matches all its subdomains, * matches every name. Guards against DNS rebinding through a browser."},
		{Key: "allow-config-from-cidr", Default: "127.0.0.0/8,::1/128", value: listValue(&o.Web.ConfigFrom), Doc: "Networks allowed to change options with PUT /config and, while access control is off, log levels, and to profile where pprof is on."},
		{Key: "advertise-host", value: textValue(&a.Host), Doc: "Host name advertised to other nodes and clients; if empty, derived from the bound address."},
		{Key: "advertise-tcp-address", value: textValue(&a.TCP), Doc: "Address advertised for tcp-address; overrides advertise-host and port."},
		{Key: "advertise-http-address", value: textValue(&a.HTTP), Doc: "Address advertised for http-address; overrides advertise-host and port."},
		{Key: "advertise-https-address", value: textValue(&a.HTTPS), Doc: "Address advertised for https-address; overrides advertise-host and port."},
		{Key: "advertise-lookup-address", value: textValue(&a.Lookup), Doc: "Address advertised for lookup-address; overrides advertise-host and port."},
		{Key: "advertise-cluster-address", value: textValue(&a.Cluster), Doc: "Address advertised for cluster-address; overrides advertise-host and port."},
	}
}

func (o *Options) clusterSettings() []Setting {
	return []Setting{
		{Key: "join", value: listValue(&o.Cluster.Join), Doc: "Cluster addresses of nodes to join; may include this node's own."},
		{Key: "bootstrap-expect", Default: "1", value: numberValue(&o.Cluster.BootstrapExpect), Doc: "Form a new cluster once this many nodes listed in join see each other. Ignored once the cluster exists."},
		{Key: "election-timeout", Default: "500ms", value: durationValue(&o.Cluster.ElectionTimeout), Doc: "Raft election timeout of the metadata: how long a candidate waits for votes before it asks again; unless set separately, also raft-heartbeat-timeout and raft-leader-lease. Must be the same on all nodes. A node that is overloaded, or whose disk is slow, waits up to eight times as long."},
		{Key: "raft-heartbeat-timeout", Default: "0", value: durationValue(&o.Cluster.Raft.Heartbeat), Doc: "How long the metadata leader may be silent before a node starts an election; five heartbeats are sent in this time. At most election-timeout; 0 means election-timeout. Must be the same on all nodes."},
		{Key: "raft-leader-lease", Default: "0", value: durationValue(&o.Cluster.Raft.Lease), Doc: "How long the metadata leader keeps the role without contact to a majority. At most raft-heartbeat-timeout; 0 means raft-heartbeat-timeout."},
		{Key: "raft-commit-timeout", Default: "500ms", value: durationValue(&o.Cluster.Raft.Commit), Doc: "How often an idle metadata leader sends each node its commit index. Nodes usually learn of a change within milliseconds; this bounds how late, up to twice this time, if that message is lost."},
		{Key: "raft-apply-timeout", Default: "5s", value: durationValue(&o.Cluster.Raft.Apply), Doc: "How long a metadata change waits for a leader, or to be accepted by a busy one, before it is refused."},
		{Key: "node-timeout", Default: "1s", value: durationValue(&o.Cluster.NodeTimeout), Doc: "How long a node may be silent before other nodes take over its partitions. Must be the same on all nodes."},
		{Key: "disk-timeout", Default: "2s", value: durationValue(&o.Cluster.DiskTimeout), Doc: "How long a write or sync of this node's disk may take before the node counts as silent: after a further node-timeout, other nodes take over its partitions. If the disk does not respond for three more seconds, brokerd exits."},
		{Key: "cluster-tls-cert", value: textValue(&o.Cluster.TLS.CertFile), Doc: "PEM file of this node's certificate for cluster TLS; it must name the node id and allow client and server authentication. Reloaded when it changes."},
		{Key: "cluster-tls-key", value: textValue(&o.Cluster.TLS.KeyFile), Doc: "PEM file of the private key of cluster-tls-cert. Reloaded when it changes."},
		{Key: "cluster-tls-ca", value: textValue(&o.Cluster.TLS.CAFile), Doc: "PEM file of the certificate authorities trusted for other nodes' certificates. With all three options set, nodes communicate over mutual TLS only."},
		{Key: "cluster-secret-file", value: textValue(&o.Cluster.SecretFile), Doc: "File with the secret shared by all nodes of the cluster, one line of at least 16 characters; nodes without it are refused. Further lines are accepted as well, for rotation node by node. Reloaded on SIGHUP. It does not encrypt traffic: use cluster TLS for that. If it is not set, the node uses the file cluster-secret in its data directory, if brokerctl access enable --new-cluster-secret has created it."},
		{Key: "join-token-file", value: textValue(&o.Cluster.JoinTokenFile), Doc: "File with the join token of this node, as brokerctl node join-token create writes it. It is read only when a node without data joins a cluster, and can be deleted afterwards."},
		{Key: "insecure-cluster", Default: "false", value: boolValue(&o.Cluster.Insecure), Doc: "Allow a non-loopback cluster-address without cluster-secret-file or cluster TLS: anyone who can reach it has full control."},
		{Key: "lookupd-tcp-address", value: listValue(&o.LookupdTCPAddresses), Reload: true, Doc: "nsqlookupd TCP addresses to register this node's topics and channels with, in addition to the built-in lookup."},
	}
}

func (o *Options) messageSettings() []Setting {
	l := &o.Limits
	return []Setting{
		{Key: "max-msg-size", Default: "1MiB", value: sizeValue(&l.MaxMsgSize), Doc: "Maximum body size of one message, up to 64 MiB. Applies to clients of this node, not to data from other nodes."},
		{Key: "max-body-size", Default: "5MiB", value: sizeValue(&l.MaxBodySize), Doc: "Maximum body size of one batch of messages, up to 128 MiB. Applies to clients of this node, not to data from other nodes."},
		{Key: "max-uncommitted-size", Default: "0", value: sizeValue(&l.MaxUncommitted), Doc: "Maximum uncommitted bytes in memory over all partitions led by this node; above it, publishers wait or are refused as busy. 0 means one eighth of the memory available to the process, between 64 MiB and 1 GiB."},
		{Key: "memory-budget", Default: "0", value: sizeValue(&l.MemoryBudget), Doc: "Memory budget for all clients together: message bodies and their decoding, responses, messages being written to clients, compression, connections, queued publishes for other nodes, ephemeral topics, and the cache for out-of-order reads, which yields to the others. A request that exceeds the budget waits for one second and is then refused as busy; other requests continue. 0 means 60 % of the memory available to the process, GOMEMLIMIT, its cgroup limit or the machine's memory, and at most 384 MiB unless GOMEMLIMIT is set and the least of them. Open partitions count, 16 KiB each."},
		{Key: "msg-timeout", Default: "60s", value: durationValue(&l.MsgTimeout), Doc: "Message timeout: how long a message may stay in flight before it is redelivered."},
		{Key: "max-msg-timeout", Default: "15m", value: durationValue(&l.MaxMsgTimeout), Doc: "Maximum message timeout a client may request."},
		{Key: "max-req-timeout", Default: "1h", value: durationValue(&l.MaxReqTimeout), Doc: "Maximum delay of a requeued or deferred message."},
		{Key: "requeue-in-memory", Default: "1m", value: durationValue(&l.RequeueInMemory), Doc: "Longest delay of a requeued message (REQ) that is kept in memory and in its channel's position. With a longer one, the message is appended to the log again, for its channel alone, and keeps no old segment. 0 keeps all in memory. Ordered and ephemeral channels always do."},
		{Key: "max-rdy-count", Default: "2500", value: numberValue(&l.MaxRdyCount), Doc: "Maximum RDY count: messages in flight to one consumer."},
		{Key: "max-heartbeat-interval", Default: "60s", value: durationValue(&l.MaxHeartbeatInterval), Doc: "Maximum heartbeat interval a client may request."},
		{Key: "max-channel-consumers", Default: "0", value: numberValue(&l.MaxChannelConsumers), Doc: "Maximum consumers of one channel; 0 means no limit."},
		{Key: "mem-queue-size", Default: "10000", value: numberValue(&l.MemQueueSize), Doc: "Messages of a queue that /stats and statsd report as in memory, for monitors written for nsqd; backend_depth is the rest. Reporting only: every message is on disk."},
		{Key: "max-connections", Default: "10000", value: numberValue(&l.MaxConnections), Doc: "Maximum concurrent client connections; 0 means no limit. Clients never use more than three quarters of the process's file descriptors, of which an eighth is for HTTP alone, so that probes are answered."},
		{Key: "max-connections-per-address", Default: "0", value: numberValue(&l.MaxOfAddress), Doc: "Maximum concurrent client connections from one address, over TCP and HTTP; 0 means half of max-connections. Loopback is exempt."},
		{Key: "max-partitions", Default: "0", value: numberValue(&l.MaxPartitions), Doc: "Partitions, replicas included, up to which new ones are placed on this node; further creations are refused with LIMIT_REACHED. Existing partitions, and moves of replicas to the node, are not affected. 0 means as many as half of the memory budget holds, 16 KiB each, and at least 1024."},
		{Key: "creation-burst", Default: "10000", value: numberValue(&l.CreationBurst), Doc: "Topics, each counted as its partitions, and channels, including ephemeral ones, that clients of one address may create in a burst on this node, explicitly or by first use; all addresses together may create twice as many. Further creations are refused as busy; existing topics and channels are not affected. Loopback counts as one address, unix sockets are exempt; 0 means no limit."},
		{Key: "creation-rate", Default: "50", value: numberValue(&l.CreationRate), Doc: "Refill rate of creation-burst, per second."},
	}
}

func (o *Options) bufferSettings() []Setting {
	l := &o.Limits
	return []Setting{
		{Key: "max-output-buffer-size", Default: "64KiB", value: sizeValue(&l.MaxOutputBufferSize), Doc: "Maximum output buffer size a client may request."},
		{Key: "max-output-buffer-timeout", Default: "30s", value: durationValue(&l.MaxOutputBufferTimeout), Doc: "Maximum output buffer timeout a client may request."},
		{Key: "min-output-buffer-timeout", Default: "25ms", value: durationValue(&l.MinOutputBufferTimeout), Doc: "Minimum output buffer timeout a client may request."},
		{Key: "output-buffer-timeout", Default: "250ms", value: durationValue(&l.OutputBufferTimeout), Doc: "Default output buffer timeout."},
		{Key: "snappy", Default: "true", value: boolValue(&l.Snappy), Doc: "Allow snappy compression."},
		{Key: "deflate", Default: "true", value: boolValue(&l.Deflate), Doc: "Allow deflate compression."},
		{Key: "allow-ext-compatible", Default: "false", value: boolValue(&l.AllowExtCompatible), Doc: "Accept messages with a header on topics without `ext` when all its keys are reserved (##), and drop the header. Otherwise they get E_EXT_NOT_SUPPORT."},
		{Key: "max-deflate-level", Default: "6", value: numberValue(&l.MaxDeflateLevel), Doc: "Maximum deflate level a client may request, 1 to 9. Higher levels cost more CPU and memory per connection."},
	}
}

func (o *Options) tlsSettings() []Setting {
	t := &o.TLS
	return []Setting{
		{Key: "tls-cert", value: textValue(&t.CertFile), Doc: "PEM file of the certificate chain. Reloaded when it changes."},
		{Key: "tls-key", value: textValue(&t.KeyFile), Doc: "PEM file of the private key. Reloaded when it changes."},
		{Key: "tls-root-ca-file", value: textValue(&t.RootCAFile), Doc: "PEM file of the certificate authorities trusted for client certificates. Reloaded when it changes."},
		{Key: "tls-client-auth-policy", value: choiceValue(&t.ClientAuthPolicy, "", "require", "require-verify"), Doc: "Require a client certificate: any, or one issued by tls-root-ca-file."},
		{Key: "tls-required", Default: "false", value: choiceValue(&t.Required, "false", "true", "tcp-https"), Doc: "Require TLS from every client; tcp-https still allows plain HTTP. A tls-client-auth-policy implies true."},
		{Key: "tls-min-version", Default: "tls1.2", value: choiceValue(&t.MinVersion, "tls1.0", "tls1.1", "tls1.2", "tls1.3"), Doc: "Minimum TLS version."},
		{Key: "plain-metrics", Default: "false", value: boolValue(&t.PlainMetrics), Doc: "Serve /metrics over plain HTTP even with tls-required. Health probes never require TLS."},
	}
}

func (o *Options) authSettings() []Setting {
	a, c := &o.Auth, &o.Access
	return []Setting{
		{Key: "anonymous-lookup", Default: "true", value: boolValue(&c.AnonymousLookup), Doc: "Answer GET /lookup and GET /nodes without an identity while access control is on: most NSQ clients cannot send one there. They tell names of topics and channels, and the addresses of nodes. If false, they require a token, a password or a certificate of any user."},
		{Key: "anonymous-metrics", Default: "false", value: boolValue(&c.AnonymousMetrics), Doc: "Answer GET /metrics without an identity while access control is on. If false, it requires the right read."},
		{Key: "access-recovery", Default: "false", value: boolValue(&c.Recovery), Doc: "Write the file first-administrator to data-dir although there is an administrator, for a cluster whose administrators have lost their credentials. The secret in it allows changes of users, tokens and rules until the node restarts without this setting."},
		{Key: "audit-file", value: textValue(&c.AuditFile), Doc: "File to which the node appends every act of the cluster's audit log, one line of JSON each, as in GET /v1/audit: the audit log itself keeps 5,000. At 16 MiB it is renamed to PATH.1, and older ones up to PATH.8; it may also be renamed or removed from outside. Acts from before the file existed are included as far as the audit log has them."},
		{Key: "auth-http-address", value: listValue(&a.HTTPAddresses), Doc: "Auth servers, as host:port or URL. If set, NSQ clients must authenticate with AUTH."},
		{Key: "auth-http-request-method", Default: "get", value: choiceValue(&a.RequestMethod, "get", "post"), Doc: "HTTP method for requests to auth servers."},
		{Key: "http-client-connect-timeout", Default: "2s", value: durationValue(&a.ConnectTimeout), Doc: "Connect timeout for auth servers and nsqlookupd."},
		{Key: "http-client-request-timeout", Default: "5s", value: durationValue(&a.RequestTimeout), Doc: "Response timeout for auth servers and nsqlookupd."},
	}
}

func (o *Options) topicSettings() []Setting {
	t := &o.Topics
	return []Setting{
		{Key: "auto-create-topics", Default: "true", value: boolValue(&t.AutoCreate), Doc: "Create a topic on its first publish or subscription, as NSQ clients expect."},
		{Key: "default-partitions", Default: "1", value: numberValue(&t.Partitions), Doc: "Default number of partitions of a topic."},
		{Key: "sync", Default: "always", value: syncValue(&t.Sync), Doc: "Default sync policy of topics: always syncs before acknowledging, interval syncs every sync-interval, a number syncs after at most that many messages."},
		{Key: "sync-interval", Default: "200ms", value: durationValue(&t.SyncInterval), Doc: "Maximum time an acknowledged message stays unsynced, unless sync is always."},
		{Key: "retention", Default: "0s", value: durationValue(&t.Retention), Doc: "Default retention time of finished messages; 0 deletes them at once."},
		{Key: "retention-bytes", Default: "0", value: sizeValue(&t.RetentionBytes), Doc: "Default retention size per partition: older messages are deleted, finished or not; 0 means no limit. Data is deleted in files of a quarter of this size, of at least 64 KiB and one batch: a partition may exceed it by one or two of them for a moment."},
		{Key: "segment-size", Default: "64MiB", value: sizeValue(&t.SegmentSize), Doc: "Size of a log segment file. Finished messages are deleted by whole segments."},
		{Key: "carry-forward-age", Default: "24h", value: durationValue(&t.CarryAge), Doc: "Age of log segments that a few unfinished messages of a channel (in flight, deferred or requeued) may keep from being deleted. Then these messages are appended again, for their channel alone; at most 1,024, and one in 16 of those stored before. 0 disables it."},
		{Key: "carry-forward-size", Default: "1GiB", value: sizeValue(&t.CarryBytes), Doc: "The same limit by size: distance of such segments from the end of a partition's log. 0 disables it."},
		{Key: "disk-reserve", Default: "256MiB", value: sizeValue(&t.DiskReserve), Doc: "Free disk space (at most a twentieth of the disk) below which publishes are refused, or which they may not use up; replicas stop accepting messages at half of it. Consuming continues."},
		{Key: "catch-up-rate", Default: "0", value: sizeValue(&t.CatchUpRate), Doc: "Maximum rate, in bytes per second, at which this node sends data to replicas that are not in sync, all together, such as 50MiB. Below it the rate adapts: it falls while publishes take more than twice as long as without this traffic, but never below 4 MiB. 0 means no maximum."},
		{Key: "scrub-interval", Default: "168h", value: durationValue(&t.ScrubInterval), Doc: "Scrub interval: every stored byte is read from disk once in this time, at low priority, to find corruption while other replicas are intact; 0 disables scrubbing."},
	}
}

func (o *Options) statsdSettings() []Setting {
	s := &o.Statsd
	return []Setting{
		{Key: "statsd-address", value: textValue(&s.Address), Doc: "host:port of a statsd server to push statistics to over UDP, under nsqd's names; empty disables it."},
		{Key: "statsd-prefix", Default: "nsq.%s", value: textValue(&s.Prefix), Doc: "Prefix of statistic names; %s is replaced by the advertised host and HTTP port, with _ for . and :."},
		{Key: "statsd-interval", Default: "1m", value: durationValue(&s.Interval), Doc: "Push interval."},
		{Key: "statsd-mem-stats", Default: "true", value: boolValue(&s.MemStats), Doc: "Also push memory statistics of the process."},
		{Key: "statsd-udp-packet-size", Default: "508", value: sizeValue(&s.PacketSize), Doc: "Maximum packet size in bytes; a longer line is sent in a packet of its own."},
		{Key: "statsd-exclude-ephemeral", Default: "false", value: boolValue(&s.ExcludeEphemeral), Doc: "Exclude ephemeral topics and channels."},
		{Key: "e2e-processing-latency-percentile", value: listValue(&o.Latency.Percentiles), Doc: "Percentiles, greater than 0 and at most 1, of the time from publish to FIN that /stats and statsd report for each topic and channel; empty disables it. Memory: up to 10 KB for each channel of a partition."},
		{Key: "e2e-processing-latency-window-time", Default: "10m", value: durationValue(&o.Latency.Window), Doc: "Time that these percentiles cover."},
	}
}

func (o *Options) tracingSettings() []Setting {
	t := &o.Tracing
	return []Setting{
		{Key: "trace-size", Default: "64MiB", value: sizeValue(&t.Bytes), Doc: "Maximum size on disk of this node's trace events (brokerctl topic alter --trace); the oldest events are deleted."},
		{Key: "slow-publish", Default: "0s", value: durationValue(&t.SlowPublish), Doc: "Log publishes that take at least this long until they are committed, at most one a second; 0 disables it."},
		{Key: "slow-delivery", Default: "0s", value: durationValue(&t.SlowDelivery), Doc: "Log messages that are first delivered at least this long after their publish, at most one a second; 0 disables it. Deferred messages do not count."},
		{Key: "otlp-endpoint", value: textValue(&t.OTLPEndpoint), Doc: "URL of an OpenTelemetry collector that takes OTLP over HTTP, such as http://localhost:4318: what happens to traced messages (brokerctl topic alter --trace) is sent to it as spans. Empty disables it."},
		{Key: "otlp-headers-file", value: textValue(&t.OTLPHeaders), Doc: "File of HTTP headers for the collector, one \"Name: value\" a line, such as credentials. It is read when the node starts."},
	}
}

func (o *Options) processSettings() []Setting {
	p := &o.Process
	return []Setting{
		{Key: "drain-timeout", Default: "120s", value: durationValue(&p.DrainTimeout), Reload: true, Doc: "Shutdown timeout: how long a stopping node waits for pending client requests."},
		{Key: "metrics-max-objects", Default: "2000", value: numberValue(&p.MetricsObjects), Doc: "Topics and channels with their own series in /metrics; the others are aggregated under the name _other."},
		{Key: "watchdog", Default: "true", value: boolValue(&p.Watchdog), Doc: "Notify systemd's watchdog while the node is alive. Only effective if the unit sets WatchdogSec."},
		{Key: "pprof", Default: "false", value: boolValue(&p.Pprof), Doc: "Serve /debug/pprof on the HTTP address, to clients of allow-config-from-cidr."},
		{Key: "log-level", Default: "info", value: choiceValue(&p.LogLevel, "debug", "info", "warn", "error"), Reload: true, Doc: "Minimum severity of logged lines."},
		{Key: "log-format", Default: "auto", value: choiceValue(&p.LogFormat, "auto", "text", "json", "journal"), Doc: "Log format; auto means journal under systemd, text on a terminal and JSON elsewhere."},
	}
}
