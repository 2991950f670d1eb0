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

// lookAgain is how often the metadata is gone through though neither it nor what
// is believed of the nodes has changed: time alone may allow something now.
const lookAgain = time.Second

// lateProbe is the part of ProbeEvery by which a Tick may come too late without the
// time counting as missed: timers are never quite in time.
const lateProbe = 4

// Options are the controller's limits. The zero value has the defaults.
type Options struct {
	// SessionTimeout is how long a node may be silent before it counts as dead. A short one
	// mistakes busy nodes for dead ones; a long one prolongs the time without a leader.
	SessionTimeout time.Duration
	// ProbeEvery is the probe interval of each node.
	ProbeEvery time.Duration
	// ConfirmAfter is how long after a refused connection it is tried again
	// before the node counts as dead.
	ConfirmAfter time.Duration
	// FlapWindow is how long a death is held against a node. With two or more,
	// it must be heard of without a gap for FlapHold, doubled with each further
	// one up to MaxFlapHold, before it counts as up.
	FlapWindow, FlapHold, MaxFlapHold time.Duration
	// Elections is the most leaders that one command names, up to
	// meta.MaxElections.
	Elections int
	// MovesPerNode and Moves bound the partitions that are being reassigned, for
	// each node that sends or receives and for the cluster. A move in flight
	// costs disk and network on both ends.
	MovesPerNode, Moves int
	// BalanceAfter is how long a preferred leader must have been up, and the
	// cluster without an election, before leaderships go back. Then
	// BalanceBatch go at once, and as many again after each BalanceEvery.
	BalanceAfter, BalanceEvery time.Duration
	BalanceBatch               int
}

// WithDefaults returns the options with the defaults for what is not set.
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
