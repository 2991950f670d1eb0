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

// IsBool tells whether the flag needs no value.
func (s Setting) IsBool() bool { _, ok := s.value.(boolValue); return ok }

// IsList tells whether a flag may be repeated.
func (s Setting) IsList() bool { _, ok := s.value.(listValue); return ok }

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
		{Key: "config", value: textValue{&o.Config}, Doc: "TOML file to read settings from. Only a flag or BROKERD_CONFIG can name it."},
		{Key: "node-id", value: textValue{&o.NodeID}, Doc: "Stable name of the node, 1 to 64 of a-z A-Z 0-9 _ . -; empty means the name that the data directory was made under, or else the host name."},
		{Key: "data-dir", Default: "./brokerd-data", value: textValue{&o.DataDir}, Doc: "Everything this node keeps. Locked against a second process."},
		{Key: "zone", value: textValue{&o.Zone}, Doc: "Failure domain, for the placement of replicas; also the NSQ topology zone."},
		{Key: "region", value: textValue{&o.Region}, Doc: "NSQ topology region, told to clients."},
	}
}

func (o *Options) addressSettings() []Setting {
	l, a := &o.Listen, &o.Advertise
	return []Setting{
		{Key: "tcp-address", Default: "127.0.0.1:4150", value: textValue{&l.TCP}, Doc: "NSQ protocol: host:port or the path of a unix socket."},
		{Key: "http-address", Default: "127.0.0.1:4151", value: textValue{&l.HTTP}, Doc: "nsqd's and nsqlookupd's HTTP API, /v1, /metrics, health: host:port or the path of a unix socket; empty is off."},
		{Key: "https-address", value: textValue{&l.HTTPS}, Doc: "The HTTP address's endpoints over TLS; empty is off."},
		{Key: "lookup-address", Default: "127.0.0.1:4161", value: textValue{&l.Lookup}, Doc: "nsqlookupd's HTTP API on its usual port; empty is off."},
		{Key: "cluster-address", Default: "127.0.0.1:4152", value: textValue{&l.Cluster}, Doc: "Node to node: metadata, replication, forwarding."},
		{Key: "http-allowed-hosts", value: listValue{&o.Web.AllowedHosts}, Doc: "Names that the HTTP addresses are asked under, beside addresses, names of one word, private domains, and what is advertised; .example.org is all names below it, * is every name. Pages of other names could change everything through a browser."},
		{Key: "allow-config-from-cidr", Default: "127.0.0.0/8,::1/128", value: listValue{&o.Web.ConfigFrom}, Doc: "Networks from which options may be changed by PUT /config."},
		{Key: "advertise-host", value: textValue{&a.Host}, Doc: "Host that other nodes and clients are told; empty follows from the address that is bound."},
		{Key: "advertise-tcp-address", value: textValue{&a.TCP}, Doc: "Overrides advertise-host and the port for tcp-address."},
		{Key: "advertise-http-address", value: textValue{&a.HTTP}, Doc: "Overrides advertise-host and the port for http-address."},
		{Key: "advertise-https-address", value: textValue{&a.HTTPS}, Doc: "Overrides advertise-host and the port for https-address."},
		{Key: "advertise-lookup-address", value: textValue{&a.Lookup}, Doc: "Overrides advertise-host and the port for lookup-address."},
		{Key: "advertise-cluster-address", value: textValue{&a.Cluster}, Doc: "Overrides advertise-host and the port for cluster-address."},
	}
}

