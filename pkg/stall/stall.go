// Package stall tracks operations that make no progress, and reports them in the log, the
// health and the metrics. It does not know the causes or remedies.
//
// Invariants:
//
//   - A caller that waits brackets the wait with Begin and End. A wait longer than the limit of
//     the Board is logged once and counts until it ends.
//   - Without waits it does nothing.
//
// Start at Board.
package stall

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Check is the period at which open waits are checked.
const Check = time.Second

// Kind is the kind of operation that makes no progress.
type Kind uint8

const (
	// Role means that a replica does not take the role that the metadata says.
	Role Kind = iota
	// Follower means that a follower of a partition led by this node lacks something, and
	// receives nothing.
	Follower
	// Lead means that the metadata names this node as leader of a partition that it does not
	// lead, or the leadership of a partition of which it has a replica keeps changing.
	Lead
	// Slow means that a follower of a partition led by this node slows publishers down, or was
	// removed from the in-sync set because of that.
	Slow

	kinds // the number of kinds
)

// texts are, for each kind, the code in health and metrics, and its meaning.
var texts = [kinds]struct{ code, what string }{
	Role:     {"role_change_stalled", "replicas have not assumed the role assigned by the metadata"},
	Lead:     {"partitions_not_led", "partitions whose assigned leader is not leading or whose leadership keeps changing, publishes to them wait or fail"},
	Follower: {"replication_stalled", "followers are behind and make no progress"},
	Slow:     {"replica_slow", "followers slow down publishes, or were removed from the in-sync set for that"},
}

// Key identifies an operation that may stall.
type Key struct {
	Kind      Kind
	Topic     string
	Partition int
	Node      meta.NodeID // of the follower; "": this node
}

// String names the partition and the node.
func (k Key) String() string {
	s := fmt.Sprintf("%s/%d", k.Topic, k.Partition)
	if k.Node != "" {
		s += " at " + string(k.Node)
	}
	return s
}

// open is a wait that has not ended.
type open struct {
	since time.Time
	why   string
	told  bool // it was logged
}

// Board holds the operations of a node that make no progress. A goroutine reports each
// wait with Begin and End; a wait that takes longer than a limit is an error in the log,
// a reason in the health and a metric until it ends. A Board may be used by many
// goroutines.
type Board struct {
	log    *slog.Logger
	after  time.Duration
	wakeup chan struct{} // there is one

	mu   sync.Mutex // guards open
	open map[Key]*open
}

// New returns a Board without entries. A wait that takes longer than after is a stall,
// which is detected at most Check later.
func New(log *slog.Logger, after time.Duration) *Board {
	return &Board{log: log, after: after, wakeup: make(chan struct{}, 1), open: map[Key]*open{}}
}

// Begin reports that an operation has made no progress since a time, and why. A
// repeated call keeps the earlier time and takes the newer reason.
func (s *Board) Begin(k Key, since time.Time, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.open[k]; known != nil {
		known.why = why
		return
	}
	s.open[k] = &open{since: since, why: why}
	signal.Poke(s.wakeup)
}

// End reports that the operation progresses again, or is no longer needed.
func (s *Board) End(k Key) {
	s.mu.Lock()
	known := s.open[k]
	delete(s.open, k)
	s.mu.Unlock()
	if known != nil && known.told {
		s.log.Info("progress resumed", "of", texts[k.Kind].what, "topic", k.Topic, "partition", k.Partition, "node", k.Node,
			"after", time.Since(known.since).Round(time.Millisecond))
	}
}

// Run logs stalls until ctx ends. It sleeps while no wait is open.
func (s *Board) Run(ctx context.Context) {
	ticker := time.NewTicker(Check)
	defer ticker.Stop()
	for {
		if !s.check(time.Now()) {
			ticker.Stop()
			select {
			case <-ctx.Done():
				return
			case <-s.wakeup:
			}
			ticker.Reset(Check)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// check logs each stall once, and reports whether any wait is open.
func (s *Board) check(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, x := range s.open {
		if x.told || now.Sub(x.since) < s.after {
			continue
		}
		x.told = true
		s.log.Error("no progress", "of", texts[k.Kind].what, "topic", k.Topic, "partition", k.Partition, "node", k.Node,
			"for", now.Sub(x.since).Round(time.Millisecond), "reason", x.why)
	}
	return len(s.open) > 0
}

// Counts returns the number of stalls of each code, zeros included.
func (s *Board) Counts(now time.Time) map[string]int {
	all := map[string]int{}
	for _, t := range texts {
		all[t.code] = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, x := range s.open {
		if now.Sub(x.since) >= s.after {
			all[texts[k.Kind].code]++
		}
	}
	return all
}

// Reasons returns the stalls of the given kinds, or of all kinds if none is
// given, as reasons for the health: the first ones of each kind are named.
func (s *Board) Reasons(now time.Time, of ...Kind) []health.Reason {
	var named [kinds][]string
	s.mu.Lock()
	for k, x := range s.open {
		if now.Sub(x.since) >= s.after && (len(of) == 0 || slices.Contains(of, k.Kind)) {
			named[k.Kind] = append(named[k.Kind], fmt.Sprintf("%s (%s)", k, cmp.Or(x.why, "reason unknown")))
		}
	}
	s.mu.Unlock()
	var reasons []health.Reason
	for kind, names := range named {
		if len(names) > 0 {
			slices.Sort(names)
			t := texts[kind]
			reasons = append(reasons, health.Reason{Code: t.code, Count: len(names), What: t.what + ": " + health.Names(names)})
		}
	}
	return reasons
}
