package model

// Config sets the bounds and the rules of a search.
type Config struct {
	Drop   [rules]bool      // rules that do not hold
	Ignore [invariants]bool // invariants that are not watched

	// SyncAlways: acknowledged records are durable, so a power cut loses only
	// records that were not acknowledged. Otherwise it may lose any part of a
	// log.
	SyncAlways bool
	// Positions: an ordered channel is modelled, too.
	Positions bool
	// Drops: a request with a snapshot or a change of positions may be dropped on
	// its way, and later ones of the session still arrive.
	Drops bool
	// Alone: there is one replica. Records that a power cut removes from the
	// only copy are lost, and the partition continues.
	Alone bool
	// Disks: a crash may take a node's whole disk, or the replica's directory.
	Disks bool
	// Damage is what may happen to the log of one replica.
	Damage Damage

	InSync    int // how many replicas are in sync in the beginning; 0: all
	Held      int // how many committed records everyone holds then
	Publishes int // how many records are ever published, with those, at most 7
	Log       int // length of a log, at most 3
	Epochs    int // how many elections there are, at most 15
	Versions  int // how many changes of the metadata, at most 8
	Crashes   int // kills and power cuts, of all nodes together
	Delayed   int // how many messages the network keeps at a time, at most 2
	MinISR    int // publishes are refused below it, and what was taken is not committed
	Leases    int // how many times of a lease pass; 0: leases are not modelled
}

// Dropping returns the configuration without some more rules.
func (c Config) Dropping(rs ...Rule) Config {
	for _, r := range rs {
		c.Drop[r] = true
	}
	return c
}

// Ignoring returns the configuration that watches some invariants less.
func (c Config) Ignoring(is ...Invariant) Config {
	for _, i := range is {
		c.Ignore[i] = true
	}
	return c
}

func (c *Config) on(r Rule) bool { return !c.Drop[r] }