func (o *Options) clusterSettings() []Setting {
	return []Setting{
		{Key: "join", value: listValue{&o.Cluster.Join}, Doc: "Cluster addresses of any nodes; this node's own may be among them."},
		{Key: "bootstrap-expect", Default: "1", value: numberValue{&o.Cluster.BootstrapExpect}, Doc: "Form a new cluster once this many nodes of join see each other. Ignored once there is one."},
		{Key: "election-timeout", Default: "500ms", value: durationValue{&o.Cluster.ElectionTimeout}, Doc: "How long the metadata's leader may be silent before another is elected, and how long that leader goes on without hearing of a majority. The same on all nodes. A node that runs late by itself, or whose disk is slow, waits up to eight times as long."},
		{Key: "node-timeout", Default: "1s", value: durationValue{&o.Cluster.NodeTimeout}, Doc: "How long a node may be silent before others lead its partitions. The same on all nodes."},
		{Key: "cluster-tls-cert", value: textValue{&o.Cluster.TLS.CertFile}, Doc: "PEM file of the certificate that this node shows other nodes; it must be for the node's id, for clients and servers. Read again when it changes."},
		{Key: "cluster-tls-key", value: textValue{&o.Cluster.TLS.KeyFile}, Doc: "PEM file of its private key. Read again when it changes."},
		{Key: "cluster-tls-ca", value: textValue{&o.Cluster.TLS.CAFile}, Doc: "PEM file of the authorities that other nodes' certificates must come from. With all three, nodes talk over mutual TLS only."},
		{Key: "cluster-secret-file", value: textValue{&o.Cluster.SecretFile}, Doc: "File with the secret that all nodes of the cluster share, at least 16 characters in a line; who does not have it is not talked to. Further lines are taken as well, so that it can be changed node by node. Read again on SIGHUP. It does not encrypt: for that there is TLS."},
		{Key: "insecure-cluster", Default: "false", value: boolValue{&o.Cluster.Insecure}, Doc: "Serve the cluster address beyond loopback although neither cluster-secret-file nor cluster TLS is given: whoever reaches it can do everything."},
		{Key: "lookupd-tcp-address", value: listValue{&o.LookupdTCPAddresses}, Reload: true, Doc: "nsqlookupds to announce this node's topics and channels to, besides serving them itself."},
	}
}

func (o *Options) messageSettings() []Setting {
	l := &o.Limits
	return []Setting{
		{Key: "max-msg-size", Default: "1MiB", value: sizeValue{&l.MaxMsgSize}, Doc: "Largest body of one message, up to 64 MiB. It bounds what this node's clients send, not what it takes from other nodes."},
		{Key: "max-body-size", Default: "5MiB", value: sizeValue{&l.MaxBodySize}, Doc: "Largest body of one batch of messages, up to 128 MiB. Likewise."},
		{Key: "max-uncommitted-size", Default: "0", value: sizeValue{&l.MaxUncommitted}, Doc: "Most bytes that the partitions led by this node may hold in memory uncommitted, all together; beyond, publishers wait or are refused as busy. 0 is an eighth of the memory that the process may use, between 64 MiB and 1 GiB."},
		{Key: "memory-budget", Default: "0", value: sizeValue{&l.MemoryBudget}, Doc: "Most bytes of memory that clients may make this node hold, all together: bodies and what decoding them takes, answers, messages that are being written to clients, compression, connections, publishes for other nodes, ephemeral topics, and what was read out of order and is kept as long as nobody else wants the memory; beyond, who asks for more waits for a second and is then refused as busy, and others go on. 0 is 60 % of the memory that the process may use: of GOMEMLIMIT, of its control group or of the machine."},
		{Key: "msg-timeout", Default: "60s", value: durationValue{&l.MsgTimeout}, Doc: "How long a message may stay unanswered before it is delivered again."},
		{Key: "max-msg-timeout", Default: "15m", value: durationValue{&l.MaxMsgTimeout}, Doc: "Longest message timeout that a client may ask for."},
		{Key: "max-req-timeout", Default: "1h", value: durationValue{&l.MaxReqTimeout}, Doc: "Longest delay of a requeued or deferred message."},
		{Key: "max-rdy-count", Default: "2500", value: numberValue{&l.MaxRdyCount}, Doc: "Most messages that one consumer may have in flight."},
		{Key: "max-heartbeat-interval", Default: "60s", value: durationValue{&l.MaxHeartbeatInterval}, Doc: "Longest time between heartbeats that a client may ask for."},
		{Key: "max-channel-consumers", Default: "0", value: numberValue{&l.MaxChannelConsumers}, Doc: "Most consumers of one channel; 0 is no limit."},
		{Key: "mem-queue-size", Default: "10000", value: numberValue{&l.MemQueueSize}, Doc: "Messages of a queue that /stats and statsd count as in memory, as nsqd's monitors expect: backend_depth is what waits beyond. Every message is on disk, whatever this says."},
		{Key: "max-connections", Default: "10000", value: numberValue{&l.MaxConnections}, Doc: "Most client connections at once; 0 is no limit. Clients of all kinds never get more than three quarters of the file descriptors of the process."},
		{Key: "max-connections-per-address", Default: "0", value: numberValue{&l.MaxOfAddress}, Doc: "Most client connections of one address at once, over TCP and HTTP; 0 is half of max-connections. Loopback is not counted."},
		{Key: "creation-burst", Default: "10000", value: numberValue{&l.CreationBurst}, Doc: "Most topics and channels that the clients of one address may create at once on this node, ephemeral ones too, by use or by request; all addresses together may create twice as many. Beyond, they are refused as busy and those that exist go on. Loopback counts as one address, a unix socket does not count; 0 is no limit."},
		{Key: "creation-rate", Default: "50", value: numberValue{&l.CreationRate}, Doc: "How many of the creation-burst come back every second."},
	}
}

