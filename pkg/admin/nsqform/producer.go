package nsqform

import (
	"net"
	"strconv"
)

// Producer is a node as /lookup and /nodes name it.
type Producer struct {
	RemoteAddress    string `json:"remote_address"`
	Hostname         string `json:"hostname"`
	BroadcastAddress string `json:"broadcast_address"`
	TCPPort          int    `json:"tcp_port"`
	HTTPPort         int    `json:"http_port"`
	Version          string `json:"version"`
	TopologyZone     string `json:"topology_zone"`
	TopologyRegion   string `json:"topology_region"`
}

// HTTP returns the node's HTTP address, by which a tombstone names it.
func (p *Producer) HTTP() string {
	return net.JoinHostPort(p.BroadcastAddress, strconv.Itoa(p.HTTPPort))
}
