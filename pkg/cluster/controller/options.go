package controller

import (
	"cmp"
	"time"
)

// Defaults of Options.
const (
	DefaultSessionTimeout = time.Second
	DefaultProbeEvery     = 200 * time.Millisecond
	DefaultConfirmAfter   = 50 * time.Millisecond
	DefaultFlapWindow     = time.Minute
	DefaultFlapHold       = time.Second
	DefaultMaxFlapHold    = 10 * time.Second
	defaultElections      = 512
	defaultMovesPerNode   = 8
	DefaultMoves          = 32
	DefaultBalanceAfter   = 10 * time.Second
	DefaultBalanceEvery   = time.Second
	defaultBalanceBatch   = 64
)

// lookAgain is how often the metadata is visited if neither it nor the assumed liveness of nodes
// has changed, because some actions become possible with time.
const lookAgain = time.Second

// lateProbe is the part of ProbeEvery by which a Tick may be late without counting as missed time,
// because timers are never exact.
const lateProbe = 4

// Options are the controller's limits. The zero value uses the defaults.
type Options struct {
	// SessionTimeout is how long a node may be silent before it counts as dead. A short timeout
	// mistakes busy nodes for dead ones; a long one prolongs the time without a leader.
	SessionTimeout time.Duration
	// ProbeEvery is the probe interval of each node.
	ProbeEvery time.Duration
	// ConfirmAfter is the delay after a refused connection before the connection is tried again
	// and the node may count as dead.
	ConfirmAfter time.Duration
	// FlapWindow is how long a death counts against a node. With two or more deaths, the node must
	// be heard from without a gap for FlapHold, doubled with each further death up to MaxFlapHold,
	// before it counts as up.
	FlapWindow, FlapHold, MaxFlapHold time.Duration
	// Elections is the maximum number of elections in one command, up to meta.MaxElections.
	Elections int
	// MovesPerNode and Moves limit the reassignments in progress, for each sending or receiving
	// node and for the cluster. A reassignment costs disk and network bandwidth on both ends.
	MovesPerNode, Moves int
	// BalanceAfter is how long a preferred leader must have been up, and the cluster without an
	// election, before leaderships are returned. Then BalanceBatch leaderships are returned at
	// once, and as many again after each BalanceEvery.
	BalanceAfter, BalanceEvery time.Duration
	BalanceBatch               int
}

// WithDefaults returns the options with the defaults for unset fields.
func (o Options) WithDefaults() Options {
	return Options{
		SessionTimeout: cmp.Or(o.SessionTimeout, DefaultSessionTimeout),
		ProbeEvery:     cmp.Or(o.ProbeEvery, DefaultProbeEvery),
		ConfirmAfter:   cmp.Or(o.ConfirmAfter, DefaultConfirmAfter),
		FlapWindow:     cmp.Or(o.FlapWindow, DefaultFlapWindow),
		FlapHold:       cmp.Or(o.FlapHold, DefaultFlapHold),
		MaxFlapHold:    cmp.Or(o.MaxFlapHold, DefaultMaxFlapHold),
		Elections:      cmp.Or(o.Elections, defaultElections),
		MovesPerNode:   cmp.Or(o.MovesPerNode, defaultMovesPerNode),
		Moves:          cmp.Or(o.Moves, DefaultMoves),
		BalanceAfter:   cmp.Or(o.BalanceAfter, DefaultBalanceAfter),
		BalanceEvery:   cmp.Or(o.BalanceEvery, DefaultBalanceEvery),
		BalanceBatch:   cmp.Or(o.BalanceBatch, defaultBalanceBatch),
	}
}
