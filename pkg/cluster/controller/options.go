package controller

import (
	"cmp"
	"time"
)

// Defaults of Options.
const (
	DefaultSessionTimeout = time.Second
	defaultElections      = 512
	defaultMovesPerNode   = 8
	DefaultMoves          = 32
	defaultBalanceBatch   = 64
)

// probeEvery is the probe interval of each node.
const probeEvery = 200 * time.Millisecond

// confirmAfter is the delay after a refused connection before the connection is tried again and the
// node may count as dead.
const confirmAfter = 50 * time.Millisecond

// flapWindow is how long a death counts against a node. With two or more deaths, the node must be heard
// from without a gap for flapHold, doubled with each further death up to maxFlapHold, before it counts
// as up.
const (
	flapWindow  = time.Minute
	flapHold    = time.Second
	maxFlapHold = 10 * time.Second
)

// balanceAfter is how long a preferred leader must have been up, and the cluster without an election,
// before leaderships are returned: Options.BalanceBatch at once, and as many again after each
// balanceEvery.
const (
	balanceAfter = 10 * time.Second
	balanceEvery = time.Second
)

// maxSkew is how far the clock of a node may differ from those of most nodes while it leads partitions.
const maxSkew = time.Minute

// ephemeralAfter is how long the cluster must have been without a verdict and an election before
// ephemeral topics without a leader are deleted: a node that was only paused still has their messages.
const ephemeralAfter = 10 * time.Second

// lookAgain is how often the metadata is visited if neither it nor the assumed liveness of nodes
// has changed, because some actions become possible with time.
const lookAgain = time.Second

// lateProbe is the part of probeEvery by which a Tick may be late without counting as missed time,
// because timers are never exact.
const lateProbe = 4

// Options are the controller's limits. The zero value uses the defaults.
type Options struct {
	// SessionTimeout is how long a node may be silent before it counts as dead. A short timeout
	// mistakes busy nodes for dead ones; a long one prolongs the time without a leader.
	SessionTimeout time.Duration
	// Elections is the maximum number of elections in one command, up to meta.MaxElections.
	Elections int
	// MovesPerNode and Moves limit the reassignments in progress, for each sending or receiving
	// node and for the cluster. A reassignment costs disk and network bandwidth on both ends.
	MovesPerNode, Moves int
	// BalanceBatch is how many leaderships are returned to preferred leaders at once.
	BalanceBatch int
}

// WithDefaults returns the options with the defaults for unset fields.
func (o Options) WithDefaults() Options {
	return Options{
		SessionTimeout: cmp.Or(o.SessionTimeout, DefaultSessionTimeout),
		Elections:      cmp.Or(o.Elections, defaultElections),
		MovesPerNode:   cmp.Or(o.MovesPerNode, defaultMovesPerNode),
		Moves:          cmp.Or(o.Moves, DefaultMoves),
		BalanceBatch:   cmp.Or(o.BalanceBatch, defaultBalanceBatch),
	}
}