func (o *Options) bufferSettings() []Setting {
	l := &o.Limits
	return []Setting{
		{Key: "max-output-buffer-size", Default: "64KiB", value: sizeValue{&l.MaxOutputBufferSize}, Doc: "Largest output buffer that a client may ask for."},
		{Key: "max-output-buffer-timeout", Default: "30s", value: durationValue{&l.MaxOutputBufferTimeout}, Doc: "Longest time that a client may ask its output to be held back."},
		{Key: "min-output-buffer-timeout", Default: "25ms", value: durationValue{&l.MinOutputBufferTimeout}, Doc: "Shortest time that a client may ask its output to be held back."},
		{Key: "output-buffer-timeout", Default: "250ms", value: durationValue{&l.OutputBufferTimeout}, Doc: "How long output may be held back for a client that asks for nothing."},
		{Key: "snappy", Default: "true", value: boolValue{&l.Snappy}, Doc: "Let clients compress with snappy."},
		{Key: "deflate", Default: "true", value: boolValue{&l.Deflate}, Doc: "Let clients compress with deflate."},
		{Key: "max-deflate-level", Default: "6", value: numberValue{&l.MaxDeflateLevel}, Doc: "Highest deflate level that a client may ask for, 1 to 9. A higher one costs CPU and memory a connection."},
	}
}

func (o *Options) tlsSettings() []Setting {
	t := &o.TLS
	return []Setting{
		{Key: "tls-cert", value: textValue{&t.CertFile}, Doc: "PEM file of the certificate chain. Read again when it changes."},
		{Key: "tls-key", value: textValue{&t.KeyFile}, Doc: "PEM file of the private key. Read again when it changes."},
		{Key: "tls-root-ca-file", value: textValue{&t.RootCAFile}, Doc: "PEM file of the authorities that client certificates must come from. Read again when it changes."},
		{Key: "tls-client-auth-policy", value: choiceValue{&t.ClientAuthPolicy, []string{"", "require", "require-verify"}}, Doc: "Demand a client certificate: any, or one from tls-root-ca-file."},
		{Key: "tls-required", Default: "false", value: choiceValue{&t.Required, []string{"false", "true", "tcp-https"}}, Doc: "Demand TLS of every client; tcp-https leaves plain HTTP open. A tls-client-auth-policy implies true."},
		{Key: "tls-min-version", Default: "tls1.2", value: choiceValue{&t.MinVersion, []string{"tls1.0", "tls1.1", "tls1.2", "tls1.3"}}, Doc: "Oldest TLS version that is spoken."},
		{Key: "plain-metrics", Default: "false", value: boolValue{&t.PlainMetrics}, Doc: "Serve /metrics in plain HTTP, too, where tls-required closes it. Health probes need no TLS in any case."},
	}
}

func (o *Options) authSettings() []Setting {
	a := &o.Auth
	return []Setting{
		{Key: "auth-http-address", value: listValue{&a.HTTPAddresses}, Doc: "Auth servers, host:port or whole URLs. Naming one makes AUTH obligatory for NSQ clients."},
		{Key: "auth-http-request-method", Default: "get", value: choiceValue{&a.RequestMethod, []string{"get", "post"}}, Doc: "How auth servers are asked."},
		{Key: "http-client-connect-timeout", Default: "2s", value: durationValue{&a.ConnectTimeout}, Doc: "Patience with connecting to an auth server or nsqlookupd."},
		{Key: "http-client-request-timeout", Default: "5s", value: durationValue{&a.RequestTimeout}, Doc: "Patience with the answer of an auth server or nsqlookupd."},
	}
}

