// Package quarantine reports the replicas of a node that may have lost messages, and handles the copies
// that it has set aside. It gives no replica a role: pkg/host decides what a damaged replica does.
//
// Invariants:
//
//  1. A suspect replica is reported until the metadata has the report or the replica is not in sync.
//     A report requested during an earlier one is sent as well.
//  2. A set-aside copy is deleted only if an in-sync replica replaces it, its topic is deleted,
//     or an operator discards it.
//
// Start at Suspects.Report and Asides.Release.
package quarantine

import (
	"context"
	"log/slog"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/removal"
)

// Options are what this package uses of a node.
type Options struct {
	Self    meta.NodeID
	Dirs    datadir.Dir
	Meta    *raftstore.Store
	Log     *slog.Logger
	Life    context.Context   // ends when the node closes
	Go      func(func()) bool // runs something in the background, unless the node is closing
	Propose func(context.Context, meta.Command) (meta.Result, error)
	Removal *removal.Remover
	Live    func(topic string, partition int) *commitlog.Log // of a replica on the node; nil: none
}

// New returns the suspects of a node, none of which is reported yet, and its set-aside copies.
func New(o Options) (*Suspects, *Asides) {
	s := &Suspects{o: o, reporting: map[meta.PartitionID]meta.Suspect{}}
	a := &Asides{o: o, suspects: s}
	a.waiting.Store(&[]string{})
	return s, a
}
