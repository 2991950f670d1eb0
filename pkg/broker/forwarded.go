package broker

// ForwardStats counts what this node does for clients through other nodes.
type ForwardStats struct {
	Partitions int    // with publishes in forward queues
	Bytes      int64  // of those publishes
	Served     int    // subscriptions on this node of clients of other nodes
	Relays     uint64 // subscriptions begun at other nodes for clients of this node
}

// ForwardStats returns the current counts, and Relays since the start.
func (c *Calls) ForwardStats() ForwardStats {
	s := ForwardStats{}
	s.Partitions, s.Bytes = c.publishes.Waiting()
	s.Served, s.Relays = c.consumers.Relayed()
	return s
}