func (o *Options) topicSettings() []Setting {
	t := &o.Topics
	return []Setting{
		{Key: "auto-create-topics", Default: "true", value: boolValue{&t.AutoCreate}, Doc: "Make a topic on its first publish or subscription, as NSQ clients expect."},
		{Key: "default-partitions", Default: "1", value: numberValue{&t.Partitions}, Doc: "Partitions of a topic that does not say."},
		{Key: "sync", Default: "always", value: syncValue{&t.Sync}, Doc: "When a message is on disk, for topics that do not say: before it is acknowledged, at each sync-interval, or after at most this many messages."},
		{Key: "sync-interval", Default: "200ms", value: durationValue{&t.SyncInterval}, Doc: "Longest time that an acknowledged message stays unsynced, where sync is not always."},
		{Key: "retention", Default: "0s", value: durationValue{&t.Retention}, Doc: "How long finished messages are kept, for topics that do not say; 0 lets them go at once."},
		{Key: "retention-bytes", Default: "0", value: sizeValue{&t.RetentionBytes}, Doc: "A partition is cut to this size, finished or not, for topics that do not say; 0 is no limit. It goes by files of a quarter of it, so a little more is kept for a while."},
		{Key: "segment-size", Default: "64MiB", value: sizeValue{&t.SegmentSize}, Doc: "Size of one log file. What is finished goes by whole files."},
		{Key: "disk-reserve", Default: "256MiB", value: sizeValue{&t.DiskReserve}, Doc: "Publishes are refused while less than this is free on the disk, or than a twentieth of a small disk, or would be with them, and replicas take no messages below half of it. Consuming goes on."},
		{Key: "scrub-interval", Default: "168h", value: durationValue{&t.ScrubInterval}, Doc: "Every stored byte is read from the disk once in this time, at low priority, to find damage while other replicas are intact; 0 is never."},
	}
}

func (o *Options) statsdSettings() []Setting {
	s := &o.Statsd
	return []Setting{
		{Key: "statsd-address", value: textValue{&s.Address}, Doc: "host:port of a statsd that statistics are pushed to over UDP, under nsqd's names; empty is off."},
		{Key: "statsd-prefix", Default: "nsq.%s", value: textValue{&s.Prefix}, Doc: "What the names begin with; %s becomes the advertised host and HTTP port, with _ for . and :."},
		{Key: "statsd-interval", Default: "1m", value: durationValue{&s.Interval}, Doc: "Time between two pushes."},
		{Key: "statsd-mem-stats", Default: "true", value: boolValue{&s.MemStats}, Doc: "Push figures of the process's memory, too."},
		{Key: "statsd-udp-packet-size", Default: "508", value: sizeValue{&s.PacketSize}, Doc: "Most bytes of one packet; a longer line goes alone."},
		{Key: "statsd-exclude-ephemeral", Default: "false", value: boolValue{&s.ExcludeEphemeral}, Doc: "Leave out ephemeral topics and channels."},
	}
}

func (o *Options) processSettings() []Setting {
	p := &o.Process
	return []Setting{
		{Key: "drain-timeout", Default: "120s", value: durationValue{&p.DrainTimeout}, Reload: true, Doc: "How long a stopping node may take to give its clients the answers that they are owed."},
		{Key: "watchdog", Default: "true", value: boolValue{&p.Watchdog}, Doc: "Answer systemd's watchdog while the node is alive. Only matters where the unit sets one."},
		{Key: "pprof", Default: "false", value: boolValue{&p.Pprof}, Doc: "Serve /debug/pprof on the HTTP address."},
		{Key: "log-level", Default: "info", value: choiceValue{&p.LogLevel, []string{"debug", "info", "warn", "error"}}, Reload: true, Doc: "The least severe lines that are logged."},
		{Key: "log-format", Default: "auto", value: choiceValue{&p.LogFormat, []string{"auto", "text", "json", "journal"}}, Doc: "auto is journal under systemd, text on a terminal and JSON elsewhere."},
	}
}
