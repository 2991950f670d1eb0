package broker

// ForwardStats counts what this node does for clients through other nodes.
type ForwardStats struct {
	Partitions int    // to which publishes are on their way, or wait for a leader
	Bytes      int64  // of those publishes
	Served     int    // subscriptions here of clients that are connected to other nodes
	Relays     uint64 // subscriptions at other nodes that were begun for clients here
}

// ForwardStats returns the counts of now, and Relays since the start.
func (c *Calls) ForwardStats() ForwardStats {
	s := ForwardStats{}
	s.Partitions, s.Bytes = c.publishes.Waiting()
	s.Served, s.Relays = c.consumers.Relayed()
	return s
}
