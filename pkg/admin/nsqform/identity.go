package nsqform

import "time"

// Identity is the description of the node in /info, /stats and /lookup.
type Identity struct {
	// Version is the version that clients see. Tools parse it, so it must be a
	// semantic version.
	Version          string
	Hostname         string
	BroadcastAddress string
	// Ports are those of the listeners; -1: a unix socket, or none.
	TCPPort, HTTPPort, HTTPSPort int
	Zone, Region                 string
	Started                      time.Time
	// Limits of IDENTIFY.
	MaxHeartbeatInterval   time.Duration
	MaxOutputBufferSize    int64
	MaxOutputBufferTimeout time.Duration
	MaxDeflateLevel        int
}
